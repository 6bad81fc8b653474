"""Which hints are given; that the few are as good as all is shown with the merge."""

from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Container,
    ContainerKind,
    Hint,
    NodeSet,
    Pod,
    Preferences,
    State,
    full_hints,
    give_back,
    hints_for_request,
    pod_topology_hints,
    topology_hints,
)
from nri_numamem.memorymanager.books import assign
from nri_numamem.memorymanager.hints import ANYWHERE, Offers

LOWEST = Preferences(prefer_closest=False)
N0, N1, N01 = NodeSet([0]), NodeSet([1]), NodeSet([0, 1])
APP, INIT = ContainerKind.APP, ContainerKind.INIT


@pytest.fixture
def state(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 4, "hugepages-2Mi": 2} for n in range(2)})
    assert isinstance(made, State)
    return made


def pod(*sizes: int, guaranteed: bool = True, kind: ContainerKind = APP) -> Pod:
    made = (Container(f"c{i}", kind, {"memory": size}) for i, size in enumerate(sizes))
    return Pod("a", guaranteed, tuple(made))


def test_a_pod_that_is_not_guaranteed_has_no_preference(state: State) -> None:
    burstable = pod(1, guaranteed=False)
    assert topology_hints(state, burstable, "c0", LOWEST) is None
    assert pod_topology_hints(state, burstable, LOWEST) is None
    assert full_hints(state, burstable, "c0") is None


def test_the_best_hint_alone_decides_when_nobody_else_answers(state: State) -> None:
    assert topology_hints(state, pod(1), "c0", LOWEST) == {"memory": (Hint(N0, preferred=True),)}
    assert topology_hints(state, pod(5), "c0", LOWEST) == {"memory": (Hint(N01, preferred=True),)}


def test_all_hints_in_the_kubelets_order(state: State) -> None:
    assert full_hints(state, pod(1), "c0") == {
        "memory": (Hint(N0, True), Hint(N1, True), Hint(N01, False))  # noqa: FBT003
    }


def test_impossible_is_an_empty_list_or_as_in_the_kubelet_an_empty_map(state: State) -> None:
    request = {"memory": 1, "hugepages-1Gi": 1}
    impossible = Pod("a", guaranteed=True, containers=(Container("c0", APP, request),))
    hints = topology_hints(state, impossible, "c0", LOWEST)
    assert hints == {"memory": (), "hugepages-1Gi": ()}
    assert full_hints(state, impossible, "c0") == {}


def test_no_request_is_no_preference(state: State) -> None:
    nothing = Pod("a", guaranteed=True, containers=(Container("c0", APP, {}),))
    assert topology_hints(state, nothing, "c0", LOWEST) is None
    assert hints_for_request(state, "a", {}, LOWEST) is None
    assert pod_topology_hints(state, nothing, LOWEST) is None
    assert full_hints(state, nothing, "c0") == {}


def test_an_assigned_container_is_told_its_place(state: State) -> None:
    state = assign(state, "a", "c0", N1, {"memory": 2})
    same = {"memory": (Hint(N1, preferred=True),)}
    assert topology_hints(state, pod(2), "c0", LOWEST) == same
    assert full_hints(state, pod(2), "c0") == same
    assert topology_hints(state, pod(3), "c0", LOWEST) is None
    more = Pod("a", True, (Container("c0", APP, {"memory": 2, "hugepages-2Mi": 1}),))  # noqa: FBT003
    assert topology_hints(state, more, "c0", LOWEST) is None


def test_a_container_that_gave_back_is_told_its_place_while_it_is_whole(state: State) -> None:
    state = give_back(assign(state, "a", "c0", N1, {"memory": 2}), "a", "c0")
    assert topology_hints(state, pod(2), "c0", LOWEST) == {"memory": (Hint(N1, preferred=True),)}
    state = assign(state, "a", "c1", N1, {"memory": 1})
    assert topology_hints(state, pod(2), "c0", LOWEST) == {"memory": (Hint(N0, preferred=True),)}


