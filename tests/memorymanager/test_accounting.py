"""Changes of the accounting; tests/property compares them with an oracle of the kubelet."""

from random import Random
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Block,
    State,
    adopt,
    check_accounting,
    check_groups,
    mark_reusable,
    release_reusable,
    remove_container,
    remove_pod,
    rename_container,
)
from nri_numamem.memorymanager.accounting import Adoption, assign, unmark_reusable
from nri_numamem.numa import NodeSet
from tests.laboratory.container_hints import drop_reusable_of_others

N0, N1, N01, N12 = NodeSet([0]), NodeSet([1]), NodeSet([0, 1]), NodeSet([1, 2])


@pytest.fixture
def empty(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 4, "hugepages-2Mi": 2} for n in range(3)})
    assert isinstance(made, State)
    return made


def free(state: State, resource: str = "memory") -> list[int]:
    return [node.memory_map[resource].free for node in state.machine_state.values()]


def counts(state: State) -> list[int]:
    return [node.number_of_assignments for node in state.machine_state.values()]


def cells(state: State) -> list[str]:
    return [str(node.cells) for node in state.machine_state.values()]


def test_the_lowest_node_is_filled_first(empty: State) -> None:
    state = assign(empty, "a", "x", N01, {"hugepages-2Mi": 3, "memory": 5})
    assert state.assignments == {
        "a": {"x": (Block(N01, "memory", 5), Block(N01, "hugepages-2Mi", 3))}
    }
    assert free(state) == [0, 3, 4]
    assert free(state, "hugepages-2Mi") == [0, 1, 2]
    assert counts(state) == [2, 2, 0]
    assert cells(state) == ["0-1", "0-1", "2"]
    assert check_accounting(state) == check_groups(state) == ()


def test_the_previous_state_does_not_change(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 4})
    after = remove_container(mark_reusable(state, "a", "x"), "a", "x")
    assert free(empty) == free(after) == [4, 4, 4]
    assert free(state) == [0, 4, 4]
    assert after == empty


def test_an_empty_block_counts(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 0})
    assert state.blocks("a", "x") == (Block(N0, "memory", 0),)
    assert counts(state) == [1, 0, 0]


def test_an_empty_request_has_no_blocks_and_no_group(empty: State) -> None:
    state = assign(empty, "a", "x", N01, {})
    assert state.blocks("a", "x") == ()
    assert cells(state) == ["0", "1", "2"]
    assert remove_container(state, "a", "x") == empty


def test_an_assigned_container_cannot_be_assigned_again(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 1})
    with pytest.raises(ValueError, match="assigned already"):
        assign(state, "a", "x", N0, {"memory": 1})


def test_the_next_container_of_a_pod_uses_reusable_bytes_first(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 3})
    state = assign(mark_reusable(state, "a", "x"), "a", "y", N0, {"memory": 2})
    assert state.assignments["a"] == {
        "x": (Block(N0, "memory", 1),),
        "y": (Block(N0, "memory", 2),),
    }
    assert free(state) == [1, 4, 4]
    assert counts(state) == [2, 0, 0]
    # The remaining reusable bytes, and one free byte.
    state = assign(state, "a", "z", N0, {"memory": 2})
    assert state.blocks("a", "x") == (Block(N0, "memory", 0),)
    assert free(state) == [0, 4, 4]
    assert check_accounting(state) == ()


def test_reuse_requires_the_same_pod_node_set_and_resource(empty: State) -> None:
    state = mark_reusable(assign(empty, "a", "x", N01, {"memory": 3}), "a", "x")
    assert free(assign(state, "b", "x", N01, {"memory": 1})) == [0, 4, 4]
    assert free(assign(state, "a", "y", N1, {"memory": 1})) == [1, 3, 4]
    assert free(assign(state, "a", "y", N01, {"hugepages-2Mi": 1}), "hugepages-2Mi") == [1, 2, 2]


