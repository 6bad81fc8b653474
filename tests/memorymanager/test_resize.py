"""Resize of a running container: on its nodes, on a superset, or with a shortfall."""

from dataclasses import replace
from random import Random
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Block,
    Hint,
    Resized,
    State,
    adopt,
    check_accounting,
    check_groups,
    extend_containers,
    mark_reusable,
    remove_container,
    remove_pod,
    resize_container,
)
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.candidates import is_admissible
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.numa import NodeSet, Preferences

N0, N1, N2, N01, N012 = (NodeSet.parse(text) for text in ("0", "1", "2", "0-1", "0-2"))
PREFERENCES = Preferences()


@pytest.fixture
def empty(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 4, "hugepages-2Mi": 2} for n in range(3)})
    assert isinstance(made, State)
    return made


def free(state: State, resource: str = "memory") -> list[int]:
    return [node.memory_map[resource].free for node in state.machine_state.values()]


def resized(state: State, size: int, uid: str = "a", name: HolderName = "x") -> Resized:
    """Resize, and check the properties of every resize."""
    before = state.assignments[uid][name]
    done = resize_container(state, uid, name, size, PREFERENCES)
    after = done.state.assignments[uid][name]
    others = [block for block in before if block.type != "memory"]
    assert [block.type for block in after] == [block.type for block in before]
    assert [b.size for b in after if b.type != "memory"] == [b.size for b in others]
    assert after[0] == Block(done.nodes, "memory", size)
    assert before[0].numa_affinity.issubset(done.nodes)
    assert check_accounting(done.state) == ()
    wider = [s for s in supersets(state, uid, name, size) if len(s) < len(done.nodes)]
    if done.shortfall or done.nodes != before[0].numa_affinity:
        assert wider == []
    assert not done.shortfall or supersets(state, uid, name, size) == []
    return done


def supersets(state: State, uid: str, name: HolderName, size: int) -> list[NodeSet]:
    """Return all supersets of the container's nodes on which it may be placed."""
    nodes = state.assignments[uid][name][0].numa_affinity
    request = {block.type: block.size for block in state.assignments[uid][name]}
    rest = remove_container(state, uid, name)
    for other in rest.reusable.get(uid, ()):
        if any(block.numa_affinity == nodes for block in rest.assignments[uid][other]):
            rest = remove_container(rest, uid, other)
    every = (NodeSet.from_mask(mask) for mask in range(1, 1 << len(state.machine_state)))
    wanted = {**request, "memory": size}
    return [s for s in every if nodes.issubset(s) and is_admissible(rest, uid, wanted, s)]


def test_more_memory_is_charged_to_the_containers_nodes(empty: State) -> None:
    state = assign(empty, "a", "x", N1, {"memory": 1, "hugepages-2Mi": 1})
    done = resized(state, 4)
    assert (done.nodes, done.shortfall) == (N1, {})
    assert free(done.state) == [4, 0, 4]
    assert free(done.state, "hugepages-2Mi") == [2, 1, 2]


def test_less_memory_frees_bytes_and_keeps_the_nodes(empty: State) -> None:
    state = assign(empty, "a", "x", N01, {"memory": 7})
    done = resized(state, 2)
    assert (done.nodes, done.shortfall) == (N01, {})
    assert sum(free(done.state)) == 10
    assert remove_pod(done.state, "a") == empty


def test_free_bytes_are_used_before_reusable_bytes(empty: State) -> None:
    state = mark_reusable(assign(empty, "a", "init", N0, {"memory": 2}), "a", "init")
    state = assign(mark_reusable(state, "a", "init"), "b", "x", N0, {"memory": 1})
    done = resized(state, 2, "b")
    assert free(done.state) == [0, 4, 4]
    state = assign(remove_pod(state, "b"), "a", "x", N1, {"memory": 1})
    done = resized(state, 3)
    assert done.state.blocks("a", "init") == (Block(N0, "memory", 2),)
    assert done.state.reusable == {"a": ("init",)}


def test_reusable_bytes_are_used_if_too_few_are_free(empty: State) -> None:
    state = assign(empty, "a", "init", N0, {"memory": 2})
    state = mark_reusable(assign(state, "a", "x", N0, {"memory": 1}), "a", "init")
    done = resized(state, 4)
    assert (done.nodes, done.shortfall) == (N0, {})
    assert done.state.blocks("a", "init") == (Block(N0, "memory", 0),)
    assert free(done.state) == [0, 4, 4]


def test_only_what_is_not_free_is_taken_from_reusable_bytes(empty: State) -> None:
    state = mark_reusable(assign(empty, "a", "init", N0, {"memory": 4}), "a", "init")
    state = assign(state, "a", "x", N0, {"memory": 1})
    done = resized(state, 2)
    assert done.state.assignments["a"] == {
        "init": (Block(N0, "memory", 2),),
        "x": (Block(N0, "memory", 2),),
    }
    assert free(done.state) == [0, 4, 4]


def test_the_best_superset_is_used_if_the_nodes_are_full(empty: State) -> None:
    state = assign(empty, "a", "x", N1, {"memory": 1})
    done = resized(state, 5)
    assert (done.nodes, done.shortfall) == (N01, {})
    assert check_groups(done.state) == ()
    assert resized(done.state, 12).nodes == N012


