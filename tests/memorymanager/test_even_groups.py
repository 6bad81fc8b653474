"""Even groups: which nodes have room for equal parts, and how these are charged."""

from dataclasses import replace
from types import ModuleType

import pytest

from nri_numamem.memorymanager import State, adopt_again, check_accounting, mark_reusable
from nri_numamem.memorymanager.accounting import adopt, assign, remove_container
from nri_numamem.memorymanager.blocks import PAGE_BYTES
from nri_numamem.memorymanager.even_groups import best_even_group, fits_evenly, parts_of
from nri_numamem.memorymanager.resize import resize_container
from nri_numamem.numa import Distances, NodeSet, Preferences

P = PAGE_BYTES
PAGES = "hugepages-2Mi"
PAGE_2MI = 2 << 20
NEAR = Preferences(prefer_closest=False)


@pytest.fixture
def state(worlds: ModuleType) -> State:
    """Six nodes of 4 pages: 0 has a single-node assignment, 1-2 are a group, 3-5 unassigned."""
    state = worlds.empty_state({n: {"memory": 4 * P, PAGES: 2 * PAGE_2MI} for n in range(6)})
    state = assign(state, "one", "x", NodeSet([0]), {"memory": P})
    return assign(state, "two", "x", NodeSet([1, 2]), {"memory": 5 * P})


def best(state: State, pages: int, count: int, **options: NodeSet) -> str:
    found = best_even_group(state, "new", {"memory": pages * P}, count, NEAR, **options)
    return "none" if found is None else str(found)


def charges(state: State, uid: str = "new", name: str = "x") -> list[tuple[tuple[int, int], ...]]:
    return [block.charges for block in state.blocks(uid, name) or ()]


def test_a_part_is_rounded_up_to_whole_pages() -> None:
    assert parts_of({"memory": 5 * P, PAGES: PAGE_2MI}, 2) == {"memory": 3 * P, PAGES: PAGE_2MI}
    assert parts_of({"memory": 0}, 2) == {"memory": 0}
    assert parts_of({"memory": 4 * P + 1}, 2) == {"memory": 3 * P}


def test_unassigned_nodes_with_room_for_a_part_form_a_group(state: State) -> None:
    assert best(state, 1, 2) == "3-4"
    assert best(state, 8, 2) == "3-4"
    assert best(state, 9, 2) == "none"
    assert best(state, 12, 3) == "3-5"
    assert best(state, 1, 4) == "none"


def test_an_existing_group_of_this_size_counts(state: State) -> None:
    # The group 1-2 has 0 and 3 pages free: too few for a part on node 1.
    assert not fits_evenly(state, "new", {"memory": 2 * P}, NodeSet([1, 2]))
    emptier = assign(
        remove_container(state, "two", "x"), "two", "x", NodeSet([1, 2]), {"memory": 2 * P}
    )
    assert best(emptier, 4, 2) == "1-2"
    assert best(emptier, 5, 2) == "3-4"  # three pages on each: node 1 has two
    assert best(emptier, 1, 3) == "3-5"


def test_fixed_nodes_belong_to_the_group(state: State) -> None:
    assert best(state, 2, 2, fixed=NodeSet([5])) == "3,5"
    assert best(state, 2, 2, fixed=NodeSet([0])) == "none"
    assert best(state, 2, 2, fixed=NodeSet([3, 4, 5])) == "none"


def test_a_group_is_inside_the_given_nodes(state: State) -> None:
    assert best(state, 2, 2, within=NodeSet([1, 2, 4, 5, 9])) == "4-5"
    assert best(state, 2, 2, within=NodeSet([1, 2, 5])) == "none"


def test_every_resource_needs_room_for_its_part(state: State) -> None:
    request = {"memory": 2 * P, PAGES: 3 * PAGE_2MI}
    used = assign(state, "pages", "x", NodeSet([3]), {PAGES: PAGE_2MI})
    assert best_even_group(state, "new", request, 2, NEAR) == NodeSet([3, 4])
    assert best_even_group(used, "new", request, 2, NEAR) == NodeSet([4, 5])


def test_the_closest_group_wins(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * P} for n in range(4)})
    far = {0: {0: 10, 1: 40, 2: 20, 3: 30}, 1: {0: 40, 1: 10, 2: 30, 3: 12}}
    far |= {2: {0: 20, 1: 30, 2: 10, 3: 40}, 3: {0: 30, 1: 12, 2: 40, 3: 10}}
    preferences = Preferences(Distances(far))
    assert best_even_group(state, "new", {"memory": P}, 2, preferences) == NodeSet([1, 3])


def test_one_node_of_a_group_has_normal_memory(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * P} for n in range(3)})
    machine = {
        n: node if n == 2 else replace(node, lacks_normal_memory=True)
        for n, node in state.machine_state.items()
    }
    movable = State(machine)
    assert best(movable, 2, 2) == "0,2"
    assert not fits_evenly(movable, "new", {"memory": P}, NodeSet([0, 1]))
    assert best(State({n: node for n, node in machine.items() if n != 2}), 2, 2) == "none"


