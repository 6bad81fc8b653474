"""The engine plays a life: all operations are reached, and a seed gives the same decisions."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from nri_numamem.config.policy import policy_of
from nri_numamem.config.settings import settings_from_mapping
from nri_numamem.engine.core.allowed_nodes import own_nodes
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import check_accounting, check_groups
from tests.engine.conftest import Answer, Host
from tests.sequences.node_life import node_life
from tests.sequences.on_engine import EngineDriver
from tests.sequences.settings import NAMESPACE, PARTITIONS, with_partitions


def played(
    seed: int, steps: int = 80, *, is_orderly: bool = True, has_partitions: bool = False
) -> tuple[Host, Counter[str]]:
    """Play a life with its own machine and settings; return the host and the operations."""
    life = node_life(seed, is_orderly=is_orderly)
    if has_partitions:
        rng = random.Random(f"partitions {seed}")
        life = replace(life, settings=with_partitions(rng, life.machine, life.settings))
    policy = policy_of(settings_from_mapping(life.settings.document()))
    host = Host(Engine(new_context(life.machine, policy)), shows_hugepages=bool(seed % 2))
    driver, kinds = EngineDriver(host, life), Counter[str]()
    for _ in range(steps):
        kinds[type(driver.step()).__name__] += 1
        accounting = host.engine.state.accounting
        assert check_accounting(accounting) == check_groups(accounting) == ()
    return host, kinds


@pytest.mark.parametrize("seed", range(1, 11))
def test_the_accounting_holds(seed: int) -> None:
    played(seed)
    played(seed, is_orderly=False)


@pytest.mark.parametrize("is_orderly", [True, False])
def test_pods_stay_in_their_partitions(*, is_orderly: bool) -> None:
    placed: Counter[str] = Counter()
    for seed in range(1, 17):
        host, _ = played(seed, is_orderly=is_orderly, has_partitions=True)
        context, state = host.engine.context, host.engine.state
        for pod in state.pods.values():
            allowed, nodes = context.allowed_nodes(pod), own_nodes(state.accounting, pod)
            assert allowed is not None
            assert nodes.issubset(allowed.nodes)
            placed[pod.namespace] += bool(nodes)
        for answer in host.answers:
            placed.update(record.event for record in answer.records)
    assert min(placed[name] for name in (*PARTITIONS, NAMESPACE, "confined", "rejected")) > 5


def test_all_operations_are_reached() -> None:
    kinds: Counter[str] = Counter()
    refused = 0
    for seed in range(11, 17):
        host, found = played(seed)
        kinds += found
        refused += sum(answer.refusal is not None for answer in host.answers)
    assert len(kinds) == 7
    assert min(kinds.values()) > 3
    assert refused > 20


def test_a_seed_has_the_same_decisions() -> None:
    answers: list[list[Answer]] = [played(4)[0].answers for _ in range(2)]
    assert answers[0] == answers[1]
