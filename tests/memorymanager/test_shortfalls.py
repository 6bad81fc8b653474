"""Shortfalls are charged when there is room; a brute force over all cuts has the amounts."""

from itertools import chain, combinations
from random import Random
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Block,
    State,
    adopt,
    charge_shortfalls,
    check_accounting,
    check_shortfalls,
    remove_container,
    remove_pod,
    state_as_written,
)
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.shortfalls import has_shortfall
from nri_numamem.memorymanager.state import Assignments
from nri_numamem.numa import NodeSet

N0, N1, N01, N12 = (NodeSet.parse(text) for text in ("0", "1", "0-1", "1-2"))


@pytest.fixture
def empty(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 8, "hugepages-2Mi": 2} for n in range(3)})
    assert isinstance(made, State)
    return made


def adopted(state: State, *containers: tuple[str, NodeSet, int]) -> State:
    for uid, nodes, size in containers:
        state = adopt(state, uid, "x", nodes, {"memory": size}).state
    return state


def free(state: State, resource: str = "memory") -> list[int]:
    return [node.memory_map[resource].free for node in state.machine_state.values()]


def charges(state: State, uid: str) -> dict[int, int]:
    (block,) = state.blocks(uid, "x") or ()
    return dict(block.charges)


def test_what_a_container_leaves_is_charged_to_a_shortfall(empty: State) -> None:
    state = adopted(empty, ("a", N0, 4), ("b", N0, 3), ("c", N0, 6))
    assert charge_shortfalls(state) is state
    short = [uid for uid in "abc" if has_shortfall(state.blocks(uid, "x") or ())]
    assert short == ["c"]
    left = remove_pod(state, "b")
    assert check_shortfalls(left) == (
        "c/x memory: 3 bytes are not charged to nodes 0, although there is room",
    )
    after = charge_shortfalls(left)
    assert (free(after), charges(after, "c")) == ([0, 8, 8], {0: 4})
    after = charge_shortfalls(remove_pod(after, "a"))
    assert (free(after), charges(after, "c")) == ([2, 8, 8], {0: 6})
    assert check_accounting(after) == check_shortfalls(after) == ()
    assert remove_pod(after, "c") == empty


def test_a_state_without_shortfalls_does_not_change(empty: State) -> None:
    state = assign(empty, "a", "x", N01, {"memory": 9})
    assert charge_shortfalls(state) is state
    assert check_shortfalls(state) == ()


def test_several_shortfalls_and_resources_are_charged(empty: State) -> None:
    state = adopt(empty, "a", "x", N01, {"memory": 16, "hugepages-2Mi": 3}).state
    state = adopt(state, "b", "x", N01, {"memory": 5, "hugepages-2Mi": 4}).state
    state = adopt(state, "c", "x", N01, {"memory": 2, "hugepages-2Mi": 0}).state
    after = charge_shortfalls(remove_pod(state, "a"))
    assert free(after) == [1, 8, 8]
    assert free(after, "hugepages-2Mi") == [0, 0, 2]
    assert check_accounting(after) == check_shortfalls(after) == ()


def test_nodes_without_the_resource_are_left_alone(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": 8, "hugepages-2Mi": 2}, 1: {"memory": 8}})
    for uid in "ab":
        state = adopt(state, uid, "x", N01, {"memory": 1, "hugepages-2Mi": 2}).state
    after = charge_shortfalls(remove_pod(state, "a"))
    assert after.machine_state[0].memory_map["hugepages-2Mi"].free == 0
    assert check_accounting(after) == check_shortfalls(after) == ()


def test_another_container_makes_room_on_its_own_nodes(empty: State) -> None:
    """A container on two nodes is charged to the lower one, where one on one node needs room."""
    state = adopted(empty, ("wide", N01, 8), ("narrow", N0, 6))
    after = charge_shortfalls(state)
    assert charges(after, "narrow") == {0: 6}
    assert charges(after, "wide") == {0: 2, 1: 6}
    assert free(after) == [0, 2, 8]
    assert check_accounting(after) == ()


def test_room_is_made_through_several_containers(empty: State) -> None:
    state = adopted(empty, ("b", N12, 8), ("a", N01, 8), ("c", N0, 8))
    assert free(state) == [0, 0, 8]
    after = charge_shortfalls(state)
    assert charges(after, "c") == {0: 8}
    assert charges(after, "a") == {1: 8}
    assert charges(after, "b") == {2: 8}
    assert check_accounting(after) == ()


def test_nodes_that_the_machine_lacks_hold_nothing(empty: State) -> None:
    state = adopted(empty, ("a", N0, 6), ("b", NodeSet([0, 9]), 5), ("c", NodeSet([9]), 5))
    assert charges(state, "b") == {0: 2}
    after = charge_shortfalls(remove_pod(state, "a"))
    assert (charges(after, "b"), charges(after, "c")) == ({0: 5}, {})
    pages = adopt(after, "d", "x", N1, {"hugepages-1Gi": 1}).state
    assert charge_shortfalls(pages) is pages  # no node has this size


def test_a_written_state_is_left_as_it_is(empty: State) -> None:
    """Its blocks may be larger than what its tables have as reserved."""
    entries: Assignments = {"a": {"x": (Block(N0, "memory", 5),)}}
    state = state_as_written(empty.machine_state, entries)
    assert charge_shortfalls(state) is state
    assert charges(charge_shortfalls(adopted(state, ("b", N0, 9))), "a") == {}


def most_charged(blocks: list[tuple[NodeSet, int]], capacity: int, nodes: int) -> int:
    """Return the value of a maximum flow from blocks to nodes: that of the smallest cut."""
    every = range(nodes)
    sets = chain.from_iterable(combinations(every, size) for size in range(nodes + 1))
    return min(
        capacity * len(cut) + sum(size for on, size in blocks if not set(on) <= set(cut))
        for cut in sets
    )


@pytest.mark.parametrize("seed", range(30))
def test_what_is_free_does_not_depend_on_the_order(worlds: ModuleType, seed: int) -> None:
    random = Random(seed)
    sets = [NodeSet(random.sample(range(4), random.randint(1, 3))) for _ in range(4)]
    state: State = worlds.empty_state({n: {"memory": 8} for n in range(4)})
    held: dict[str, tuple[NodeSet, int]] = {}
    for step in range(60):
        uid = f"p{step}"
        if held and random.random() < 0.45:
            uid = random.choice(sorted(held))
            del held[uid]
            state = charge_shortfalls(remove_container(state, uid, "x"))
        else:
            held[uid] = (random.choice(sets), random.randint(0, 12))
            state = charge_shortfalls(adopted(state, (uid, *held[uid])))
        blocks = list(held.values())
        assert sum(free(state)) == 8 * 4 - most_charged(blocks, 8, 4)
        assert check_accounting(state) == check_shortfalls(state) == ()
    for uid in random.sample(sorted(held), len(held)):
        state = charge_shortfalls(remove_container(state, uid, "x"))
    assert state == worlds.empty_state({n: {"memory": 8} for n in range(4)})
