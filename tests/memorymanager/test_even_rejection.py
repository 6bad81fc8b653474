"""The text of a rejection for want of an even group."""

from dataclasses import replace
from types import ModuleType

from nri_numamem.memorymanager import Rejection, Request, State
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.even_rejection import reject_evenly
from nri_numamem.memorymanager.rejection import MESSAGE_LIMIT
from nri_numamem.numa import NodeSet

GI = 2**30


def refuse(
    state: State, request: Request, count: int, fitting: NodeSet | None = None, limitation: str = ""
) -> Rejection:
    return reject_evenly(state, request, count, fitting, "Reason", "Sentence", limitation)


def test_the_message_has_the_number_of_nodes_and_a_rule_for_every_node(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": (1 if n == 4 else 4) * GI} for n in range(8)})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 3 * GI})
    state = assign(state, "b", "x", NodeSet([1, 2, 3]), {"memory": 5 * GI})
    state = assign(state, "c", "x", NodeSet([5, 6]), {"memory": 3 * GI})
    nodes = dict(state.machine_state)
    nodes[7] = replace(nodes[7], lacks_normal_memory=True)
    rejection = refuse(State(nodes, state.assignments), {"memory": 4 * GI}, 2)
    assert rejection.reason == "Reason"
    assert rejection.message == (
        "requested memory 4Gi in equal parts on 2 NUMA nodes, memory 2Gi each; "
        "NUMA node 0: 1Gi free of 4Gi allocatable, blocks a group (3Gi assigned); "
        "NUMA node 1: 0 free of 4Gi allocatable, in group 1-3 with 7Gi free; "
        "NUMA node 2: 3Gi free of 4Gi allocatable, in group 1-3 with 7Gi free; "
        "NUMA node 3: 4Gi free of 4Gi allocatable, in group 1-3 with 7Gi free; "
        "NUMA node 4: 1Gi free of 1Gi allocatable, 1Gi short for its part, even if empty; "
        "NUMA node 5: 1Gi free of 4Gi allocatable, 1Gi short for its part; "
        "NUMA node 6: 4Gi free of 4Gi allocatable, has room for its part; "
        "NUMA node 7: 4Gi free of 4Gi allocatable, no normal memory, only for a set with another "
        "node; Sentence"
    )


def test_a_fitting_group_and_the_limit_of_the_policy_are_named(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI} for n in range(2)})
    text = refuse(state, {"memory": GI}, 2, NodeSet([0, 1])).message
    assert "; without topology constraints it would fit on NUMA nodes 0-1; " in text
    text = refuse(state, {"memory": GI}, 2, None, "p allows 1").message
    assert "memory 512Mi each; p allows 1; NUMA nodes 0-1: " in text


def test_the_message_is_limited(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": (n + 1) * GI} for n in range(64)})
    rejection = refuse(state, {"memory": 999 * GI}, 2)
    assert len(rejection.message) <= MESSAGE_LIMIT
    assert len(rejection.message_within(300)) <= 300
