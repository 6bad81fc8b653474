from types import ModuleType

from nri_numamem.memorymanager import (
    NodeSet,
    NodeVerdict,
    Preferences,
    Rejection,
    Request,
    State,
    Table,
)
from nri_numamem.memorymanager.books import assign
from nri_numamem.memorymanager.choices import choices_for
from nri_numamem.memorymanager.refusal import MESSAGE_LIMIT, allocation_failed, reject

GI = 2**30


def refuse(state: State, request: Request) -> Rejection:
    choices = choices_for(state, "new", request, NodeSet())
    return reject(state, request, choices, Preferences(), "Reason", "Sentence")


def test_the_kubelets_sentence() -> None:
    assert allocation_failed("x") == (
        "Allocate failed due to [memorymanager] x, which is unexpected"
    )


def test_every_node_is_accounted_for(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI} for n in range(6)})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 3 * GI})
    state = assign(state, "b", "x", NodeSet([1, 2]), {"memory": 5 * GI})
    rejection = refuse(state, {"memory": 15 * GI})
    assert rejection.reason == "Reason"
    assert rejection.message == (
        "requested memory 15Gi; 4 empty NUMA nodes would do; "
        "NUMA node 0: 1Gi free of 4Gi, serves single-node assignments; "
        "NUMA node 1: 0 free of 4Gi, in group 1-2 with 3Gi free; "
        "NUMA node 2: 3Gi free of 4Gi, in group 1-2 with 3Gi free; "
        "NUMA nodes 3-5: 4Gi free of 4Gi, unused, too small alone; Sentence"
    )
    assert rejection.explanation.per_node[0] == NodeVerdict(
        0,
        {"memory": Table(4 * GI, 0, 4 * GI, 3 * GI, GI)},
        "serves single-node assignments",
    )


def test_several_resources_are_named(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": 4 * GI, "hugepages-1Gi": GI}})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 1})
    assert refuse(state, {"hugepages-1Gi": 2 * GI, "memory": GI}).message == (
        "requested memory 1Gi, hugepages-1Gi 2Gi; "
        "more than all NUMA nodes have together; NUMA node 0: memory 3.99Gi free of 4Gi, "
        "hugepages-1Gi 1Gi free of 1Gi, serves single-node assignments; Sentence"
    )


def test_what_would_fit_is_said(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": 4}, 1: {"memory": 4}})
    assert refuse(state, {"memory": 4}).message == (
        "requested memory 4; one empty NUMA node would do; "
        "by itself it would fit on NUMA node 0; NUMA nodes 0-1: 4 free of 4, unused; Sentence"
    )


def test_many_nodes_share_the_room(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 64 * GI + n} for n in range(64)})
    for n in range(24):
        state = assign(state, "a", f"c{n}", NodeSet([n]), {"memory": 64 * GI - 1000 * n})
    for n in range(24, 48, 2):
        state = assign(state, "b", f"c{n}", NodeSet([n, n + 1]), {"memory": 100 * GI + n})
    message = refuse(state, {"memory": 4000 * GI}).message
    assert len(message) <= MESSAGE_LIMIT
    assert message.endswith(
        "NUMA nodes 0-23: at most 22.48Ki free, serves single-node assignments; "
        "NUMA nodes 24-47: at most 28Gi free, in other groups; "
        "NUMA nodes 48-63: at most 64Gi free, unused, too small alone; Sentence"
    )


def test_there_is_an_end_to_every_message(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 1} for n in range(0, 1000, 2)})
    message = refuse(state, {"memory": 10**6}).message
    assert len(message) == MESSAGE_LIMIT
    assert message.endswith("...; Sentence")


def test_refusals_that_say_the_same_are_equal(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": 4 * GI}})
    refused, again, other = (refuse(state, {"memory": size}) for size in (10**15, 10**15, 10**16))
    assert refused == again != other
    assert hash(refused) == hash(again)
    assert refused != refused.message