def test_only_assigned_containers_become_reusable_and_only_once(empty: State) -> None:
    assert mark_reusable(empty, "a", "x") is empty
    state = mark_reusable(assign(empty, "a", "x", N0, {"memory": 1}), "a", "x")
    assert state.reusable == {"a": ("x",)}
    assert mark_reusable(state, "a", "x") is state
    assert unmark_reusable(state, "a", "x").reusable == {}


def test_reusable_containers_of_other_pods_can_be_dropped(empty: State) -> None:
    state = empty
    for uid in ("a", "b"):
        state = mark_reusable(assign(state, uid, "x", N0, {"memory": 1}), uid, "x")
    assert drop_reusable_of_others(state, "a").reusable == {"a": ("x",)}
    assert drop_reusable_of_others(state, "c").reusable == {}
    assert drop_reusable_of_others(state, "a").assignments == state.assignments


def test_reusable_bytes_are_released_oldest_first(empty: State) -> None:
    state = empty
    for name, nodes, size in (("x", N0, 3), ("y", N1, 2), ("z", N0, 1)):
        state = assign(state, "a", name, nodes, {"memory": size})
    state = mark_reusable(mark_reusable(state, "a", "y"), "a", "x")
    after = release_reusable(state, "a", {"memory": 4})
    assert after.assignments["a"] == {
        "x": (Block(N0, "memory", 1),),
        "y": (Block(N1, "memory", 0),),
        "z": (Block(N0, "memory", 1),),
    }
    assert free(after) == [2, 4, 4]
    assert counts(after) == counts(state)
    assert check_accounting(after) == ()
    assert release_reusable(after, "a", {"memory": 9}).blocks("a", "z") == (Block(N0, "memory", 1),)
    assert release_reusable(state, "a", {"hugepages-2Mi": 4}) == state
    assert release_reusable(state, "b", {"memory": 4}).assignments["a"] == state.assignments["a"]


def test_uncharged_bytes_are_released_first(empty: State) -> None:
    state = adopt(empty, "a", "x", N0, {"memory": 6}).state
    after = release_reusable(mark_reusable(state, "a", "x"), "a", {"memory": 3})
    assert after.blocks("a", "x") == (Block(N0, "memory", 3),)
    assert free(after) == [1, 4, 4]
    assert check_accounting(after) == ()


def test_a_group_ends_with_its_last_block(empty: State) -> None:
    state = assign(empty, "a", "x", N01, {"memory": 5})
    state = assign(state, "b", "x", N01, {"memory": 1})
    state = remove_container(state, "a", "x")
    assert cells(state) == ["0-1", "0-1", "2"]
    assert free(state) == [4, 3, 4]
    assert remove_container(state, "b", "x") == empty


def test_remove_container_and_pod(empty: State) -> None:
    assert remove_container(empty, "a", "x") is empty
    assert remove_pod(empty, "a") is empty
    state = assign(empty, "a", "x", N0, {"memory": 1})
    state = assign(mark_reusable(state, "a", "x"), "a", "y", N1, {"memory": 1})
    assert list(remove_container(state, "a", "y").assignments["a"]) == ["x"]
    assert remove_pod(state, "a") == empty


def test_adopt_charges_free_bytes_and_reports_the_shortfall(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 3})
    adoption = adopt(state, "b", "x", NodeSet([0, 9]), {"memory": 5, "hugepages-1Gi": 1})
    assert adoption.shortfall == {"memory": 4, "hugepages-1Gi": 1}
    assert adoption.state.blocks("b", "x") == (
        Block(NodeSet([0, 9]), "memory", 5),
        Block(NodeSet([0, 9]), "hugepages-1Gi", 1),
    )
    assert free(adoption.state) == [0, 4, 4]
    assert counts(adoption.state) == [3, 0, 0]
    assert check_accounting(adoption.state) == ()
    assert remove_container(adoption.state, "b", "x") == state


