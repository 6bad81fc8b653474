from types import ModuleType

from nri_numamem.memorymanager import (
    Explanation,
    NodeState,
    NodeVerdict,
    Rejection,
    Request,
    State,
    Table,
)
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.candidates import candidates_for
from nri_numamem.memorymanager.node_reasons import Reason, Rule
from nri_numamem.memorymanager.policy_static import NO_DEFAULT
from nri_numamem.memorymanager.rejection import (
    MESSAGE_LIMIT,
    allocation_failed,
    not_aligned,
    reject,
    reject_pod,
)
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import NodeSet, Preferences

GI = 2**30


def refuse(state: State, request: Request) -> Rejection:
    candidates = candidates_for(state, "new", request, NodeSet())
    return reject(state, "new", request, candidates, Preferences(), "Reason", "Sentence")


def test_the_message_has_the_kubelets_sentence() -> None:
    assert allocation_failed("x") == (
        "Allocate failed due to [memorymanager] x, which is unexpected"
    )


def test_the_message_has_every_node(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI} for n in range(6)})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 3 * GI})
    state = assign(state, "b", "x", NodeSet([1, 2]), {"memory": 5 * GI})
    rejection = refuse(state, {"memory": 15 * GI})
    assert rejection.reason == "Reason"
    assert rejection.message == (
        "requested memory 15Gi; needs 4 NUMA nodes; "
        "NUMA node 0: 1Gi free of 4Gi allocatable, blocks a group (3Gi assigned); "
        "NUMA node 1: 0 free of 4Gi allocatable, in group 1-2 with 3Gi free; "
        "NUMA node 2: 3Gi free of 4Gi allocatable, in group 1-2 with 3Gi free; "
        "NUMA nodes 3-5: 4Gi free of 4Gi allocatable, 11Gi short, even if empty; "
        "Sentence"
    )
    assert rejection.explanation.per_node[0] == NodeVerdict(
        0,
        {"memory": Table(4 * GI, 0, 4 * GI, 3 * GI, GI)},
        Reason(Rule.BLOCKS_GROUP, "blocks a group (3Gi assigned)"),
    )


def test_the_message_names_several_resources(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": 4 * GI, "hugepages-1Gi": GI}})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 1})
    assert refuse(state, {"hugepages-1Gi": 2 * GI, "memory": GI}).message == (
        "requested memory 1Gi, hugepages-1Gi 2Gi; "
        "exceeds all NUMA nodes together; "
        "NUMA node 0: memory 3.99Gi free of 4Gi allocatable (5Gi less 1Gi hugepages), "
        "hugepages-1Gi 1Gi free of 1Gi allocatable, hugepages-1Gi 1Gi short, even if empty; "
        "Sentence"
    )


def test_the_message_has_the_best_set_without_topology_constraints(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": 4}, 1: {"memory": 4}})
    assert refuse(state, {"memory": 4}).message == (
        "requested memory 4; fits on 1 empty NUMA node; "
        "without topology constraints it would fit on NUMA node 0; "
        "NUMA nodes 0-1: 4 free of 4 allocatable, has room; "
        "Sentence"
    )


def reserved_machine(node_count: int) -> State:
    """Return the state of a machine whose nodes have a different amount of free memory each."""
    allocatable = 8 * GI - GI - GI // 2
    pages = Table(GI // 2, 0, GI // 2, 0, GI // 2)
    nodes: dict[int, NodeState] = {}
    for n in range(node_count):
        used = n << 24
        memory = Table(8 * GI, GI, allocatable, used, allocatable - used)
        nodes[n] = NodeState(0, {"memory": memory, "hugepages-2Mi": pages}, NodeSet([n]))
    return State(nodes)


def test_the_origin_of_the_allocatable_amount_is_shown_while_there_is_room() -> None:
    few, many = (refuse(reserved_machine(n), {"memory": 99 * GI}).message for n in (2, 10))
    assert (
        "NUMA node 0: 6.5Gi free of 6.5Gi allocatable "
        "(8Gi less 1Gi reservedMemory, 512Mi hugepages), 92.5Gi short, even if empty"
    ) in few
    assert "NUMA node 0: 6.5Gi free of 6.5Gi allocatable, 92.5Gi short, even if empty" in many
    assert max(len(few), len(many)) <= MESSAGE_LIMIT


def test_nodes_of_a_large_machine_are_summarized_by_rule(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 64 * GI + n} for n in range(64)})
    for n in range(24):
        state = assign(state, "a", f"c{n}", NodeSet([n]), {"memory": 64 * GI - 1000 * n})
    for n in range(24, 48, 2):
        state = assign(state, "b", f"c{n}", NodeSet([n, n + 1]), {"memory": 100 * GI + n})
    message = refuse(state, {"memory": 4000 * GI}).message
    assert len(message) <= MESSAGE_LIMIT
    assert message.endswith(
        "NUMA nodes 0-23: blocked for groups by single-node assignments; "
        "NUMA nodes 24-47: in other groups; "
        "NUMA nodes 48-63: too small, even if empty; "
        "Sentence"
    )


def test_the_length_of_a_message_is_limited(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 1} for n in range(0, 1000, 2)})
    message = refuse(state, {"memory": 10**6}).message
    assert len(message) == MESSAGE_LIMIT
    assert message.endswith("...; Sentence")


