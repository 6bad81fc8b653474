"""Classes of nodes: the facts that decide, the overrides, and what follows from the settings."""

from collections.abc import Mapping

import pytest

from nri_numamem.numa import (
    CpuSet,
    Machine,
    MemoryNodes,
    MemoryNodesError,
    NodeClass,
    NodeSet,
    NodeUse,
    NumaNode,
    WithoutCpus,
    classify,
    without_nodes,
)

GI = 1 << 30


def node(node_id: int, cpus: str = "", **facts: object) -> NumaNode:
    return NumaNode(node_id, GI, cpus=CpuSet.parse(cpus), **facts)  # type: ignore[arg-type]


def grace() -> Machine:
    """Two nodes with CPUs, and 32 nodes of GPUs, of which two have memory."""
    gpus = [
        NumaNode(n, GI if n in (2, 10) else 0, is_movable_only=n in (2, 10)) for n in range(2, 34)
    ]
    return Machine((node(0, "0-71"), node(1, "72-143"), *gpus))


def classes(machine: Machine, settings: MemoryNodes | None = None) -> Mapping[int, NodeClass]:
    return classify(machine, settings or MemoryNodes()).classes


def test_the_kernels_facts_decide() -> None:
    machine = Machine((node(0, "0"), node(1), node(2, is_movable_only=True)))
    assert classes(machine) == {0: "dram", 1: "cpuless", 2: "movable"}


def test_a_node_with_cpus_is_dram_whatever_its_zone_and_tier() -> None:
    machine = Machine((node(0, "0", memory_tier=4), node(1, "1", is_movable_only=True)))
    assert classes(machine) == {0: "dram", 1: "dram"}


def test_the_tier_does_not_decide() -> None:
    tiers = Machine((node(0, "0", memory_tier=4), node(1, memory_tier=4), node(2, memory_tier=22)))
    assert classes(tiers) == {0: "dram", 1: "cpuless", 2: "cpuless"}


def test_where_no_node_has_cpus_all_are_dram() -> None:
    found = classify(Machine((node(0), node(1, is_movable_only=True))), MemoryNodes())
    assert found.classes == {0: "dram", 1: "dram"}
    assert not found.has_cpus
    assert not found.excluded
    assert classify(Machine(()), MemoryNodes()).classes == {}


def test_an_override_replaces_the_facts() -> None:
    machine = Machine((node(0, "0"), node(1, "1"), node(2), node(3, is_movable_only=True)))
    override = {1: NodeClass.CPULESS, 2: NodeClass.DRAM, 3: NodeClass.DRAM, 9: NodeClass.DRAM}
    found = classify(machine, MemoryNodes(override=override))
    assert found.classes == {0: "dram", 1: "cpuless", 2: "dram", 3: "dram"}
    assert found.excluded == NodeSet([1])


@pytest.mark.parametrize(
    ("action", "excluded", "last_resort", "use"),
    [
        (WithoutCpus.EXCLUDE, "2-33", "", NodeUse.EXCLUDED),
        (WithoutCpus.LAST_RESORT, "", "2-33", NodeUse.LAST_RESORT),
        (WithoutCpus.USE, "", "", NodeUse.USED),
    ],
)
def test_what_nodes_without_cpus_are_for(
    action: WithoutCpus, excluded: str, last_resort: str, use: NodeUse
) -> None:
    found = classify(grace(), MemoryNodes(action))
    assert str(found.excluded) == excluded
    assert str(found.last_resort) == last_resort
    assert (found.use_of(0), found.use_of(33)) == (NodeUse.USED, use)


def test_the_nearest_node_with_cpus() -> None:
    distances = {0: 40, 1: 30, 2: 10, 3: 12, 4: 30}
    machine = Machine(
        (
            node(0, "0"),
            node(1, "1"),
            node(2, distances=distances),
            node(3),
            node(4, "4"),
            node(5, distances={0: 30, 1: 20, 4: 20}),
        )
    )
    found = classify(machine, MemoryNodes())
    # Without distances all are equally near; of equal ones the lowest counts.
    assert found.nearest == {2: 1, 3: 0, 5: 1}
    assert found.project(NodeSet([2, 3, 4])) == NodeSet([0, 1, 4])
    assert found.project(NodeSet([0, 4])) == NodeSet([0, 4])
    assert classify(machine, MemoryNodes(WithoutCpus.USE)).project(NodeSet([2])) == NodeSet([2])
    only_memory = classify(machine, MemoryNodes(override={2: NodeClass.DRAM}))
    assert only_memory.nearest == {3: 0, 5: 1}


def test_the_nearest_node_where_no_used_node_has_cpus() -> None:
    machine = Machine((node(0), node(1, "1"), node(2)))
    override = {0: NodeClass.DRAM, 1: NodeClass.CPULESS}
    assert classify(machine, MemoryNodes(override=override)).nearest == {1: 0, 2: 0}


def test_settings_must_leave_a_node() -> None:
    machine = Machine((node(0, "0"), node(1)))
    override = {0: NodeClass.CPULESS}
    with pytest.raises(MemoryNodesError, match=r"every NUMA node of this machine \(0-1\); leave"):
        classify(machine, MemoryNodes(override=override))
    found = classify(machine, MemoryNodes(WithoutCpus.LAST_RESORT, override))
    assert found.last_resort == NodeSet([0, 1])
    assert found.project(NodeSet([1])) == NodeSet([1])


def test_a_machine_without_some_nodes() -> None:
    machine = grace()
    assert without_nodes(machine, NodeSet(range(2, 34))).node_set == NodeSet([0, 1])
    assert without_nodes(machine, NodeSet()) is machine
