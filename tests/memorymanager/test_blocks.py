"""Blocks on nodes: charges, counts and groups of their nodes, and their removal."""

from types import ModuleType

import pytest

from nri_numamem.memorymanager import AccountingError, NodeState, State
from nri_numamem.memorymanager.blocks import (
    add_blocks,
    known_nodes,
    release_charges,
    remove_blocks,
    resource_order,
    shortfall_of,
    sum_blocks,
)
from nri_numamem.numa import NodeSet

N0, N1, N01 = NodeSet([0]), NodeSet([1]), NodeSet([0, 1])


@pytest.fixture
def machine(worlds: ModuleType) -> dict[int, NodeState]:
    made = worlds.empty_state({n: {"memory": 4, "hugepages-2Mi": 2} for n in range(3)})
    assert isinstance(made, State)
    return dict(made.machine_state)


def free(machine: dict[int, NodeState], resource: str = "memory") -> list[int]:
    return [node.table(resource).free for node in machine.values()]


def test_memory_is_sorted_before_hugepages() -> None:
    names = ["hugepages-2Mi", "memory", "hugepages-1Gi"]
    assert sorted(names, key=resource_order) == ["memory", "hugepages-1Gi", "hugepages-2Mi"]


def test_the_lowest_node_is_filled_first(machine: dict[int, NodeState]) -> None:
    before = dict(machine)
    memory, pages = add_blocks(machine, N01, {"hugepages-2Mi": 1, "memory": 5})
    assert (memory.charges, pages.charges) == (((0, 4), (1, 1)), ((0, 1),))
    assert (free(machine), free(machine, "hugepages-2Mi")) == ([0, 3, 4], [1, 2, 2])
    assert [node.number_of_assignments for node in machine.values()] == [2, 2, 0]
    assert [node.cells for node in machine.values()] == [N01, N01, NodeSet([2])]
    assert machine[0].spans == {N01: 2}
    assert free(before) == [4, 4, 4]
    assert machine[2] is before[2]


def test_reused_bytes_are_not_charged_again(machine: dict[int, NodeState]) -> None:
    (block,) = add_blocks(machine, N0, {"memory": 3}, {"memory": {0: 2}})
    assert block.charges == ((0, 3),)
    assert free(machine) == [3, 4, 4]


def test_what_exceeds_the_free_bytes_is_a_shortfall(machine: dict[int, NodeState]) -> None:
    blocks = add_blocks(machine, N1, {"memory": 7, "hugepages-2Mi": 2, "hugepages-1Gi": 1})
    assert shortfall_of(blocks) == {"memory": 3, "hugepages-1Gi": 1}
    assert free(machine) == [4, 0, 4]


def test_unknown_nodes_are_in_no_group(machine: dict[int, NodeState]) -> None:
    nodes = NodeSet([0, 9])
    (block,) = add_blocks(machine, nodes, {"memory": 5})
    assert (block.numa_affinity, block.charges) == (nodes, ((0, 4),))
    assert (machine[0].cells, machine[0].spans) == (N0, {nodes: 1})
    assert machine.keys() == {0, 1, 2}
    assert known_nodes(machine, nodes) == N0
    assert known_nodes(machine, N01) is N01


def test_a_node_joins_the_groups_of_its_blocks(machine: dict[int, NodeState]) -> None:
    add_blocks(machine, N0, {"memory": 1})
    add_blocks(machine, N01, {"memory": 1})
    assert (machine[0].cells, machine[1].cells) == (N01, N01)
    assert machine[0].spans == {N0: 1, N01: 1}


def test_an_empty_request_makes_no_blocks(machine: dict[int, NodeState]) -> None:
    before = dict(machine)
    assert add_blocks(machine, N01, {}) == ()
    assert machine == before


def test_more_reused_than_requested_is_a_bug(machine: dict[int, NodeState]) -> None:
    before = dict(machine)
    with pytest.raises(AccountingError, match="1 bytes more than requested are charged to 0-1"):
        add_blocks(machine, N01, {"memory": 3}, {"memory": {0: 2, 1: 2}})
    assert machine == before


def test_removed_blocks_leave_nothing(machine: dict[int, NodeState]) -> None:
    before = dict(machine)
    blocks = add_blocks(machine, N01, {"memory": 5, "hugepages-2Mi": 1})
    remove_blocks(machine, blocks)
    assert machine == before
    assert machine[0].spans == {}


def test_what_is_not_charged_cannot_be_released(machine: dict[int, NodeState]) -> None:
    for node_id, resource in ((9, "memory"), (0, "hugepages-1Gi")):
        with pytest.raises(AccountingError, match=f"node {node_id} has no {resource} to release"):
            release_charges(machine, resource, [(node_id, 1)])
    with pytest.raises(AccountingError, match="cannot charge -1 bytes"):
        release_charges(machine, "memory", [(0, 1)])


def test_sums_of_blocks(machine: dict[int, NodeState]) -> None:
    blocks = [*add_blocks(machine, N01, {"memory": 5, "hugepages-2Mi": 1})]
    blocks += add_blocks(machine, N1, {"memory": 9})
    assert sum_blocks(blocks) == {"memory": 14, "hugepages-2Mi": 1}
