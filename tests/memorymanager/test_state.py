from dataclasses import replace

import pytest

from nri_numamem.memorymanager import (
    AccountingError,
    Block,
    NodeState,
    State,
    Table,
    check_accounting,
    default_state,
    state_as_written,
)
from nri_numamem.memorymanager.state import Assignments, present_resources
from nri_numamem.numa import Machine, NodeSet, NumaNode

MI = 2**20


def test_the_state_of_an_empty_machine() -> None:
    machine = Machine((NumaNode(0, 100 * MI, {2 * MI: 10, 2**30: 0}), NumaNode(5, 0)))
    reserved = {0: {"memory": 7 * MI, "hugepages-2Mi": 4 * MI}}
    state = default_state(machine, reserved)
    node = state.machine_state[0]
    assert node.memory_map == {
        "memory": Table(100 * MI, 7 * MI, 73 * MI, 0, 73 * MI),
        "hugepages-2Mi": Table(20 * MI, 4 * MI, 16 * MI, 0, 16 * MI),
        "hugepages-1Gi": Table(0, 0, 0, 0, 0),
    }
    assert (node.number_of_assignments, node.cells) == (0, NodeSet([0]))
    assert state.machine_state[5] == NodeState(0, {"memory": Table(0, 0, 0, 0, 0)}, NodeSet([5]))
    assert state.assignments == {}
    assert state.reusable == {}


def test_excessive_reservations_leave_nothing_allocatable() -> None:
    machine = Machine((NumaNode(0, 10 * MI, {2 * MI: 4}),))
    state = default_state(machine, {0: {"memory": 3 * MI, "hugepages-2Mi": 9 * MI}})
    tables = state.machine_state[0].memory_map
    assert tables["memory"] == Table(10 * MI, 3 * MI, 0, 0, 0)
    assert tables["hugepages-2Mi"] == Table(8 * MI, 9 * MI, 0, 0, 0)
    assert check_accounting(state) == ()


def test_the_table_of_a_missing_resource_is_zeros() -> None:
    node = NodeState(0, {}, NodeSet([0]))
    assert node.table("hugepages-1Gi") == Table(0, 0, 0, 0, 0)


def test_bytes_move_between_free_and_reserved() -> None:
    table = Table(10, 1, 9, 2, 7)
    assert table.charge(3) == Table(10, 1, 9, 5, 4)
    assert table.charge(-2) == Table(10, 1, 9, 0, 9)
    for size_bytes in (8, -3):
        with pytest.raises(AccountingError, match=f"cannot charge {size_bytes} bytes"):
            table.charge(size_bytes)


def test_a_container_without_blocks_is_not_an_unknown_container() -> None:
    state = State({}, {"pod": {"empty": ()}})
    assert state.blocks("pod", "empty") == ()
    assert state.blocks("pod", "other") is None
    assert state.blocks("other", "empty") is None


def test_charges_do_not_count_in_comparisons_of_blocks() -> None:
    assert Block(NodeSet([0]), "memory", 1, ((0, 1),)) == Block(NodeSet([0]), "memory", 1)


def test_reserved_bytes_of_a_written_state_are_attributed_to_blocks() -> None:
    """Blocks get the reserved bytes, lowest node first, as far as they suffice."""
    both = NodeSet([0, 1])
    machine_state = {
        1: NodeState(2, {"memory": Table(9, 0, 9, 4, 5)}, both),
        0: NodeState(2, {"memory": Table(9, 0, 9, 3, 6)}, both),
    }
    assignments: Assignments = {
        "a": {"x": (Block(both, "memory", 5),)},
        "b": {"x": (Block(both, "memory", 6), Block(NodeSet([7]), "hugepages-2Mi", 2))},
    }
    state = state_as_written(machine_state, assignments)
    assert list(state.machine_state) == [0, 1]
    assert state.machine_state == machine_state
    assert [node.spans for node in state.machine_state.values()] == [{both: 2}, {both: 2}]
    [first] = state.assignments["a"]["x"]
    second, third = state.assignments["b"]["x"]
    assert first.charges == ((0, 3), (1, 2))
    assert (second.charges, second.charged, second.size) == (((1, 2),), 2, 6)
    assert third.charges == ()
    assert first.is_backed
    assert second.is_backed  # its charges are a guess
    assert not replace(second, are_charges_known=True).is_backed


def test_reusable_bytes_per_node_set_and_resource() -> None:
    blocks = (
        Block(NodeSet([0]), "memory", 5, ((0, 5),)),
        Block(NodeSet([0]), "hugepages-2Mi", 2, ((0, 2),)),
        Block(NodeSet([1]), "memory", 3, ((1, 3),)),
    )
    state = State({}, {"pod": {"x": blocks, "y": blocks}}, {"pod": ("x",)})
    assert state.reusable_bytes("pod", NodeSet([0]), "memory") == 5
    assert state.reusable_bytes("pod", NodeSet([0, 1]), "memory") == 0
    assert state.reusable_bytes("other", NodeSet([0]), "memory") == 0


def test_the_resources_that_a_machine_has() -> None:
    nodes = (NumaNode(0, 8, {4 << 20: 0, 1 << 30: 1}), NumaNode(1, 8, {2 << 20: 3}))
    state = default_state(Machine(nodes), {})
    assert present_resources(state) == ["memory", "hugepages-2Mi", "hugepages-1Gi"]
