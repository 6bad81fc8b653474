from dataclasses import replace
from types import ModuleType

import pytest

from nri_numamem.memorymanager import Block, State, check_accounting, check_groups
from nri_numamem.memorymanager.accounting import adopt, assign
from nri_numamem.memorymanager.invariants import MAX_VIOLATIONS
from nri_numamem.numa import NodeSet

N01 = NodeSet([0, 1])


@pytest.fixture
def state(worlds: ModuleType) -> State:
    empty = worlds.empty_state({0: {"memory": 4}, 1: {"memory": 4}, 2: {"memory": 4}})
    return assign(empty, "a", "x", N01, {"memory": 5})


def with_node(state: State, node_id: int, **changes: object) -> State:
    node = replace(state.machine_state[node_id], **changes)  # type: ignore[arg-type]
    return replace(state, machine_state={**state.machine_state, node_id: node})


def with_table(state: State, node_id: int, **changes: int) -> State:
    tables = state.machine_state[node_id].memory_map
    table = replace(tables["memory"], **changes)
    return with_node(state, node_id, memory_map={**tables, "memory": table})


def with_block(state: State, block: Block) -> State:
    return replace(state, assignments={"a": {"x": (block,)}})


def only(state: State) -> str:
    (violation,) = check_accounting(state)
    return violation


def test_a_right_state_has_no_violations(state: State) -> None:
    assert check_accounting(state) == check_groups(state) == ()


def test_wrong_tables(state: State) -> None:
    assert "negative" in check_accounting(with_table(state, 0, free=-1))[0]
    assert only(with_table(state, 2, free=3)) == (
        "node 2 memory: free and reserved do not add up to allocatable"
    )
    assert only(with_table(state, 2, total=9)) == (
        "node 2 memory: allocatable 4 does not follow from the total"
    )
    assert only(with_table(state, 2, reserved=1, free=3)) == (
        "node 2 memory: reserved 1, but the blocks' charges 0"
    )


def test_charges_without_a_table(state: State) -> None:
    remaining = {0: replace(state.machine_state[0], cells=NodeSet([0]))}
    assert only(replace(state, machine_state=remaining)) == (
        "node 1 memory: blocks have charges on a table that does not exist"
    )


def test_wrong_blocks(state: State) -> None:
    assert only(with_block(state, Block(N01, "memory", 4, ((0, 4), (1, 1))))) == (
        "a/x memory: 5 bytes charged, but the size is 4"
    )
    outside = with_block(state, Block(NodeSet([0]), "memory", 5, ((0, 4), (1, 1))))
    assert "a/x memory: charges on nodes outside 0" in check_accounting(outside)
    assert only(with_block(state, Block(N01, "memory", 5, ((1, 1), (0, 4))))) == (
        "a/x memory: charges ((1, 1), (0, 4)) are not ascending and positive"
    )
    empty = with_block(state, Block(N01, "memory", 5, ((0, 4), (1, 1), (2, 0))))
    assert "not ascending and positive" in check_accounting(empty)[0]


def test_blocks_of_a_container_on_different_node_sets(state: State) -> None:
    blocks = (*state.assignments["a"]["x"], Block(NodeSet([2]), "hugepages-2Mi", 0))
    wrong = replace(state, assignments={"a": {"x": blocks}})
    assert "a/x: blocks are on different node sets" in check_accounting(wrong)


def test_wrong_reusable_containers(state: State) -> None:
    assert only(replace(state, reusable={"a": ("y",)})) == "a/y: reusable, but not assigned"
    repeated = only(replace(state, reusable={"a": ("x", "x")}))
    assert repeated == "a: reusable containers ('x', 'x') are missing or repeated"
    assert "missing or repeated" in only(replace(state, reusable={"a": ()}))


def test_wrong_counts(state: State) -> None:
    assert only(with_node(state, 1, number_of_assignments=3)) == (
        "node 1: 3 assignments, but 1 blocks"
    )
    assert only(with_node(state, 1, spans={NodeSet([1]): 1})) == (
        "node 1: the counts per node set differ from the blocks"
    )
    assert only(with_node(state, 1, cells=NodeSet([1]))) == (
        "node 1: group 1, but its blocks are on 0-1"
    )
    assert only(with_node(state, 2, cells=N01)) == "node 2: group 0-1, but its blocks are on 2"


def test_the_number_of_violations_is_limited(worlds: ModuleType) -> None:
    empty: State = worlds.empty_state({n: {"memory": 4} for n in range(64)})
    broken = State({n: replace(node, cells=N01) for n, node in empty.machine_state.items()})
    assert len(check_accounting(broken)) == MAX_VIOLATIONS
    assert len(check_groups(broken)) == MAX_VIOLATIONS


def test_an_adopted_container_may_mix_groups(state: State) -> None:
    adopted = adopt(state, "b", "y", NodeSet([1, 2]), {"memory": 1}).state
    assert check_accounting(adopted) == ()
    assert "nodes 0 and 1: one group, two descriptions" in check_groups(adopted)


def test_wrong_groups(state: State) -> None:
    assert check_groups(with_node(state, 2, cells=N01))[0] == "node 2: not in its own group 0-1"
    unassigned = check_groups(with_node(state, 2, cells=NodeSet([2, 9])))
    assert unassigned[0] == "node 2: in group 2,9 without an assignment"
    assert "nodes 2 and 9: one group, two descriptions" in unassigned
    assert check_groups(with_node(state, 0, cells=NodeSet([0]))) == (
        "nodes 1 and 0: one group, two descriptions",
        "a/x memory: node 0 is not in group 0-1",
    )
    unknown = with_block(state, Block(NodeSet([7]), "memory", 0))
    assert check_groups(unknown) == ()  # a node that the machine lacks is in no group
