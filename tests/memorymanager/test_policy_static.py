"""The policy Static: kinds of containers, restarted containers, groups, rejections."""

from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Block,
    Container,
    ContainerKind,
    Hint,
    Pod,
    Rejection,
    State,
    adopt,
    check_accounting,
    check_groups,
    mark_reusable,
)
from nri_numamem.numa import NodeSet, Preferences
from tests.property.worlds import Allocated, allocate

LOWEST = Preferences(prefer_closest=False)
ANY = Hint(None, preferred=False)
INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.RESTARTABLE_INIT, ContainerKind.APP


@pytest.fixture
def state(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 8} for n in range(3)})
    assert isinstance(made, State)
    return made


def pod(*containers: tuple[ContainerKind, int], uid: str = "a") -> Pod:
    made = (Container(f"c{i}", kind, {"memory": q}) for i, (kind, q) in enumerate(containers))
    return Pod(uid, guaranteed=True, containers=tuple(made))


def place(state: State, pod: Pod, name: str, hint: Hint = ANY) -> Allocated:
    got = allocate(state, pod, name, hint, LOWEST)
    assert isinstance(got, Allocated), got
    assert check_accounting(got.state) == check_groups(got.state) == ()
    return got


def place_all(state: State, pod: Pod) -> State:
    for container in pod.containers:
        state = place(state, pod, container.name).state
    return state


def sizes(state: State, uid: str = "a") -> list[int]:
    return [block.size for blocks in state.assignments[uid].values() for block in blocks]


def free(state: State) -> list[int]:
    return [node.memory_map["memory"].free for node in state.machine_state.values()]


def test_a_pod_that_is_not_guaranteed_is_not_managed(state: State) -> None:
    burstable = Pod("a", guaranteed=False, containers=(Container("c0", APP, {"memory": 1}),))
    got = place(state, burstable, "c0")
    assert got == Allocated(state, ())
    assert got.nodes == NodeSet()


@pytest.mark.parametrize(
    ("containers", "want", "left"),
    [
        # Init containers run one after the other; the apps reuse their memory.
        (((INIT, 7), (INIT, 4), (APP, 4), (APP, 3)), [0, 0, 4, 3], 1),
        (((INIT, 1), (INIT, 2), (APP, 1)), [0, 1, 1], 6),
        (((INIT, 2), (APP, 5)), [0, 5], 3),
        # A sidecar keeps running: it reuses memory of init containers, and its own is not reused.
        (((SIDECAR, 3), (INIT, 2), (APP, 4)), [3, 0, 4], 1),
        (((INIT, 4), (SIDECAR, 3), (APP, 2)), [0, 3, 2], 3),
    ],
)
def test_memory_of_init_containers_is_reused(
    state: State, containers: tuple[tuple[ContainerKind, int], ...], want: list[int], left: int
) -> None:
    after = place_all(state, pod(*containers))
    assert sizes(after) == want
    assert free(after) == [left, 8, 8]
    assert after.machine_state[0].number_of_assignments == len(containers)


def test_an_assigned_container_keeps_its_nodes(state: State) -> None:
    one = pod((APP, 2), (INIT, 1))
    after = place_all(state, one)
    again = place(after, one, "c0", Hint(NodeSet([2]), preferred=True))
    assert again.state == after
    assert again.blocks == (Block(NodeSet([0]), "memory", 2),)
    assert place(after, one, "c1").state == after


def test_a_restarted_container_keeps_its_nodes(state: State) -> None:
    one = pod((APP, 2))
    before = place(state, one, "c0", Hint(NodeSet([1]), preferred=True)).state
    ended = mark_reusable(before, "a", "c0")
    assert place(ended, one, "c0").state == before


def test_a_restarted_container_whose_bytes_were_reused_is_placed_anew(state: State) -> None:
    both = pod((APP, 5), (APP, 4))
    ended = mark_reusable(place(state, both, "c0").state, "a", "c0")
    used = place(ended, both, "c1").state
    assert free(used) == [3, 8, 8]
    back = place(used, both, "c0")
    assert back.nodes == NodeSet([1])
    assert free(back.state) == [4, 3, 8]
    assert back.state.reusable == {}


