"""Random machines: equal for a seed, with and without nodes that have no CPUs."""

import random

from nri_numamem.numa import NodeSet
from tests.faults.host import allocatable
from tests.sequences.machine import (
    changed_machine,
    movable,
    random_machine,
    random_reservation,
    without_cpus,
)


def test_some_machines_have_nodes_without_cpus() -> None:
    rng = random.Random(1)
    machines = [random_machine(rng) for _ in range(50)]
    assert {len(without_cpus(machine)) for machine in machines} == {0, 1, 4}
    for machine in machines:
        excluded = without_cpus(machine)
        assert 0 not in excluded
        used = {node_id for node_id, _ in allocatable(machine, {}, excluded)}
        assert NodeSet(used) == machine.node_set - excluded


def test_movable_nodes_have_no_cpus() -> None:
    machines = [random_machine(random.Random(seed)) for seed in range(40)]
    assert any(movable(machine) for machine in machines)
    assert all(movable(machine).issubset(without_cpus(machine)) for machine in machines)


def test_a_seed_has_one_machine_and_one_change() -> None:
    first, second = (random_machine(random.Random(3)) for _ in range(2))
    assert first == second
    changes = {changed_machine(random.Random(seed), first)[1] for seed in range(30)}
    assert any("pages of 2Mi" in what for what in changes)
    assert any("every MemTotal" in what for what in changes)
    assert any("1Gi more" in what for what in changes)


def test_node_0_has_a_reservation() -> None:
    machine = random_machine(random.Random(3))
    for seed in range(10):
        reserved = random_reservation(random.Random(seed), machine)
        assert 0 in reserved
        assert reserved.keys() <= set(machine.node_set)
