"""What a remedy changes before the same creation is decided again."""

from dataclasses import replace

import pytest

from nri_numamem.engine.admission.remedy_inputs import (
    pods_on,
    trial_context,
    with_hugepages,
    with_less,
    with_new_pages,
    with_pages_freed,
    with_policy,
    without_pods,
)
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, StopPodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.memorymanager import PoolUse, check_accounting
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import MemoryNodes, MemoryNodesError, NodeClass, NodeSet
from tests.engine.conftest import MI, PAGE, SETTINGS, Host, NewHost, four_nodes

PAGES = "hugepages-2Mi"


def test_a_trial_has_the_policy_of_its_context() -> None:
    context = trial_context(Context.of(four_nodes(), SETTINGS))
    assert context.is_trial
    changed = with_policy(context, replace(SETTINGS, topology_manager_policy="restricted"))
    assert changed.topology.policy == "restricted"
    assert (changed.is_trial, changed.reserved) == (True, context.reserved)
    override = MemoryNodes(override=dict.fromkeys(range(4), NodeClass.CPULESS))
    with pytest.raises(MemoryNodesError):
        with_policy(context, Policy(memory_nodes=override))


def test_the_end_of_pods_is_that_of_the_event(new_host: NewHost) -> None:
    host = new_host()
    pods = [host.run(uid, memory=300 * MI) for uid in "abc"]
    for pod in pods:
        host.create(pod, memory=200 * MI)
    before = host.engine.state
    assert pods_on(before, NodeSet([0]), but="a") == ["b", "c"]
    after, use = without_pods(before, None, ["b", "c"])
    for pod in pods[1:]:
        host.engine.apply(StopPodSandbox(pod))
    expected = host.engine.state
    assert (after.accounting, after.holders, after.keys) == (
        expected.accounting,
        expected.holders,
        expected.keys,
    )
    assert (after.pods, after.outstanding, use) == (expected.pods, expected.outstanding, None)
    assert check_accounting(after.accounting) == ()


def with_pages(host: Host) -> None:
    for uid, count in (("a", 4), ("b", 6)):
        host.create(host.run(uid), memory=MI, hugepages={PAGE: count * PAGE})


@pytest.mark.parametrize(
    ("used", "known", "freed"),
    [
        (10, {"b": 6}, 6),  # as its cgroup shows
        (10, {"b": 3}, 3),
        (10, {}, 6),  # both use all that they have
        (7, {}, 3),  # the other one uses four at most
        (3, {}, 0),
        (14, {}, 6),  # four pages are used outside of pods
    ],
)
def test_the_pages_that_a_pod_frees(
    new_host: NewHost, used: int, known: dict[str, int], freed: int
) -> None:
    host = new_host()
    with_pages(host)
    by_pods = {uid: {0: {PAGES: count * PAGE}} for uid, count in known.items()}
    use = PoolUse({0: {PAGES: Pool(used * PAGE, (16 - used) * PAGE)}}, {}, by_pods)
    _, after = without_pods(host.engine.state, use, ["b"])
    assert after is not None
    assert after.pools[0][PAGES] == Pool((used - freed) * PAGE, (16 - used + freed) * PAGE)
    assert after.by_pods == {}


def test_pages_are_freed_and_added() -> None:
    use = PoolUse({0: {PAGES: Pool(2 * PAGE, PAGE)}}, {PAGES: 3 * PAGE})
    freed = with_pages_freed(use, {0: {PAGES: 4 * PAGE}, 1: {PAGES: PAGE}})
    assert freed == PoolUse({0: {PAGES: Pool(0, 3 * PAGE)}}, {PAGES: PAGE})
    added = with_new_pages(use, 1, {PAGES: PAGE})
    assert added.pools == {**use.pools, 1: {PAGES: Pool(0, PAGE)}}
    machine = with_hugepages(four_nodes(), 1, {PAGES: 4 * PAGE, "hugepages-1Gi": 1 << 30})
    assert [node.hugepages for node in machine.nodes[:2]] == [{PAGE: 16}, {PAGE: 20, 1 << 30: 1}]


POD = PodSandbox("s", "u", "ns", "n", "/kubepods/podu", 300 * MI, {PAGE: 8 * PAGE})


def test_a_smaller_request_of_a_container() -> None:
    container = Container("c", "s", "main", 200 * MI, {PAGE: 4 * PAGE}, {PAGE: 6 * PAGE})
    event = CreateContainer(POD, container)
    less = {"memory": 50 * MI, PAGES: 2 * PAGE}
    after = with_less(event, less, {"memory": 150 * MI, PAGES: 2 * PAGE}, is_of_pod=False)
    assert (after.pod.memory_limit_bytes, after.pod.hugepage_limits) == (250 * MI, {PAGE: 6 * PAGE})
    assert (after.container.memory_limit_bytes, after.container.hugepage_limits) == (
        150 * MI,
        {PAGE: 2 * PAGE},
    )
    assert after.container.hugepages_unified == {PAGE: 4 * PAGE}
    hidden = CreateContainer(POD, Container("c", "s", "main"))
    after = with_less(hidden, less, {"memory": 250 * MI}, is_of_pod=False)
    assert (after.container.memory_limit_bytes, after.container.hugepage_limits) == (None, None)


def test_a_smaller_request_of_a_pod() -> None:
    container = Container("c", "s", "main", 200 * MI, {PAGE: 4 * PAGE}, {1 << 30: 1 << 30})
    event = CreateContainer(POD, container)
    less, smaller = {"memory": 50 * MI, PAGES: 6 * PAGE}, {"memory": 250 * MI, PAGES: 2 * PAGE}
    after = with_less(event, less, smaller, is_of_pod=True)
    assert (after.pod.memory_limit_bytes, after.pod.hugepage_limits) == (250 * MI, {PAGE: 2 * PAGE})
    assert after.container.memory_limit_bytes == 200 * MI
    assert after.container.hugepage_limits == {PAGE: 2 * PAGE}
    assert after.container.hugepages_unified == {1 << 30: 1 << 30}
    hidden = CreateContainer(POD, Container("c", "s", "main"))
    assert with_less(hidden, less, smaller, is_of_pod=True).container == hidden.container
