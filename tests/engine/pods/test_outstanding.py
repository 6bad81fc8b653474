"""A pod begins only if all of it fits beside what begun pods still need."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Reservation

if TYPE_CHECKING:
    from tests.engine.conftest import Answer, Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 16 * PAGE  # of an empty node
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))


def outstanding_of(host: Host) -> dict[str, int]:
    """Return pod uid -> MiB that its containers do not hold yet."""
    found = host.engine.state.outstanding
    return {uid: amounts["memory"] // MI for uid, amounts in found.items() if "memory" in amounts}


def fill(host: Host, *memory: int) -> None:
    """Let pods of one container hold this many MiB of each node."""
    for node, size in enumerate(memory):
        if size:
            pod = host.run(f"full-{node}", memory=size * MI)
            assert host.create(pod, "main", size * MI, cpus=f"{4 * node}").refusal is None


def is_admitted(answer: Answer) -> bool:
    return answer.refusal is None


def test_an_event_with_the_limit_before_a_resize(host: Host) -> None:
    """Runtimes show the limit of a sandbox's creation after a resize of its pod as well."""
    pod = host.run("a", memory=600 * MI)
    host.create(pod, "one", 200 * MI)
    host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=500 * MI)))
    assert outstanding_of(host) == {"a": 300}
    host.stop(host.newest("one"))
    assert outstanding_of(host) == {"a": 300}


def test_two_pods_with_crossed_cpus_both_complete(host: Host) -> None:
    """Each pod has one container per node; only one pod has room at a time."""
    fill(host, 0, 0, 928, 928)
    a, b = (host.run(uid, memory=1200 * MI) for uid in "ab")
    assert is_admitted(host.create(a, "one", 600 * MI, cpus="0-3"))
    refusal = host.create(b, "one", 600 * MI, cpus="4-7").refusal or ""
    assert refusal == (
        "numamem: container one of pod ns/pod-b refused, UnexpectedAdmissionError with cpu on node "
        "1: requested memory 1.18Gi for the pod; pods that have started in part still need "
        "memory 600Mi; all NUMA nodes together have memory 1.22Gi free; "
        "refused so that the pod does not start in part; "
        "NUMA node 0: 328Mi free of 928Mi allocatable, not enough together with the other nodes; "
        "NUMA node 1: 928Mi free of 928Mi allocatable, not enough together with the other nodes; "
        "NUMA nodes 2-3: 0 free of 928Mi allocatable, not enough together with the other nodes; "
        "remedy: make room on NUMA node 0: 544Mi, or request at most 56Mi; "
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA "
        "nodes with enough memory is available, which is unexpected"
    )
    assert is_admitted(host.create(a, "two", 600 * MI, cpus="4-7"))
    host.stop_pod(a)
    assert is_admitted(host.create(b, "one", 600 * MI, cpus="4-7"))
    assert is_admitted(host.create(b, "two", 600 * MI, cpus="0-3"))


def test_without_limits_of_the_pods_they_wait_for_each_other(host: Host) -> None:
    fill(host, 0, 0, 928, 928)
    a, b = (host.run(uid) for uid in "ab")
    assert is_admitted(host.create(a, "one", 600 * MI, cpus="0-3"))
    assert is_admitted(host.create(b, "one", 600 * MI, cpus="4-7"))
    assert not is_admitted(host.create(a, "two", 600 * MI, cpus="4-7"))
    assert not is_admitted(host.create(b, "two", 600 * MI, cpus="0-3"))


def test_the_amounts_follow_the_containers(host: Host) -> None:
    pod = host.run("a", memory=600 * MI)
    assert outstanding_of(host) == {}
    host.create(pod, "one", 200 * MI)
    assert outstanding_of(host) == {"a": 400}
    host.create(pod, "two", 300 * MI)
    assert outstanding_of(host) == {"a": 100}
    host.stop(host.newest("two"))
    assert outstanding_of(host) == {"a": 100}
    host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=500 * MI)))
    assert outstanding_of(host) == {}
    host.handle(events.UpdatePodSandbox(pod))
    assert outstanding_of(host) == {"a": 100}
    host.stop_pod(pod)
    assert outstanding_of(host) == {}


def test_the_end_of_an_old_sandbox_keeps_the_amounts_of_the_new_one(host: Host) -> None:
    old = host.run("a", memory=600 * MI, sandbox="old")
    host.create(old, "one", 200 * MI)
    new = host.run("a", memory=700 * MI, sandbox="new")
    host.create(new, "one", 200 * MI)
    host.stop_pod(old)
    assert outstanding_of(host) == {"a": 500}


def test_a_pod_that_is_larger_than_what_is_free_does_not_begin(host: Host) -> None:
    pod = host.run("a", memory=4000 * MI)
    answer = host.create(pod, "one", 100 * MI)
    assert "so that the pod does not start in part" in (answer.refusal or "")
    (record,) = answer.records
    assert (record.event, fields_of(record)["reason"]) == ("rejected", "UnexpectedAdmissionError")
    assert host.engine.state.holders == {}


