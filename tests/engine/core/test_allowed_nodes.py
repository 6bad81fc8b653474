"""Pods that may be placed on some of the nodes only, and what begun pods still need there."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from nri_numamem.engine.core import allowed_nodes, events
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.pods.outstanding import crowded
from nri_numamem.memorymanager import Explanation, PoolUse, Rejection
from nri_numamem.memorymanager.hugepage_pools import MaskedState, Pool
from nri_numamem.memorymanager.remedy import Kind
from nri_numamem.numa import Exclusive, NodeSet, Partition
from tests.engine.conftest import GI, MI, PAGE, SETTINGS, Answer, Host, NewHost

PAGES = "hugepages-2Mi"
FREE = GI - 64 * MI - 16 * PAGE  # of an empty node
DB = Partition("db", NodeSet([0]), namespaces=("db",))
"""Node 0, which the rest may use too."""
SHARED = replace(SETTINGS, partitions=(DB,))


def begin(
    host: Host,
    uid: str,
    size_mi: int,
    rest_mi: int = 0,
    namespace: str = "ns",
    pages: Mapping[int, int] | None = None,
    pool_use: PoolUse | None = None,
) -> Answer:
    """Create the first container of a pod; `rest_mi` is left to the later ones."""
    limit = (size_mi + rest_mi) * MI
    pod = host.run(uid, memory=limit, namespace=namespace, hugepages=pages)
    shown = dict.fromkeys(pages, 0) if pages and pool_use is None else pages
    return host.create(pod, memory=size_mi * MI, hugepages=shown, pool_use=pool_use)


def fill(host: Host, *nodes: int) -> None:
    for node in nodes:
        pod = host.run(f"full-{node}", memory=FREE)
        answer = host.create(pod, memory=FREE, cpus=f"{4 * node}-{4 * node + 3}")
        assert answer.adjustment == Adjustment(str(node))


def more(host: Host, uid: str, size_mi: int) -> Answer:
    """Create another container of a pod."""
    pod = host.pods[f"sandbox-{uid}"]
    return host.create(pod, f"more-{len(host.containers)}", size_mi * MI)


# What a placement sees


@pytest.fixture
def context(new_host: NewHost) -> Context:
    return new_host(SHARED).engine.context


def pod_of(namespace: str) -> events.PodSandbox:
    return events.PodSandbox("s", "u", namespace, "p", "/kubepods/podu")


def test_other_nodes_are_absent_and_come_back(context: Context) -> None:
    state = context.empty_accounting()
    masked = allowed_nodes.mask_others(context, pod_of("db"), MaskedState(state))
    assert [*masked.state.machine_state] == [0]
    assert [*masked.hidden] == [1, 2, 3]
    assert masked.unmask(masked.state) == state
    assert [*masked.unmask(masked.state).machine_state] == [0, 1, 2, 3]
    everything = MaskedState(state)
    assert allowed_nodes.mask_others(context, pod_of("ns"), everything).hidden == {}


def test_without_the_setting_nothing_is_masked(host: Host) -> None:
    context, state = host.engine.context, host.engine.state
    masked = MaskedState(state.accounting)
    assert allowed_nodes.mask_others(context, pod_of("db"), masked) is masked
    assert allowed_nodes.around(context, state, state.accounting, pod_of("db")) is None
    assert allowed_nodes.possible_nodes(context, state.accounting, pod_of("db")) == NodeSet(
        range(4)
    )
    rejection = Rejection("why", lambda: Explanation("requested memory 1Gi"))
    assert allowed_nodes.with_cause(context, pod_of("db"), rejection, masked, ()) is rejection
    assert crowded(context, state, pod_of("db"), state.accounting) == NodeSet()


def test_a_pod_keeps_the_nodes_that_it_has(new_host: NewHost) -> None:
    host = new_host(SHARED)
    pod = host.run("a", namespace="db")
    host.create(pod, "one", mems="3")
    accounting = host.engine.state.accounting
    masked = allowed_nodes.mask_others(host.engine.context, pod, MaskedState(accounting))
    assert [*masked.state.machine_state] == [0, 3]
    assert allowed_nodes.own_nodes(accounting, pod) == NodeSet([3])
    possible = allowed_nodes.possible_nodes(host.engine.context, accounting, pod)
    assert possible == NodeSet([0, 3])


def test_a_rejection_says_what_is_free_elsewhere(context: Context) -> None:
    masked = allowed_nodes.mask_others(
        context, pod_of("db"), MaskedState(context.empty_accounting())
    )
    rejection = Rejection("why", lambda: Explanation("requested memory 1Gi"))
    found = allowed_nodes.with_cause(context, pod_of("db"), rejection, masked, ("memory", PAGES))
    assert found.explanation.facts == (
        "requested memory 1Gi; partition db has node 0; "
        "memory 2.72Gi, hugepages-2Mi 96Mi free on other NUMA nodes"
    )
    all_nodes = MaskedState(context.empty_accounting())
    assert allowed_nodes.with_cause(context, pod_of("ns"), rejection, all_nodes, ()) is rejection


# Outstanding amounts


def test_a_placement_leaves_what_a_begun_pod_of_a_partition_needs(new_host: NewHost) -> None:
    host = new_host(SHARED)
    begin(host, "a", 300, 500, "db")
    assert begin(host, "small", 100).adjustment == Adjustment("0")
    assert begin(host, "b", 200).adjustment == Adjustment("1")
    assert more(host, "a", 500).adjustment == Adjustment("0")
    assert begin(host, "c", 20).adjustment == Adjustment("0")


def test_a_pod_of_the_rest_is_refused_if_it_fits_only_there(new_host: NewHost) -> None:
    host = new_host(SHARED)
    begin(host, "a", 300, 500, "db")
    fill(host, 1, 2, 3)
    answer = begin(host, "b", 200)
    assert answer.refusal is not None
    assert "pods that run in part need node 0" in answer.refusal
    assert "free on other NUMA nodes" not in answer.refusal
    assert begin(host, "small", 100).adjustment == Adjustment("0")
    # The remedies are true: a smaller request, or an end of pods.
    assert "remedy: " in answer.refusal
    assert more(host, "a", 500).adjustment == Adjustment("0")


def test_a_begun_pod_is_never_refused_for_that(new_host: NewHost) -> None:
    host = new_host(SHARED)
    begin(host, "a", 300, 500, "db")
    begin(host, "b", 600, 300)
    fill(host, 3)
    begin(host, "c", 900, 150)
    assert host.placed()["b"] == {"main": "1"}
    assert host.placed()["c"] == {"main": "2"}
    assert more(host, "c", 150).adjustment == Adjustment("1")
    # Only node 0 has room.
    assert more(host, "b", 300).adjustment == Adjustment("0")


def test_two_partitions_in_need(new_host: NewHost) -> None:
    other = replace(DB, name="two", nodes=NodeSet([1]), namespaces=("two",))
    host = new_host(replace(SETTINGS, partitions=(DB, other)))
    begin(host, "a", 300, 500, "db")
    begin(host, "b", 300, 500, "two")
    assert begin(host, "c", 200).adjustment == Adjustment("2")


def test_a_pod_of_a_partition_leaves_what_begun_pods_of_the_rest_need(new_host: NewHost) -> None:
    host = new_host(SHARED)
    begin(host, "a", 100, 3500)
    refused = begin(host, "b", 300, namespace="db")
    assert refused.refusal is not None
    assert begin(host, "c", 100, namespace="db").adjustment == Adjustment("0")
    host.stop_pod(host.pods["sandbox-a"])
    assert begin(host, "d", 300, namespace="db").adjustment == Adjustment("0")


def test_the_remedies_of_such_a_refusal_are_true(new_host: NewHost) -> None:
    host = new_host(SHARED)
    begin(host, "a", 200, namespace="db")
    begin(host, "b", 100, 3100)
    pod = host.run("c", memory=500 * MI, namespace="db")
    container = events.Container("c", pod.sandbox_id, "main", 500 * MI)
    host.engine.decide(events.CreateContainer(pod, container))
    rejection = host.engine.rejection
    host.engine.discard()
    assert isinstance(rejection, Rejection)
    found = {remedy.kind: remedy for remedy in rejection.remedies}
    # 3712 - 300 - 3100 = 312 are left.
    assert found[Kind.MAKE_ROOM].amounts == {"memory": 188 * MI}
    assert found[Kind.REQUEST_LESS].amounts == {"memory": 312 * MI}
    assert begin(host, "more", 313, namespace="db").refusal is not None
    assert begin(host, "less", 312, namespace="db").adjustment == Adjustment("0")


def test_exclusive_partitions_do_not_wait_for_others(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, partitions=(replace(DB, exclusive=Exclusive.GUARANTEED),)))
    begin(host, "a", 100, 2600)
    assert begin(host, "b", 900, namespace="db").adjustment == Adjustment("0")
    assert begin(host, "c", 100).refusal is not None


def test_a_pod_with_other_nodes_does_not_compete_for_those_of_its_partition(
    new_host: NewHost,
) -> None:
    host = new_host(SHARED)
    pod = host.run("a", memory=600 * MI, namespace="db")
    host.create(pod, memory=100 * MI, mems="3")
    assert host.engine.state.outstanding["a"] == {"memory": 500 * MI}
    assert begin(host, "b", 900, namespace="db").adjustment == Adjustment("0")


def test_pages_that_the_kernel_lacks_count(new_host: NewHost) -> None:
    host = new_host(SHARED)
    begin(host, "a", 100, 100, pages={PAGE: 30 * PAGE})
    assert host.engine.state.outstanding["a"][PAGES] == 30 * PAGE
    none, full = Pool(16 * PAGE, 0), Pool(0, 16 * PAGE)
    for others, is_refused in ((none, True), (full, False)):
        use = PoolUse({n: {PAGES: full if n == 0 else others} for n in range(4)}, {}, {})
        answer = begin(host, f"b{is_refused}", 100, 0, "db", {PAGE: 2 * PAGE}, use)
        assert (answer.refusal is not None) is is_refused


@pytest.mark.parametrize(
    "settings",
    [
        replace(SHARED, when_unsatisfiable="RunUnpinned"),
        replace(SHARED, topology_manager_scope="pod"),
    ],
)
def test_where_outstanding_amounts_refuse_nothing(new_host: NewHost, settings: Policy) -> None:
    host = new_host(settings)
    begin(host, "a", 300, 500, "db")
    expected = "0" if settings.topology_manager_scope == "container" else "1"
    assert begin(host, "b", 200).adjustment == Adjustment(expected)


def test_a_remedy_may_be_that_pods_end_on_the_nodes_of_others(new_host: NewHost) -> None:
    """Node 0 lacks room, and a begun pod of the rest needs what would be free there."""
    host = new_host(SHARED)
    begin(host, "a", 500, namespace="db")
    pod = host.run("b", memory=3100 * MI)
    host.create(pod, memory=100 * MI, cpus="4-7")
    answer = begin(host, "c", 800, namespace="db")
    assert answer.refusal is not None
    assert "remedy: end the pods on NUMA nodes 0-3, or request at most 100Mi" in answer.refusal
    host.stop_pod(host.pods["sandbox-a"])
    assert begin(host, "d", 800, namespace="db").refusal is not None
    host.stop_pod(pod)
    assert begin(host, "e", 800, namespace="db").adjustment == Adjustment("0")