def test_a_rejected_larger_container_keeps_its_assignment(state: State) -> None:
    ended = mark_reusable(place(state, pod((APP, 5)), "c0").state, "a", "c0")
    got = allocate(ended, pod((APP, 25)), "c0", ANY, LOWEST)
    assert isinstance(got, Rejection)
    assert sizes(ended) == [5]


def test_a_hint_on_part_of_a_group_is_rejected(state: State) -> None:
    grouped = place(state, pod((APP, 9)), "c0").state
    hint = Hint(NodeSet([1]), preferred=True)
    got = allocate(grouped, pod((APP, 2), uid="b"), "c0", hint, LOWEST)
    assert isinstance(got, Rejection)
    assert got.reason == "UnexpectedAdmissionError"
    assert got.message.startswith(
        "requested memory 2; fits on 1 empty NUMA node; "
        "without topology constraints it would fit on NUMA node 2; "
    )
    assert got.message.endswith(
        "; Allocate failed due to [memorymanager] preferred hint violates NUMA node allocation, "
        "which is unexpected"
    )


def test_a_hint_with_too_little_room_is_extended_to_the_group(state: State) -> None:
    grouped = place(state, pod((APP, 9)), "c0").state
    hint = Hint(NodeSet([0]), preferred=False)
    assert place(grouped, pod((APP, 2), uid="b"), "c0", hint).nodes == NodeSet([0, 1])


def test_a_hint_with_unknown_nodes_is_rejected(state: State) -> None:
    hint = Hint(NodeSet([0, 9]), preferred=False)
    assert isinstance(allocate(state, pod((APP, 2)), "c0", hint, LOWEST), Rejection)


def test_a_container_on_a_node_that_no_longer_exists_is_placed_anew(state: State) -> None:
    running = adopt(state, "a", "c0", NodeSet([1, 9]), {"memory": 2}).state
    assert place(running, pod((APP, 2)), "c0").nodes == NodeSet([0])


@pytest.mark.parametrize(
    ("hint", "problem"),
    [
        (Hint(None, preferred=False), "failed to get the default NUMA affinity, no NUMA nodes"),
        (Hint(NodeSet([0]), preferred=False), "failed to find NUMA nodes to extend the current"),
    ],
)
def test_no_node_set_is_large_enough(state: State, hint: Hint, problem: str) -> None:
    got = allocate(state, pod((APP, 25)), "c0", hint, LOWEST)
    assert isinstance(got, Rejection)
    assert problem in got.message
    assert "exceeds all NUMA nodes together" in got.message


@pytest.mark.parametrize(
    ("hint", "problem"),
    [
        (Hint(None, preferred=True), "failed to find the default preferred hint"),
        (Hint(NodeSet([1]), preferred=True), "failed to find the extended preferred hint"),
    ],
)
def test_a_preferred_hint_requires_a_preferred_placement(
    worlds: ModuleType, hint: Hint, problem: str
) -> None:
    state = worlds.empty_state({0: {"memory": 8}, 1: {"memory": 4}, 2: {"memory": 4}})
    state = place(state, pod((APP, 1), uid="b"), "c0").state
    got = allocate(state, pod((APP, 8)), "c0", hint, LOWEST)
    assert isinstance(got, Rejection)
    assert problem in got.message
    assert "without topology constraints it would fit on NUMA nodes 1-2" in got.message


def test_a_reusable_container_with_a_shortfall_is_placed_anew(state: State) -> None:
    """It was adopted on nodes that had too little free."""
    accounting = adopt(state, "b", "other", NodeSet([0]), {"memory": 6}).state
    adopted = adopt(accounting, "a", "c0", NodeSet([0]), {"memory": 4})
    assert adopted.shortfall == {"memory": 2}
    accounting = mark_reusable(adopted.state, "a", "c0")
    again = allocate(accounting, pod((APP, 4)), "c0", ANY, LOWEST)
    assert isinstance(again, Allocated)
    assert again.nodes == NodeSet([1])
    assert check_accounting(again.state) == ()