def test_an_init_container_keeps_what_is_left(state: State) -> None:
    init = pod(2, kind=INIT)
    state = give_back(assign(state, "a", "c0", N1, {"memory": 2}), "a", "c0")
    state = assign(state, "a", "c1", N1, {"memory": 1})
    assert topology_hints(state, init, "c0", LOWEST) is None


def test_a_pod_is_told_the_union_of_its_places(state: State) -> None:
    pair = pod(1, 2)
    assert pod_topology_hints(state, pair, LOWEST) == {"memory": (Hint(N0, preferred=True),)}
    state = assign(state, "a", "c0", N1, {"memory": 1})
    assert pod_topology_hints(state, pair, LOWEST) == {"memory": (Hint(N1, preferred=True),)}
    state = assign(state, "a", "c1", N0, {"memory": 1})
    assert pod_topology_hints(state, pair, LOWEST) == {"memory": (Hint(N01, preferred=True),)}


def test_others_are_answered_with_what_they_offer(state: State) -> None:
    offers = Offers({N1.mask: False, N01.mask: False}, 1)
    hints = topology_hints(state, pod(1), "c0", LOWEST, offers)
    assert hints == {"memory": (Hint(N0, True), Hint(N1, True), Hint(N01, False))}  # noqa: FBT003


def test_preferred_hints_with_which_all_agree_are_given_alone(state: State) -> None:
    def given(masks: dict[int, bool]) -> list[str]:
        hints = topology_hints(state, pod(1), "c0", LOWEST, Offers(masks, 1))
        assert hints is not None
        return [str(hint.affinity) for hint in hints["memory"]]

    assert given({N1.mask: True, N01.mask: False}) == ["1"]
    assert given({N0.mask: True, N1.mask: True, ANYWHERE: False}) == ["0", "1"]
    # Where the others are content with anything, others than theirs may be preferred as well.
    assert given({N1.mask: True, ANYWHERE: True})[:2] == ["0", "1"]
    # Two nodes are not preferred for what fits one, and node 7 does not exist.
    assert given({N01.mask: True}) == ["0", "1", "0-1"]
    assert given({1 << 7: True})[:2] == ["0", "1"]


def test_an_offer_that_cannot_be_met_adds_nothing(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 1} for n in range(4)})
    offers = Offers({0b1: True, ANYWHERE: True}, 1)
    three = hints_for_request(state, "a", {"memory": 3}, LOWEST, offers)
    assert three == (
        Hint(NodeSet([0, 1, 2]), preferred=True),
        Hint(NodeSet([0, 1, 2, 3]), preferred=False),
    )
    nothing = Offers({}, 1)
    assert hints_for_request(state, "a", {"memory": 5}, LOWEST, offers) == ()
    assert hints_for_request(state, "a", {"memory": 1}, LOWEST, nothing) == (
        Hint(N0, preferred=True),
    )


def test_unassigned_nodes_may_be_too_few_for_any_answer(state: State) -> None:
    state = assign(state, "b", "x", N0, {"memory": 1})
    offers = Offers({N1.mask: False}, 1)
    assert hints_for_request(state, "a", {"memory": 1}, LOWEST, offers) == (
        Hint(N0, preferred=True),
        Hint(N1, preferred=True),
    )


def test_a_set_that_the_others_offer_is_given_itself(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 1} for n in range(4)})
    offers = Offers({NodeSet([2, 3]).mask: True}, 2)
    hints = hints_for_request(state, "a", {"memory": 2}, LOWEST, offers)
    assert hints is not None
    assert Hint(NodeSet([2, 3]), preferred=True) in hints


def test_home_is_preferred_among_equals(state: State) -> None:
    at_home = Preferences(prefer_closest=False, home=N1)
    assert topology_hints(state, pod(1), "c0", at_home) == {"memory": (Hint(N1, preferred=True),)}


def test_all_hints_are_for_machines_that_people_read(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 1} for n in range(17)})
    with pytest.raises(ValueError, match="17 NUMA nodes have too many sets"):
        full_hints(state, pod(1), "c0")
