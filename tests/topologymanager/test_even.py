"""Admission to an even group: policies, hints of other providers, and what a container keeps."""

from dataclasses import replace
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Container,
    ContainerKind,
    Hint,
    Pod,
    Rejection,
    Request,
    State,
    mark_reusable,
)
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.rejection import MESSAGE_LIMIT
from nri_numamem.numa import NodeSet, Preferences
from nri_numamem.topologymanager import (
    Placement,
    ProviderHints,
    Topology,
    TopologyPolicy,
    admit_evenly,
)
from nri_numamem.topologymanager.even import reject_evenly

KI = 1024
BEST_EFFORT, RESTRICTED = TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED


@pytest.fixture
def state(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 64 * KI} for n in range(4)})
    assert isinstance(made, State)
    return made


def admit(
    state: State,
    *others: ProviderHints,
    policy: TopologyPolicy = BEST_EFFORT,
    memory: int = 32 * KI,
    count: int = 2,
) -> Placement | Rejection:
    pod = Pod(
        "a", guaranteed=True, containers=(Container("c", ContainerKind.APP, {"memory": memory}),)
    )
    topology = Topology(policy, Preferences(prefer_closest=False))
    return admit_evenly(state, pod, "c", count, topology, others)


def nodes(got: Placement | Rejection) -> str:
    assert isinstance(got, Placement), got
    assert got.is_even
    assert got.hint == Hint(got.nodes, preferred=True)
    (block,) = got.accounting.assignments["a"]["c"]
    assert block.is_even
    assert {size for _, size in block.charges} == {block.size // len(got.nodes)}
    return str(got.nodes)


def message(got: Placement | Rejection) -> str:
    assert isinstance(got, Rejection), got
    return f"{got.reason}: {got.message}"


def on(text: str, *, preferred: bool = True) -> ProviderHints:
    return {"other": (Hint(NodeSet.parse(text), preferred),)}


@pytest.mark.parametrize("policy", [TopologyPolicy.NONE, BEST_EFFORT, RESTRICTED])
def test_a_request_that_fits_one_node_gets_the_requested_number(
    state: State, policy: TopologyPolicy
) -> None:
    assert nodes(admit(state, policy=policy)) == "0-1"
    assert nodes(admit(state, policy=policy, count=4)) == "0-3"


def test_single_numa_node_admits_no_group(state: State) -> None:
    text = message(admit(state, policy=TopologyPolicy.SINGLE_NUMA_NODE))
    assert text.startswith(
        "TopologyAffinityError: requested memory 32Ki in equal parts on 2 NUMA nodes, "
    )
    assert "each; single-numa-node allows 1; " in text


def test_best_effort_contains_the_nodes_of_the_others(state: State) -> None:
    assert nodes(admit(state, on("3"))) == "0,3"
    assert nodes(admit(state, on("2-3"))) == "2-3"
    assert nodes(admit(state, on("1-3"))) == "1-2"
    assert nodes(admit(state, on("1"), on("1-3"))) == "0-1"
    assert nodes(admit(state, None)) == "0-1"


def test_best_effort_ignores_hints_that_leave_no_group(state: State) -> None:
    full = assign(state, "b", "x", NodeSet([3]), {"memory": 64 * KI})
    assert nodes(admit(full, on("3"))) == "0-1"
    assert nodes(admit(full, on("3"), on("2"))) == "0,2"  # devices first
    assert nodes(admit(state, on("0"), on("2"))) == "0,2"  # nothing in common
    assert nodes(admit(full, on("2-3", preferred=True))) == "0-1"
    assert nodes(admit(state, {"other": ()})) == "0-1"


def test_restricted_admits_exactly_the_nodes_of_the_others(state: State) -> None:
    assert nodes(admit(state, on("1-2"), policy=RESTRICTED)) == "1-2"
    for others in ((on("1"),), (on("1-3"),), (on("1-2", preferred=False),), (on("0"), on("1"))):
        text = message(admit(state, *others, policy=RESTRICTED))
        assert "without topology constraints it would fit on NUMA nodes 0-1" in text
        assert text.startswith("TopologyAffinityError: ")
    full = assign(state, "b", "x", NodeSet([2]), {"memory": KI})
    assert isinstance(admit(full, on("1-2"), policy=RESTRICTED), Rejection)


def test_no_room_is_a_rejection(state: State) -> None:
    text = message(admit(state, memory=200 * KI))
    assert text.startswith("UnexpectedAdmissionError: requested memory 200Ki in equal parts on 2 ")
    assert text.endswith(
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA "
        "nodes with enough memory is available, which is unexpected"
    )


def test_a_container_keeps_its_group(state: State) -> None:
    held = assign(state, "a", "c", NodeSet([2, 3]), {"memory": 32 * KI}, is_even=True)
    ended = mark_reusable(held, "a", "c")
    assert nodes(admit(ended)) == "2-3"
    assert nodes(admit(ended, count=4)) == "0-3"
    uneven = mark_reusable(assign(state, "a", "c", NodeSet([2]), {"memory": 32 * KI}), "a", "c")
    assert nodes(admit(uneven)) == "0-1"


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
        "NUMA node 7: 4Gi free of 4Gi allocatable, only movable memory (ZONE_MOVABLE), "
        "usable only with another node; Sentence"
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