def test_adopt_on_free_nodes_has_no_shortfall(empty: State) -> None:
    adoption = adopt(empty, "a", "x", N01, {"memory": 5})
    assert adoption.state == assign(empty, "a", "x", N01, {"memory": 5})
    assert adoption == Adoption(adoption.state)


def test_adopt_joins_groups_and_removal_separates_them(empty: State) -> None:
    first = adopt(empty, "a", "x", N01, {"memory": 5}).state
    second = adopt(first, "b", "x", N12, {"memory": 5})
    assert cells(second.state) == ["0-1", "0-2", "1-2"]
    assert check_accounting(second.state) == ()
    assert check_groups(second.state) != ()
    assert remove_container(second.state, "b", "x") == first
    parted = remove_container(second.state, "a", "x")
    assert cells(parted) == ["0", "1-2", "1-2"]
    # The shortfall is not charged later.
    assert free(parted) == [4, 1, 2]


def test_adopt_replaces_an_assignment_and_reuses_no_bytes(empty: State) -> None:
    state = mark_reusable(assign(empty, "a", "init", N0, {"memory": 2}), "a", "init")
    state = adopt(state, "a", "x", N0, {"memory": 1}).state
    assert free(state) == [1, 4, 4]
    assert state.reusable == {"a": ("init",)}
    state = adopt(state, "a", "x", N1, {"memory": 3}).state
    assert free(state) == [2, 1, 4]


@pytest.mark.parametrize("seed", range(10))
def test_adopted_containers_can_be_removed_in_any_order(worlds: ModuleType, seed: int) -> None:
    random = Random(seed)
    world = worlds.random_world(random, 4)
    start = state = worlds.empty_state(world)
    names = [f"c{i}" for i in range(6)]
    for name in names:
        nodes = NodeSet(random.sample(range(9), random.randint(0, 3)))
        request = {"memory": random.randint(0, 6), "hugepages-2Mi": random.randint(0, 3)}
        state = adopt(state, "pod", name, nodes, request).state
        assert check_accounting(state) == ()
    for name in random.sample(names, len(names)):
        state = remove_container(state, "pod", name)
        assert check_accounting(state) == ()
    assert state == start


def test_a_container_gets_another_name(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": 4}, 1: {"memory": 4}})
    for name in ("x", "y"):
        state = assign(state, "a", name, N0, {"memory": 1})
    state = mark_reusable(state, "a", "x")
    assert rename_container(state, "a", "z", "w") is state
    assert rename_container(state, "b", "x", "w") is state
    renamed = rename_container(state, "a", "x", "w")
    assert list(renamed.assignments["a"]) == ["w", "y"]
    assert renamed.reusable == {"a": ("w",)}
    assert check_accounting(renamed) == ()
    assert rename_container(renamed, "a", "w", "x") == state
    assert rename_container(state, "a", "y", "w").reusable == {"a": ("x",)}
    with pytest.raises(ValueError, match="assigned already"):
        rename_container(state, "a", "x", "y")
    assert remove_container(renamed, "a", "w") == remove_container(state, "a", "x")


def test_a_state_that_counts_more_blocks_than_it_lists(worlds: ModuleType) -> None:
    """The group does not change while the written number of assignments exceeds the blocks."""
    state = assign(worlds.empty_state({0: {"memory": 4}, 1: {"memory": 4}}), "a", "x", N01, {})
    state = assign(state, "a", "y", N01, {"memory": 1})
    uncounted = {
        n: type(node)(node.number_of_assignments + 1, node.memory_map, node.cells)
        for n, node in state.machine_state.items()
    }
    more = State(uncounted, state.assignments)
    assert cells(remove_container(more, "a", "y")) == ["0-1", "0-1"]
    fewer = {n: type(node)(0, node.memory_map, node.cells) for n, node in uncounted.items()}
    assert counts(remove_container(State(fewer, state.assignments), "a", "y")) == [0, 0]