def test_a_superset_is_disjoint_from_other_groups(empty: State) -> None:
    state = assign(empty, "b", "y", N0, {"memory": 1})
    state = assign(state, "a", "x", N1, {"memory": 1})
    assert resized(state, 5).nodes == NodeSet.parse("1-2")
    state = assign(state, "b", "z", N2, {"memory": 1})
    done = resized(state, 5)
    assert (done.nodes, done.shortfall) == (N1, {"memory": 1})
    assert free(done.state) == [3, 0, 3]


def test_a_group_with_another_container_is_not_extended(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 1})
    state = assign(state, "a", "y", N0, {"memory": 1})
    done = resized(state, 5)
    assert (done.nodes, done.shortfall) == (N0, {"memory": 2})
    assert remove_pod(done.state, "a") == empty


def test_reusable_blocks_move_to_the_superset(empty: State) -> None:
    state = assign(empty, "a", "init", N0, {"memory": 2, "hugepages-2Mi": 1})
    state = assign(mark_reusable(state, "a", "init"), "a", "x", N0, {"memory": 3})
    elsewhere = mark_reusable(assign(state, "a", "late", N2, {"memory": 1}), "a", "late")
    for accounting, nodes in ((state, N01), (elsewhere, N01)):
        done = resized(accounting, 7)
        assert (done.nodes, done.shortfall) == (nodes, {})
        # `x` reuses both of its bytes.
        left = (Block(nodes, "memory", 0), Block(nodes, "hugepages-2Mi", 1))
        assert done.state.blocks("a", "init") == left
        assert "init" in done.state.reusable["a"]
        assert check_groups(done.state) == ()


def test_reusable_blocks_are_cut_to_the_free_bytes(empty: State) -> None:
    state = mark_reusable(assign(empty, "a", "init", N0, {"memory": 3}), "a", "init")
    beside = assign(replace(state, reusable={}), "a", "x", N0, {"memory": 1})
    state = replace(beside, reusable=state.reusable)
    done = resized(state, 7)
    assert done.state.blocks("a", "init") == (Block(N01, "memory", 1),)
    assert done.shortfall == {}


def test_the_topology_policy_may_forbid_a_superset(empty: State) -> None:
    hints: list[Hint] = []

    def admits(hint: Hint) -> bool:
        hints.append(hint)
        return False

    state = assign(empty, "a", "x", N0, {"memory": 1})
    done = resize_container(state, "a", "x", 5, PREFERENCES, admits)
    assert (done.nodes, done.shortfall) == (N0, {"memory": 1})
    assert hints == [Hint(N01, preferred=True)]


def test_the_shortfall_of_an_adopted_container_is_charged_later(empty: State) -> None:
    state = adopt(empty, "b", "y", N0, {"memory": 3}).state
    state = adopt(state, "a", "x", N0, {"memory": 4}).state
    state = remove_pod(state, "b")
    done = resized(state, 3)
    assert done.shortfall == {}
    assert free(done.state) == [1, 4, 4]


@pytest.mark.parametrize("blocks", [None, {}])
def test_a_container_without_blocks_cannot_be_resized(
    empty: State, blocks: dict[str, int] | None
) -> None:
    state = empty if blocks is None else assign(empty, "a", "x", N0, blocks)
    with pytest.raises(ValueError, match="container x of pod a has no blocks"):
        resize_container(state, "a", "x", 1, PREFERENCES)


@pytest.mark.parametrize("seed", range(20))
def test_resizes_in_random_states_keep_the_accounting_right(empty: State, seed: int) -> None:
    random = Random(seed)
    state = empty
    for step in range(40):
        live = [(u, n) for u, c in state.assignments.items() for n in c]
        live = [(u, n) for u, n in live if n not in state.reusable.get(u, ())]
        if not live or random.random() < 0.3:
            uid, node = random.choice("abc"), random.randrange(3)
            nodes = state.machine_state[node].cells
            state = assign(state, uid, f"x{step}", nodes, {"memory": random.randrange(2)})
        elif random.random() < 0.2:
            state = mark_reusable(state, *random.choice(live))
        elif random.random() < 0.1:
            state = remove_pod(state, random.choice("abc"))
        else:
            uid, name = random.choice(live)
            state = resized(state, random.randrange(9), uid, name).state
        assert check_accounting(state) == check_groups(state) == ()
    for uid in "abc":
        state = remove_pod(state, uid)
    assert state == empty


def test_all_containers_on_the_nodes_are_extended(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 2, "hugepages-2Mi": 1})
    state = mark_reusable(assign(state, "a", "y", N0, {"memory": 1}), "a", "y")
    state = assign(state, "a", "elsewhere", N2, {"memory": 1})
    extended = extend_containers(state, "a", N0, {"memory": 5}, PREFERENCES)
    assert extended is not None
    after, nodes = extended
    assert nodes == N01
    assert after.assignments["a"] == {
        "x": (Block(N01, "memory", 2), Block(N01, "hugepages-2Mi", 1)),
        "y": (Block(N01, "memory", 1),),
        "elsewhere": (Block(N2, "memory", 1),),
    }
    assert after.reusable == {"a": ("y",)}
    assert sum(free(after)) == 8
    assert check_accounting(after) == check_groups(after) == ()


def test_containers_are_not_extended_beyond_what_is_admissible(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 2})
    assert extend_containers(state, "a", N0, {"memory": 11}, PREFERENCES) is None
    assert extend_containers(state, "a", N0, {"memory": 5}, PREFERENCES, lambda _: False) is None
    other = assign(state, "b", "x", N0, {"memory": 1})
    assert extend_containers(other, "a", N0, {"memory": 5}, PREFERENCES) is None
    assert extend_containers(state, "b", N0, {"memory": 2}, PREFERENCES) is not None
