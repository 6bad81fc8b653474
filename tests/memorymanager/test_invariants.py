from dataclasses import replace
from types import ModuleType

import pytest

from nri_numamem.memorymanager import Block, NodeSet, State, check_books, check_groups
from nri_numamem.memorymanager.books import assign

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


def test_right_books_raise_no_complaint(state: State) -> None:
    assert check_books(state) == check_groups(state) == ()


def test_wrong_tables(state: State) -> None:
    assert "negative" in check_books(with_table(state, 0, free=-1))[0]
    assert any("allocatable together" in line for line in check_books(with_table(state, 2, free=3)))
    assert any("what the total leaves" in x for x in check_books(with_table(state, 2, total=9)))
    assert any("blocks hold there" in x for x in check_books(with_table(state, 2, reserved=1)))


def test_wrong_blocks(state: State) -> None:
    greedy = with_block(state, Block(N01, "memory", 4, ((0, 4), (1, 1))))
    assert check_books(greedy) == ("a/x memory: holds 5 of 4 bytes",)
    astray = with_block(state, Block(NodeSet([0]), "memory", 5, ((0, 4), (1, 1))))
    assert "a/x memory: holds bytes outside 0" in check_books(astray)
    lost = replace(state, reusable={"a": ("y",)})
    assert check_books(lost) == ("a/y: reusable but not assigned",)


def test_wrong_counts(state: State) -> None:
    assert check_books(with_node(state, 1, number_of_assignments=3)) == (
        "node 1: 3 assignments, not 1",
    )
    assert check_books(with_node(state, 1, spans={NodeSet([1]): 1})) == (
        "node 1: blocks are counted on other sets of nodes than they lie on",
    )


def test_wrong_groups(state: State) -> None:
    assert check_groups(with_node(state, 2, cells=N01))[0] == "node 2: not in its own group 0-1"
    idle = check_groups(with_node(state, 2, cells=NodeSet([2, 9])))
    assert idle[0] == "node 2: in group 2,9 without an assignment"
    assert "nodes 2 and 9: one group, two descriptions" in idle
    assert check_groups(with_node(state, 0, cells=NodeSet([0]))) == (
        "nodes 1 and 0: one group, two descriptions",
        "a/x memory: node 0 is not in group 0-1",
    )
    unknown = with_block(state, Block(NodeSet([7]), "memory", 0))
    assert check_groups(unknown) == ("a/x memory: node 7 is not in group 7",)