def test_equal_parts_are_charged(state: State) -> None:
    nodes = NodeSet([3, 4, 5])
    request = {"memory": 7 * P + 5, PAGES: 2 * PAGE_2MI}
    after = assign(state, "new", "x", nodes, request, is_even=True)
    memory, pages = charges(after)
    assert memory == ((3, 3 * P), (4, 2 * P + 5), (5, 2 * P))
    assert pages == ((3, PAGE_2MI), (4, PAGE_2MI))
    assert not check_accounting(after)
    assert remove_container(after, "new", "x") == state


def test_the_next_container_reuses_equal_parts(state: State) -> None:
    nodes = NodeSet([3, 4])
    first = assign(state, "new", "x", nodes, {"memory": 8 * P}, is_even=True)
    ended = mark_reusable(first, "new", "x")
    assert fits_evenly(ended, "new", {"memory": 6 * P}, nodes)
    assert not fits_evenly(ended, "other", {"memory": 6 * P}, nodes)
    after = assign(ended, "new", "y", nodes, {"memory": 6 * P}, is_even=True)
    assert charges(after, name="y") == [((3, 3 * P), (4, 3 * P))]
    assert charges(after) == [((3, P), (4, P))]
    assert not check_accounting(after)


def test_reusable_blocks_on_other_nodes_do_not_count(state: State) -> None:
    ended = mark_reusable(assign(state, "new", "x", NodeSet([5]), {"memory": 4 * P}), "new", "x")
    assert not fits_evenly(ended, "new", {"memory": 2 * P}, NodeSet([4, 5]))
    assert fits_evenly(ended, "new", {"memory": 8 * P}, NodeSet([3, 4]))
    assert not fits_evenly(ended, "new", {"memory": 9 * P}, NodeSet([3, 4]))


def test_an_adopted_container_gets_equal_parts_as_far_as_there_is_room(state: State) -> None:
    nodes = NodeSet([1, 2])  # with 0 and 3 pages free
    adopted = adopt(state, "new", "x", nodes, {"memory": 4 * P}, is_even=True)
    assert charges(adopted.state) == [((2, 3 * P),)]
    assert adopted.shortfall == {"memory": P}
    blocks = adopted.state.blocks("new", "x")
    assert blocks is not None
    assert adopt_again(state, "new", "x", blocks) == adopted.state
    unknown = adopt(state, "new", "x", NodeSet([8, 9]), {"memory": P}, is_even=True)
    assert unknown.shortfall == {"memory": P}


def test_a_resize_keeps_equal_parts(state: State) -> None:
    nodes = NodeSet([3, 4])
    before = assign(state, "new", "x", nodes, {"memory": 2 * P}, is_even=True)
    larger = resize_container(before, "new", "x", 6 * P, NEAR)
    assert (larger.nodes, charges(larger.state)) == (nodes, [((3, 3 * P), (4, 3 * P))])
    smaller = resize_container(larger.state, "new", "x", 4 * P, NEAR)
    assert (smaller.nodes, charges(smaller.state)) == (nodes, [((3, 2 * P), (4, 2 * P))])


def test_a_resize_takes_what_the_group_has_if_one_node_is_too_full(state: State) -> None:
    nodes = NodeSet([3, 4])
    before = assign(state, "new", "x", nodes, {"memory": 2 * P}, is_even=True)
    shared = assign(before, "other", "x", nodes, {"memory": 3 * P})  # all of it on node 3
    larger = resize_container(shared, "new", "x", 4 * P, NEAR)
    assert (larger.nodes, charges(larger.state)) == (nodes, [((3, P), (4, 3 * P))])


def test_a_resize_beyond_the_group_charges_more_nodes_as_usual(state: State) -> None:
    before = assign(state, "new", "x", NodeSet([3, 4]), {"memory": 2 * P}, is_even=True)
    larger = resize_container(before, "new", "x", 10 * P, NEAR)
    assert larger.nodes == NodeSet([3, 4, 5])
    assert charges(larger.state) == [((3, 4 * P), (4, 4 * P), (5, 2 * P))]
    blocks = larger.state.blocks("new", "x")
    assert blocks is not None
    assert not blocks[0].is_even


@pytest.mark.parametrize(("pages", "left"), [(2, {3: P, 4: P}), (1, {3: P, 4: 2 * P})])
def test_a_resize_with_reusable_bytes_keeps_equal_parts(
    state: State, pages: int, left: dict[int, int]
) -> None:
    """Of the reusable bytes each node gives what its part lacks; another container has `pages`."""
    nodes = NodeSet([3, 4])
    ended = assign(state, "new", "old", nodes, {"memory": 4 * P}, is_even=True)
    ended = mark_reusable(ended, "new", "old")
    before = assign(ended, "other", "x", nodes, {"memory": pages * P}, is_even=True)
    before = assign(
        replace(before, reusable={}), "new", "x", nodes, {"memory": 2 * P}, is_even=True
    )
    before = replace(before, reusable=ended.reusable)
    larger = resize_container(before, "new", "x", 4 * P, NEAR)
    assert charges(larger.state) == [((3, 2 * P), (4, 2 * P))]
    assert charges(larger.state, name="old") == [tuple(left.items())]
    assert not check_accounting(larger.state)