def test_remedies_are_before_the_sentence(worlds: ModuleType) -> None:
    found = (
        Remedy(Kind.MAKE_ROOM, NodeSet([1]), {"memory": GI}),
        Remedy(Kind.REQUEST_LESS, amounts={"memory": 3 * GI}),
    )
    calls: list[None] = []

    def find() -> tuple[Remedy, ...]:
        calls.append(None)
        return found

    state = worlds.empty_state({0: {"memory": 4 * GI}})
    plain = refuse(state, {"memory": 9 * GI})
    rejection = plain.explained(lambda _: Reason(Rule.TOO_SMALL, "why"), find)
    assert rejection.message == (
        "requested memory 9Gi; exceeds all NUMA nodes together; "
        "NUMA node 0: 4Gi free of 4Gi allocatable, why; "
        "remedy: make room on NUMA node 1: 1Gi, or request at most 3Gi; Sentence"
    )
    assert rejection.summary == ("requested memory 9Gi; exceeds all NUMA nodes together; Sentence")
    assert (rejection.remedies, len(calls)) == (found, 1)
    assert plain.remedies == ()


def test_the_limit_of_a_policy_is_named(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI} for n in range(2)})
    candidates = candidates_for(state, "new", {"memory": 5 * GI}, NodeSet())
    rejection = reject(
        state, "new", {"memory": 5 * GI}, candidates, Preferences(), "R", "S", "p allows 1"
    )
    assert rejection.message.startswith("requested memory 5Gi; needs 2 NUMA nodes, p allows 1; ")


def test_a_pod_that_all_nodes_together_cannot_hold_now(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI} for n in range(2)})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 3 * GI})
    rejection = reject_pod(state, {"memory": 4 * GI}, {"memory": 2 * GI}, "Reason", "Sentence")
    assert rejection.reason == "Reason"
    assert rejection.message == (
        "requested memory 4Gi for the pod; "
        "pods that have started in part still need memory 2Gi; "
        "all NUMA nodes together have memory 5Gi free; "
        "refused so that the pod does not start in part; "
        "NUMA node 0: 1Gi free of 4Gi allocatable, not enough together with the other nodes; "
        "NUMA node 1: 4Gi free of 4Gi allocatable, not enough together with the other nodes; "
        "Sentence"
    )
    assert [verdict.node_id for verdict in rejection.explanation.per_node] == [0, 1]


