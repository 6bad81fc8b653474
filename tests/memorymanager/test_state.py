from nri_numamem.memorymanager import (
    Block,
    Machine,
    NodeSet,
    NodeState,
    NumaNode,
    State,
    Table,
    check_books,
    default_state,
    state_as_written,
)
from nri_numamem.memorymanager.state import Assignments

MI = 2**20


def test_the_books_of_an_empty_machine() -> None:
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


def test_too_much_reserved_leaves_nothing_and_never_wraps() -> None:
    machine = Machine((NumaNode(0, 10 * MI, {2 * MI: 4}),))
    state = default_state(machine, {0: {"memory": 3 * MI, "hugepages-2Mi": 9 * MI}})
    tables = state.machine_state[0].memory_map
    assert tables["memory"] == Table(10 * MI, 3 * MI, 0, 0, 0)
    assert tables["hugepages-2Mi"] == Table(8 * MI, 9 * MI, 0, 0, 0)
    assert check_books(state) == ()


def test_a_resource_that_a_node_lacks_counts_as_zeros() -> None:
    node = NodeState(0, {}, NodeSet([0]))
    assert node.table("hugepages-1Gi") == Table(0, 0, 0, 0, 0)


def test_bytes_move_between_free_and_reserved() -> None:
    table = Table(10, 1, 9, 2, 7)
    assert table.take(3) == Table(10, 1, 9, 5, 4)
    assert table.take(-2) == Table(10, 1, 9, 0, 9)


def test_unknown_and_empty_assignments_differ() -> None:
    state = State({}, {"pod": {"empty": ()}})
    assert state.blocks("pod", "empty") == ()
    assert state.blocks("pod", "other") is None
    assert state.blocks("other", "empty") is None


def test_where_bytes_lie_is_no_part_of_what_a_block_is() -> None:
    assert Block(NodeSet([0]), "memory", 1, ((0, 1),)) == Block(NodeSet([0]), "memory", 1)


def test_books_that_somebody_else_wrote() -> None:
    """Blocks are laid over what is reserved, lowest node first, as far as it reaches."""
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


def test_what_may_be_reused_is_counted_per_set_and_resource() -> None:
    blocks = (
        Block(NodeSet([0]), "memory", 5, ((0, 5),)),
        Block(NodeSet([0]), "hugepages-2Mi", 2, ((0, 2),)),
        Block(NodeSet([1]), "memory", 3, ((1, 3),)),
    )
    state = State({}, {"pod": {"x": blocks, "y": blocks}}, {"pod": ("x",)})
    assert state.reusable_bytes("pod", NodeSet([0]), "memory") == 5
    assert state.reusable_bytes("pod", NodeSet([0, 1]), "memory") == 0
    assert state.reusable_bytes("other", NodeSet([0]), "memory") == 0
