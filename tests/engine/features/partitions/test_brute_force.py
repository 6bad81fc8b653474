"""Pods of a partition are placed as on a machine that has only its nodes."""

from dataclasses import replace
from random import Random

import pytest

from nri_numamem.engine.core.policy import Policy
from nri_numamem.numa import Exclusive
from tests.engine.features.partitions.random_pods import RandomPods
from tests.engine.features.partitions.twins import (
    POLICIES,
    Alone,
    Twins,
    exclusive_partitions,
    machine_of,
)

pytestmark = pytest.mark.slow  # a comparison with other engines

SEEDS = 12
STEPS = 60


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("unsatisfiable", ["Reject", "RunUnpinned"])
def test_exclusive_partitions(policy: str, scope: str, unsatisfiable: str) -> None:
    admitted = refused = 0
    settings = Policy(
        topology_manager_policy=policy,
        topology_manager_scope=scope,
        when_unsatisfiable=unsatisfiable,
    )
    for seed in range(SEEDS):
        rng = Random(f"{policy} {scope} {seed}")
        count = rng.choice((2, 3, 4))
        machine = machine_of(rng, count)
        partitions = exclusive_partitions(rng, count)
        twins = Twins.of(machine, replace(settings, partitions=partitions))
        pods = RandomPods(rng, twins)
        pods.play(STEPS)
        admitted += pods.admitted
        refused += pods.refused
    assert admitted > 50
    assert (refused > 20) is (unsatisfiable == "Reject")


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", POLICIES)
def test_partitions_that_share_their_nodes(policy: str, scope: str) -> None:
    """Pods stay on their nodes, and a pod that begins leaves what begun pods need there."""
    admitted = refused = 0
    settings = Policy(topology_manager_policy=policy, topology_manager_scope=scope)
    for seed in range(SEEDS):
        rng = Random(f"shared {policy} {scope} {seed}")
        count = rng.choice((2, 3, 4))
        machine = machine_of(rng, count)
        partitions = tuple(
            replace(each, exclusive=rng.choice((Exclusive.NONE, each.exclusive)))
            for each in exclusive_partitions(rng, count)
        )
        alone = Alone.of(machine, replace(settings, partitions=partitions))
        pods = RandomPods(rng, alone)
        pods.play(STEPS)
        admitted += pods.admitted
        refused += pods.refused
    assert admitted > 50
    assert refused > 20
