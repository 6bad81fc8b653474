"""Why a node set was passed over."""

from dataclasses import replace
from types import ModuleType

from nri_numamem.memorymanager import NodeState, State, mark_reusable
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.candidates import candidates_for
from nri_numamem.memorymanager.node_reasons import (
    SUMMARIES,
    Reason,
    Rule,
    even_reason_of,
    prefixes_of,
    reason_for,
    reason_of,
)
from nri_numamem.numa import NodeSet

GI = 2**30
PAGES = "hugepages-1Gi"


def reason(state: State, request: dict[str, int], *nodes: int, uid: str = "new") -> Reason | None:
    candidates = candidates_for(state, uid, request, NodeSet())
    return reason_of(state, uid, request, candidates, NodeSet(nodes))


def used(worlds: ModuleType) -> State:
    """Return five nodes of 4 GiB: 0 has an assignment, 1-2 are a group, 4 has half the memory."""
    state = worlds.empty_state({n: {"memory": (2 if n == 4 else 4) * GI} for n in range(5)})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 3 * GI})
    return assign(state, "b", "x", NodeSet([1, 2]), {"memory": 5 * GI})


def test_every_rule_has_a_text() -> None:
    assert list(SUMMARIES) == list(Rule)
    assert reason_for(Rule.CHOSEN) == Reason(Rule.CHOSEN, "chosen")


def test_a_request_for_one_node(worlds: ModuleType) -> None:
    state = used(worlds)
    request = {"memory": 3 * GI + 1}
    assert reason(state, request, 0) == Reason(Rule.NOT_ENOUGH_FREE, "2.01Gi short")
    assert reason(state, request, 1) == Reason(Rule.OTHER_GROUP, "in group 1-2 with 3Gi free")
    assert reason(state, request, 1, 2) == Reason(Rule.NOT_ENOUGH_FREE, "1 short")
    assert reason(state, request, 3) is None
    assert reason(state, request, 4) == Reason(Rule.TOO_SMALL, "1.01Gi short, even if empty")
    assert reason(state, request, 2, 3) == reason_for(Rule.OTHER_GROUP)
    assert reason(state, request, 9) == Reason(Rule.TOO_SMALL, "3.01Gi short, even if empty")


def test_a_request_for_several_nodes_shows_what_blocks(worlds: ModuleType) -> None:
    state, request = used(worlds), {"memory": 9 * GI}
    blocks = "blocks a group (3Gi assigned)"
    assert reason(state, request, 0) == Reason(Rule.BLOCKS_GROUP, blocks)
    assert reason(state, request, 1) == Reason(Rule.OTHER_GROUP, "in group 1-2 with 3Gi free")
    assert reason(state, request, 1, 2) == Reason(Rule.TOO_SMALL, "1Gi short, even if empty")
    assert reason(state, request, 3) == Reason(Rule.TOO_SMALL, "5Gi short, even if empty")
    # Nothing blocks what no group could hold.
    found = reason(state, {"memory": 99 * GI}, 0)
    assert found == Reason(Rule.TOO_SMALL, "95Gi short, even if empty")


def test_several_resources_are_named(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI, PAGES: 2 * GI} for n in range(2)})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 2 * GI, PAGES: GI})
    request = {PAGES: 2 * GI, "memory": 3 * GI}
    assert reason(state, request, 0) == Reason(
        Rule.NOT_ENOUGH_FREE, "memory 1Gi, hugepages-1Gi 1Gi short"
    )
    found = reason(state, {"memory": 1, PAGES: 3 * GI}, 0)
    assert found == Reason(
        Rule.BLOCKS_GROUP,
        "blocks a group (memory 2Gi, hugepages-1Gi 1Gi assigned)",
    )


def test_what_the_pod_may_reuse_is_not_short(worlds: ModuleType) -> None:
    state = mark_reusable(used(worlds), "a", "x")
    found = reason(state, {"memory": 4 * GI}, 0, uid="a")
    assert found is None
    state = assign(state, "c", "x", NodeSet([0]), {"memory": GI})
    found = reason(state, {"memory": 4 * GI}, 0, uid="a")
    assert found == Reason(Rule.NOT_ENOUGH_FREE, "1Gi short")


def movable(state: State, node_id: int) -> State:
    nodes: dict[int, NodeState] = dict(state.machine_state)
    nodes[node_id] = replace(nodes[node_id], lacks_normal_memory=True)
    return State(nodes, state.assignments)


def test_a_node_without_normal_memory(worlds: ModuleType) -> None:
    found = reason(movable(used(worlds), 3), {"memory": GI}, 3)
    assert found == reason_for(Rule.NO_NORMAL_MEMORY)


def test_the_part_of_an_even_group(worlds: ModuleType) -> None:
    state = assign(used(worlds), "c", "x", NodeSet([3]), {})
    request = {"memory": 6 * GI}
    found = {n: even_reason_of(state, request, 2, n) for n in state.machine_state}
    assert found == {
        0: Reason(Rule.BLOCKS_GROUP, "blocks a group (3Gi assigned)"),
        1: Reason(Rule.NOT_ENOUGH_FREE, "3Gi short for its part"),
        2: Reason(Rule.OTHER_COUNT, "has room for its part")
        if state.machine_state[2].table("memory").free >= 3 * GI
        else Reason(Rule.NOT_ENOUGH_FREE, "3Gi short for its part"),
        3: Reason(Rule.OTHER_COUNT, "has room for its part"),
        4: Reason(Rule.TOO_SMALL, "1Gi short for its part, even if empty"),
    }
    assert even_reason_of(state, request, 3, 1).rule is Rule.OTHER_GROUP
    assert even_reason_of(movable(state, 3), request, 2, 3) == reason_for(Rule.NO_NORMAL_MEMORY)


def test_resources_are_named_only_beside_others() -> None:
    assert prefixes_of(["memory"]) == {"memory": ""}
    assert prefixes_of([PAGES, "memory"]) == {"memory": "memory ", PAGES: "hugepages-1Gi "}
