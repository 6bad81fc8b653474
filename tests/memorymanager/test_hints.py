"""Hint generation; tests/property compares the merge of these hints with that of all hints."""

from dataclasses import replace
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Block,
    Container,
    ContainerKind,
    Hint,
    Pod,
    State,
    adopt,
    mark_reusable,
)
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.hints import ANYWHERE, MergedHints, hints_for_request, kept_blocks
from nri_numamem.numa import NodeSet, Preferences
from tests.laboratory.container_hints import full_hints, topology_hints

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
    assert full_hints(state, burstable, "c0") is None


def test_without_other_providers_only_the_best_hint_is_returned(state: State) -> None:
    assert topology_hints(state, pod(1), "c0", LOWEST) == {"memory": (Hint(N0, preferred=True),)}
    assert topology_hints(state, pod(5), "c0", LOWEST) == {"memory": (Hint(N01, preferred=True),)}


def test_full_hints_are_in_the_kubelets_order(state: State) -> None:
    assert full_hints(state, pod(1), "c0") == {
        "memory": (Hint(N0, True), Hint(N1, True), Hint(N01, False))  # noqa: FBT003
    }


def test_impossible_is_an_empty_list_and_in_full_hints_an_empty_map(state: State) -> None:
    request = {"memory": 1, "hugepages-1Gi": 1}
    impossible = Pod("a", guaranteed=True, containers=(Container("c0", APP, request),))
    hints = topology_hints(state, impossible, "c0", LOWEST)
    assert hints == {"memory": (), "hugepages-1Gi": ()}
    assert full_hints(state, impossible, "c0") == {}


def test_an_empty_request_has_no_preference(state: State) -> None:
    nothing = Pod("a", guaranteed=True, containers=(Container("c0", APP, {}),))
    assert topology_hints(state, nothing, "c0", LOWEST) is None
    assert hints_for_request(state, "a", {}, LOWEST) is None
    assert full_hints(state, nothing, "c0") == {}


def test_the_hint_of_an_assigned_container_is_its_nodes(state: State) -> None:
    state = assign(state, "a", "c0", N1, {"memory": 2})
    same = {"memory": (Hint(N1, preferred=True),)}
    assert topology_hints(state, pod(2), "c0", LOWEST) == same
    assert full_hints(state, pod(2), "c0") == same
    assert topology_hints(state, pod(3), "c0", LOWEST) is None
    more = Pod("a", True, (Container("c0", APP, {"memory": 2, "hugepages-2Mi": 1}),))  # noqa: FBT003
    assert topology_hints(state, more, "c0", LOWEST) is None


def test_a_reusable_container_keeps_its_nodes_until_its_bytes_are_reused(state: State) -> None:
    state = mark_reusable(assign(state, "a", "c0", N1, {"memory": 2}), "a", "c0")
    assert topology_hints(state, pod(2), "c0", LOWEST) == {"memory": (Hint(N1, preferred=True),)}
    state = assign(state, "a", "c1", N1, {"memory": 1})
    assert topology_hints(state, pod(2), "c0", LOWEST) == {"memory": (Hint(N0, preferred=True),)}


def test_a_container_that_its_nodes_do_not_back_is_placed_anew(state: State) -> None:
    """It need not be reusable: the runtime does not report the end of a failed creation."""
    filled = assign(state, "b", "c0", N1, {"memory": 9})
    unbacked = adopt(filled, "a", "c0", N1, {"memory": 2}).state
    assert topology_hints(unbacked, pod(2), "c0", LOWEST) == {"memory": (Hint(N0, preferred=True),)}
    assert kept_blocks(unbacked, pod(2), "c0") is None
    # The charges in a state of another program are unknown, so its containers keep their nodes.
    blocks = (Block(N1, "memory", 2, are_charges_known=False),)
    imported = replace(unbacked, assignments={"a": {"c0": blocks}})
    assert kept_blocks(imported, pod(2), "c0") == blocks


def test_an_init_container_keeps_its_remaining_bytes(state: State) -> None:
    init = pod(2, kind=INIT)
    state = mark_reusable(assign(state, "a", "c0", N1, {"memory": 2}), "a", "c0")
    state = assign(state, "a", "c1", N1, {"memory": 1})
    assert topology_hints(state, init, "c0", LOWEST) is None


def test_hints_for_the_intersections_of_other_providers(state: State) -> None:
    offers = MergedHints({N1.mask: False, N01.mask: False}, 1)
    hints = topology_hints(state, pod(1), "c0", LOWEST, offers)
    assert hints == {"memory": (Hint(N0, True), Hint(N1, True), Hint(N01, False))}  # noqa: FBT003


def test_only_hints_that_all_agree_on_are_returned_if_there_are_any(state: State) -> None:
    def affinities(masks: dict[int, bool]) -> list[str]:
        hints = topology_hints(state, pod(1), "c0", LOWEST, MergedHints(masks, 1))
        assert hints is not None
        return [str(hint.affinity) for hint in hints["memory"]]

    assert affinities({N1.mask: True, N01.mask: False}) == ["1"]
    assert affinities({N0.mask: True, N1.mask: True, ANYWHERE: False}) == ["0", "1"]
    # If the other providers accept any nodes, other hints may be preferred too.
    assert affinities({N1.mask: True, ANYWHERE: True})[:2] == ["0", "1"]
    # Two nodes are not preferred, because the request fits on one; node 7 does not exist.
    assert affinities({N01.mask: True}) == ["0", "1", "0-1"]
    assert affinities({1 << 7: True})[:2] == ["0", "1"]


def test_an_intersection_without_an_admissible_set_adds_no_hint(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 1} for n in range(4)})
    offers = MergedHints({0b1: True, ANYWHERE: True}, 1)
    three = hints_for_request(state, "a", {"memory": 3}, LOWEST, offers)
    assert three == (
        Hint(NodeSet([0, 1, 2]), preferred=True),
        Hint(NodeSet([0, 1, 2, 3]), preferred=False),
    )
    nothing = MergedHints({}, 1)
    assert hints_for_request(state, "a", {"memory": 5}, LOWEST, offers) == ()
    assert hints_for_request(state, "a", {"memory": 1}, LOWEST, nothing) == (
        Hint(N0, preferred=True),
    )


def test_too_few_unassigned_nodes_for_a_competitive_set(state: State) -> None:
    state = assign(state, "b", "x", N0, {"memory": 1})
    offers = MergedHints({N1.mask: False}, 1)
    assert hints_for_request(state, "a", {"memory": 1}, LOWEST, offers) == (
        Hint(N0, preferred=True),
        Hint(N1, preferred=True),
    )


def test_an_intersection_that_is_admissible_is_a_hint(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 1} for n in range(4)})
    offers = MergedHints({NodeSet([2, 3]).mask: True}, 2)
    hints = hints_for_request(state, "a", {"memory": 2}, LOWEST, offers)
    assert hints is not None
    assert Hint(NodeSet([2, 3]), preferred=True) in hints


def test_previous_nodes_win_over_equal_hints(state: State) -> None:
    with_previous_nodes = Preferences(prefer_closest=False, previous_nodes=N1)
    assert topology_hints(state, pod(1), "c0", with_previous_nodes) == {
        "memory": (Hint(N1, preferred=True),)
    }


def test_full_hints_are_limited_to_sixteen_nodes(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 1} for n in range(17)})
    with pytest.raises(ValueError, match="17 NUMA nodes have too many sets"):
        full_hints(state, pod(1), "c0")