def test_a_later_container_is_never_refused_for_other_pods(host: Host) -> None:
    a = host.run("a", memory=3600 * MI)
    host.create(a, "one", 100 * MI)
    b = host.run("b", memory=100 * MI)
    assert is_admitted(host.create(b, "one", 100 * MI))
    # The limit of b grows, and b has begun.
    grown = replace(b, memory_limit_bytes=600 * MI)
    assert is_admitted(host.create(grown, "two", 500 * MI))


def test_hugepages_count_like_memory(host: Host) -> None:
    a = host.run("a", memory=200 * MI, hugepages={PAGE: 60 * PAGE})
    assert is_admitted(host.create(a, "one", 100 * MI, hugepages={PAGE: 10 * PAGE}))
    b = host.run("b", memory=100 * MI, hugepages={PAGE: 8 * PAGE})
    refusal = host.create(b, "one", 100 * MI, hugepages={PAGE: 8 * PAGE}).refusal or ""
    assert "requested memory 100Mi, hugepages-2Mi 16Mi for the pod" in refusal
    assert "still need memory 100Mi, hugepages-2Mi 100Mi" in refusal
    c = host.run("c", memory=100 * MI)
    assert is_admitted(host.create(c, "one", 100 * MI))


def test_pods_that_may_run_unpinned_begin(new_host: NewHost) -> None:
    host = new_host(Policy(reserved_memory=RESERVED, when_unsatisfiable="RunUnpinned"))
    answer = host.create(host.run("a", memory=4000 * MI), "one", 100 * MI)
    assert answer.adjustment is not None


def test_in_pod_scope_the_pod_is_placed_as_a_whole(new_host: NewHost) -> None:
    host = new_host(Policy(reserved_memory=RESERVED, topology_manager_scope="pod"))
    host.create(host.run("a", memory=600 * MI), "one", 100 * MI)
    assert outstanding_of(host) == {}
    refusal = host.create(host.run("b", memory=4000 * MI), "one", 100 * MI).refusal or ""
    assert "requested the whole pod's memory 3.91Gi" in refusal


def test_after_a_synchronize_only_begun_pods_have_amounts(host: Host, new_host: NewHost) -> None:
    running = host.run("running", memory=600 * MI)
    host.create(running, "one", 100 * MI)
    between = host.run("between", memory=600 * MI)
    host.create(between, "init", 100 * MI)
    host.stop(host.newest("init"))
    host.run("waiting", memory=600 * MI)
    host.synchronize()
    assert outstanding_of(host) == {"running": 500, "between": 500}
    restarted = new_host()
    restarted.pods, restarted.containers = host.pods, host.containers
    restarted.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    restarted.synchronize()
    assert outstanding_of(restarted) == {"running": 500, "between": 500}
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    fresh.synchronize()
    assert outstanding_of(fresh) == {"running": 500}


def without_nodes(host: Host, pod: events.PodSandbox) -> events.Container:
    """Return a container that was created while the plugin was away, and fits on no nodes."""
    return events.Container("lost", pod.sandbox_id, "one", 4000 * MI)


def check_begun_without_assignment(host: Host, pod: events.PodSandbox) -> None:
    """Check that the next container of the pod is placed, and none of a pod that begins."""
    assert outstanding_of(host) == {}
    other = host.run("other", memory=4200 * MI)
    assert "so that the pod does not start in part" in (host.create(other, "x").refusal or "")
    assert is_admitted(host.create(pod, "two", 200 * MI))
    host.stop_pod(pod)
    again = host.run("a", memory=4200 * MI)
    assert "so that the pod does not start in part" in (host.create(again, "two").refusal or "")


def test_a_pod_whose_container_runs_unpinned_after_a_synchronize_has_begun(host: Host) -> None:
    pod = host.run("a", memory=4200 * MI)
    lost = without_nodes(host, pod)
    host.containers[lost.container_id] = lost
    host.synchronize()
    check_begun_without_assignment(host, pod)


def test_a_pod_of_an_unreported_container_that_fits_on_no_nodes_has_begun(host: Host) -> None:
    pod = host.run("a", memory=4200 * MI)
    host.handle(events.ContainersFound(((pod, without_nodes(host, pod)),)))
    check_begun_without_assignment(host, pod)


def test_only_the_newest_synchronize_counts(host: Host) -> None:
    pod = host.run("a", memory=4200 * MI)
    host.handle(events.ContainersFound(((pod, without_nodes(host, pod)),)))
    host.synchronize()
    assert not is_admitted(host.create(pod, "two", 200 * MI))


@pytest.mark.parametrize("qos", ["burstable/", "besteffort/"])
def test_pods_that_are_not_managed_have_none(host: Host, qos: str) -> None:
    pod = host.run("a", qos, memory=600 * MI)
    host.create(pod, "one", 100 * MI)
    assert outstanding_of(host) == {}
