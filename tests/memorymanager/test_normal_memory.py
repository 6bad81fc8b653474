"""Nodes whose memory is in ZONE_MOVABLE are placed on only together with another node."""

from itertools import combinations
from random import Random

import pytest

from nri_numamem.memorymanager import (
    Container,
    ContainerKind,
    Hint,
    Pod,
    Rejection,
    State,
    check_accounting,
    default_state,
    remove_container,
    resize_container,
)
from nri_numamem.memorymanager.accounting import adopt, assign, mark_reusable
from nri_numamem.memorymanager.candidates import candidates_for, is_admissible
from nri_numamem.memorymanager.policy_static import choose_nodes
from nri_numamem.memorymanager.rejection import reject
from nri_numamem.memorymanager.state import has_normal_memory, views, without_nodes
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode, Preferences

GI = 1 << 30
LOWEST = Preferences(prefer_closest=False)
ANYWHERE = NodeSet()


def machine(zones: str, sizes: tuple[int, ...] = ()) -> Machine:
    """Return nodes of 4 GiB, or of `sizes`, with normal ("n") or only movable memory ("m")."""
    sizes = sizes or (4 * GI,) * len(zones)
    made = zip(zones, sizes, strict=True)
    return Machine(
        tuple(
            NumaNode(n, size, {2 << 20: 0}, CpuSet([n]), is_movable_only=zone == "m")
            for n, (zone, size) in enumerate(made)
        )
    )


def empty(zones: str, sizes: tuple[int, ...] = ()) -> State:
    return default_state(machine(zones, sizes), {})


def best(state: State, size_bytes: int, fixed: NodeSet = ANYWHERE) -> NodeSet | None:
    found = candidates_for(state, "a", {"memory": size_bytes}, ANYWHERE)
    return found.best(LOWEST, fixed)


def flags(state: State) -> list[bool]:
    return [node.lacks_normal_memory for node in state.machine_state.values()]


def test_which_nodes_cannot_be_the_only_ones() -> None:
    assert flags(empty("nmm")) == [False, True, True]
    # A node without memory adds none.
    assert flags(empty("nnm", sizes=(GI, 0, GI))) == [False, True, True]
    assert flags(empty("nn", sizes=(GI, 0))) == [False, False]
    # If no node has normal memory, the rule would exclude all of them.
    assert flags(empty("mm")) == [False, False]
    assert flags(empty("nm", sizes=(0, GI))) == [False, False]


def test_a_set_needs_a_node_with_normal_memory() -> None:
    state = empty("nmm")
    assert not has_normal_memory(state, [1, 2])
    assert has_normal_memory(state, [0, 2])
    assert best(state, GI) == NodeSet([0])
    state = assign(state, "b", "main", NodeSet([0]), {"memory": 4 * GI})
    assert best(state, GI) is None


def test_a_request_for_one_large_movable_node_gets_another_node_too() -> None:
    state = empty("nm", sizes=(GI, 16 * GI))
    candidates = candidates_for(state, "a", {"memory": 8 * GI}, ANYWHERE)
    assert candidates.minimum == 2
    assert candidates.best(LOWEST) == NodeSet([0, 1])
    assert candidates.hint(NodeSet([0, 1])).preferred
    assert not candidates.admits(NodeSet([1]))


@pytest.mark.parametrize("seed", range(40))
def test_the_best_set_is_that_of_a_full_enumeration(seed: int) -> None:
    rng = Random(seed)
    count = rng.randint(2, 6)
    sizes = tuple(rng.randint(1, 8) * GI for _ in range(count))
    state = empty("".join(rng.choice("nm") for _ in range(count)), sizes)
    for number in range(rng.randrange(count)):
        node = NodeSet([rng.randrange(count)])
        state = adopt(state, f"p{number}", "main", node, {"memory": rng.randint(1, 4) * GI}).state
    request = {"memory": rng.randint(1, 14) * GI}
    every = [
        NodeSet(ids)
        for size in range(1, count + 1)
        for ids in combinations(range(count), size)
        if is_admissible(state, "a", request, NodeSet(ids))
    ]
    found = best(state, request["memory"])
    assert found == min(every, key=LOWEST.rank, default=None)
    assert all(has_normal_memory(state, nodes) for nodes in every)


def test_a_hint_for_a_movable_node_is_extended() -> None:
    state = empty("nmm")
    pod = Pod("a", guaranteed=True, containers=(_container(GI),))
    hint = Hint(NodeSet([1]), preferred=False)
    assert choose_nodes(state, pod, "main", hint, LOWEST) == NodeSet([0, 1])
    state = assign(state, "b", "main", NodeSet([0]), {"memory": GI})
    assert isinstance(choose_nodes(state, pod, "main", hint, LOWEST), Rejection)


def _container(size_bytes: int) -> Container:
    return Container("main", ContainerKind.APP, {"memory": size_bytes})


def test_the_rejection_names_the_rule() -> None:
    state = assign(empty("nm"), "b", "main", NodeSet([0]), {"memory": 4 * GI})
    request = {"memory": GI}
    candidates = candidates_for(state, "a", request, ANYWHERE)
    text = reject(state, "a", request, candidates, LOWEST, "Reason", "Sentence").message
    assert "NUMA node 1: 4Gi free of 4Gi allocatable, only movable memory (ZONE_MOVABLE)" in text


def test_the_flag_stays_through_every_change() -> None:
    state = empty("nm")
    nodes = NodeSet([0, 1])
    state = assign(state, "a", "main", nodes, {"memory": 6 * GI})
    assert flags(state) == [False, True]
    state = resize_container(state, "a", "main", 7 * GI, LOWEST).state
    state = mark_reusable(state, "a", "main")
    state = assign(state, "a", "next", nodes, {"memory": GI})
    assert flags(state) == [False, True]
    for name in ("main", "next"):
        state = remove_container(state, "a", name)
    assert state.machine_state == empty("nm").machine_state
    assert check_accounting(state) == ()


def test_views_without_last_resort_nodes() -> None:
    state = empty("nnn")
    first, second = views(state, NodeSet([1, 2]))
    assert list(first.machine_state) == [0]
    assert second is state
    assert list(views(state, ANYWHERE)) == [state]
    assert without_nodes(state, ANYWHERE) is state