def test_a_pod_alone(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI} for n in range(2)})
    request = {"memory": 9 * GI, "hugepages-1Gi": GI}
    message = reject_pod(state, request, {}, "Reason", "Sentence").message
    assert "still need" not in message
    assert "all NUMA nodes together have memory 8Gi, hugepages-1Gi 0 free" in message


def test_the_message_of_a_pod_is_short_on_a_large_machine(worlds: ModuleType) -> None:
    sizes = {"memory": 64 * GI, "hugepages-1Gi": 32 * GI, "hugepages-2Mi": 7 * GI}
    state = worlds.empty_state(
        {n: {name: size + (n << 26) for name, size in sizes.items()} for n in range(64)}
    )
    request = {name: 50 * size for name, size in sizes.items()}
    outstanding = {name: 20 * size + 1 for name, size in sizes.items()}
    sentence = allocation_failed(NO_DEFAULT)
    message = reject_pod(state, request, outstanding, "Reason", sentence).message
    assert len(message) <= MESSAGE_LIMIT
    assert "free memory, hugepages-1Gi, hugepages-2Mi per NUMA node: " in message
    assert " · 63: 67.93Gi, 35.93Gi, 10.93Gi · " in message
    assert message.endswith(f" other nodes; {sentence}")


def test_rejections_with_equal_explanations_are_equal(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": 4 * GI}})
    refused, again, other = (refuse(state, {"memory": size}) for size in (10**15, 10**15, 10**16))
    assert refused == again != other
    assert hash(refused) == hash(again)
    assert refused != refused.message
    assert repr(refused).startswith("Rejection('Reason', Explanation(facts='requested memory ")


def test_a_message_for_less_room_has_fewer_facts(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": (64 + n) * GI} for n in range(8)})
    rejection = refuse(state, {"memory": 1000 * GI})
    assert rejection.message_within(MESSAGE_LIMIT) == rejection.message
    for limit in (500, 300, 170):
        text = rejection.message_within(limit)
        assert len(text) <= limit
        assert text.startswith("requested memory 1000Gi; ")
        assert text.endswith("; Sentence")
    assert "NUMA nodes 0-7: at most 71Gi free" in rejection.message_within(170)
    assert "free per NUMA node: 0: 64Gi · 1: 65Gi" in rejection.message_within(300)
    assert len(rejection.message_within(10)) == 10


def test_a_message_of_one_part_is_cut() -> None:
    rejection = Rejection("Reason", lambda: Explanation("x" * 50))
    assert rejection.message_within(50) == "x" * 50
    assert rejection.message_within(20) == "x" * 17 + "..."


def test_the_rejection_of_a_pod_as_a_whole_is_marked(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": GI}})
    rejection = refuse(state, {"memory": 2 * GI})
    assert not rejection.is_of_pod
    assert rejection.of_pod().is_of_pod
    assert rejection.of_pod() == rejection
    assert rejection.of_pod().message_within(150) == rejection.message_within(150)


def test_one_more_fact_keeps_everything_else(worlds: ModuleType) -> None:
    state = worlds.empty_state({0: {"memory": GI}})
    remedy = Remedy(Kind.REQUEST_LESS, amounts={"memory": GI})
    known = refuse(state, {"memory": 2 * GI}).of_pod()
    found = known.explained(lambda _node_id: Reason(Rule.CHOSEN, "x"), lambda: (remedy,))
    found = found.with_fact("pods wait")
    assert found.explanation.facts == f"{known.explanation.facts}; pods wait"
    assert (found.is_of_pod, found.common, found.remedies) == (True, known.common, (remedy,))
    assert found.explanation.per_node


def test_a_container_that_cannot_be_aligned() -> None:
    rejection = not_aligned("the pod's memory is on node 0")
    assert rejection.reason == "TopologyAffinityError"
    assert rejection.message == (
        "the pod's memory is on node 0; Resources cannot be allocated with Topology locality"
    )
