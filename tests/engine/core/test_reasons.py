"""When and why containers were pinned, and which Guaranteed ones run unpinned."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events, reasons
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.reason import Reason
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.core.state import Holder
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.common import ContainerNames
from nri_numamem.engine.records.connection import Created
from nri_numamem.engine.records.containers import RunningUnpinnedNoCapacity
from nri_numamem.numa import NodeSet
from tests.engine.conftest import GI, MI, Host, NewHost

BIG = 100 * GI


@pytest.fixture
def lenient(new_host: NewHost) -> Host:
    """Return a host on which what fits nowhere runs unpinned."""
    return new_host(Policy(when_unsatisfiable="RunUnpinned"))


def create(host: Host, uid: str, wall_s: int, memory: int = 200 * MI) -> events.Container:
    """Create the container `c-UID` of a pod at a time."""
    pod = host.run(uid)
    container = events.Container(f"c-{uid}", pod.sandbox_id, "main", memory)
    plan = host.engine.decide(events.CreateContainer(pod, container))
    host.engine.commit(wall_s)
    if plan.adjustment is not None:
        container = replace(container, cpuset_mems=plan.adjustment.cpuset_mems)
    host.containers[container.container_id] = container
    return container


def synchronize(host: Host, wall_s: int) -> None:
    pods, containers = tuple(host.pods.values()), tuple(host.containers.values())
    host.engine.apply(events.Synchronize(pods, containers), wall_s)


def pinned(host: Host) -> dict[str, tuple[str, int]]:
    """Return container id -> event and time of its reason."""
    found = host.engine.state.reasons.pinned
    return {name: (reason.event, reason.since_s) for name, reason in found.items()}


def unpinned(host: Host) -> dict[str, tuple[str, int]]:
    found = host.engine.state.reasons.unpinned
    return {name: (reason.event, reason.since_s) for name, reason in found.items()}


def test_an_admitted_container_has_names_and_time(host: Host) -> None:
    create(host, "a", 1000)
    assert host.engine.state.reasons.pinned == {
        "c-a": Reason("c-a", "sandbox-a", ("a", "main"), "ns", "pod-a", "admitted", 1000)
    }


def test_the_first_reason_survives_a_synchronize_and_a_restart(host: Host) -> None:
    create(host, "a", 1000)
    synchronize(host, 2000)
    assert pinned(host) == {"c-a": ("admitted", 1000)}
    host.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    synchronize(host, 3000)
    assert pinned(host) == {"c-a": ("admitted", 1000)}


def test_an_unknown_running_container_is_adopted_now(host: Host) -> None:
    create(host, "a", 1000)
    host.engine = Engine(host.engine.context)
    synchronize(host, 3000)
    assert pinned(host) == {"c-a": ("adopted", 3000)}


def test_a_resize_is_a_new_reason(host: Host) -> None:
    container = create(host, "a", 1000)
    pod = host.pods[container.sandbox_id]
    host.engine.apply(events.UpdateContainer(pod, container, 300 * MI), 1500)
    assert pinned(host) == {"c-a": ("resized", 1500)}


def test_the_reasons_of_gone_containers_are_dropped(host: Host) -> None:
    container = create(host, "a", 1000)
    create(host, "b", 1001)
    host.stop(container)
    assert pinned(host) == {"c-a": ("admitted", 1000), "c-b": ("admitted", 1001)}
    host.stop_pod(host.pods["sandbox-a"])
    assert pinned(host) == {"c-b": ("admitted", 1001)}


@pytest.mark.parametrize("end", ["stop", "remove", "stop_pod", "remove_pod"])
def test_what_fits_nowhere_runs_unpinned_until_its_end(lenient: Host, end: str) -> None:
    container = create(lenient, "a", 1000, BIG)
    create(lenient, "b", 1001, BIG)
    found = lenient.engine.state.reasons.unpinned["c-a"]
    assert (found.sandbox_id, found.key, found.pod) == ("sandbox-a", ("a", "main"), "pod-a")
    assert unpinned(lenient) == {
        "c-a": ("unpinned_no_capacity", 1000),
        "c-b": ("unpinned_no_capacity", 1001),
    }
    ended = container if end in ("stop", "remove") else lenient.pods["sandbox-a"]
    getattr(lenient, end)(ended)
    assert unpinned(lenient) == {"c-b": ("unpinned_no_capacity", 1001)}


def test_an_unpinned_container_keeps_its_reason_at_a_restart(lenient: Host) -> None:
    create(lenient, "a", 1000, BIG)
    lenient.engine = Engine(lenient.engine.context, restore(snapshot(lenient.engine.state)))
    synchronize(lenient, 2000)
    assert unpinned(lenient) == {"c-a": ("unpinned_no_capacity", 1000)}
    synchronize(lenient, 3000)
    assert unpinned(lenient) == {"c-a": ("unpinned_no_capacity", 1000)}


def test_a_container_of_the_time_without_a_plugin_is_running_unpinned(host: Host) -> None:
    pod = host.run("a")
    host.containers["c"] = events.Container("c", pod.sandbox_id, "main", BIG)
    synchronize(host, 2000)
    assert unpinned(host) == {"c": ("running_unpinned_no_capacity", 2000)}
    assert host.engine.state.reasons.unpinned["c"].sandbox_id == "sandbox-a"
    host.containers["c"] = replace(host.containers["c"], memory_limit_bytes=200 * MI)
    synchronize(host, 3000)
    assert unpinned(host) == {}
    assert pinned(host) == {"c": ("pinned_while_running", 3000)}


def test_a_container_that_only_its_cgroup_shows(host: Host) -> None:
    pod = host.run("a")
    found = events.Container("c", pod.sandbox_id, "c", BIG, cgroup_mems=NodeSet())
    host.engine.apply(events.ContainersFound(((pod, found),)), 2000)
    assert unpinned(host) == {"c": ("unreported_container_found", 2000)}
    assert host.engine.state.reasons.unpinned["c"].sandbox_id == "sandbox-a"


def test_a_container_that_is_pinned_later_has_the_names_of_its_pod(host: Host) -> None:
    pod = host.run("a")
    use = events.CgroupUse(memory_bytes={0: MI})
    found = events.Container(
        "c", pod.sandbox_id, "c", 200 * MI, cgroup_mems=NodeSet(), cgroup_use=use
    )
    host.engine.apply(events.ContainersFound(((pod, found),)), 2000)
    assert pinned(host) == {"c": ("unreported_container_found", 2000)}
    create(host, "b", 3000)
    assert host.engine.state.reasons.pinned["c"] == Reason(
        "c", "sandbox-a", ("a", "c"), "ns", "pod-a", "pinned_while_running", 3000
    )


def test_a_cgroup_without_nodes_that_must_not_be_repaired(host: Host) -> None:
    container = create(host, "a", 1000)
    host.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    host.containers["c-a"] = replace(container, cgroup_mems=NodeSet([0]))
    synchronize(host, 1500)
    use = events.CgroupUse(NodeSet(range(4)), {3: GI}, has_hugepages=True)
    read = events.CpusetsRead((events.CpusetRead("c-a", NodeSet(), use),))
    host.engine.apply(read, 2000)
    assert unpinned(host) == {"c-a": ("cpuset_mems_missing", 2000)}
    assert pinned(host) == {"c-a": ("admitted", 1000)}
    repaired = events.CpusetsRead((events.CpusetRead("c-a", NodeSet([0])),))
    host.engine.apply(repaired, 3000)
    assert unpinned(host) == {}


def test_a_container_of_an_unknown_pod_has_no_names(host: Host) -> None:
    container = create(host, "a", 1000)
    event = events.StopContainer(host.pods[container.sandbox_id], container)
    before = host.engine.state
    new = reasons.unpinned(
        RunningUnpinnedNoCapacity, before, Holder("other", "sandbox-b", ("b", "main"))
    )
    found = reasons.after(before, before, event, new, 2000).reasons.unpinned["other"]
    assert found == Reason(
        "other", "sandbox-b", ("b", "main"), "", "", "running_unpinned_no_capacity", 2000
    )


@pytest.mark.parametrize("event", ["request_timed_out", "internal_error"])
def test_a_container_whose_creation_failed(host: Host, event: str) -> None:
    pod = host.run("a")
    names = ContainerNames(
        pod=pod.name, namespace=pod.namespace, container="main", pod_uid=pod.uid, container_id="c"
    )
    created = Created(names=names, sandbox_id=pod.sandbox_id, qos_class="Guaranteed")
    for other in (
        replace(created, qos_class="Burstable"),
        replace(created, names=replace(names, container_id="")),
    ):
        host.engine.note_failed(event, other, 2000)
    assert unpinned(host) == {}
    host.engine.note_failed(event, created, 2000)
    assert unpinned(host) == {"c": (event, 2000)}
    reason = host.engine.state.reasons.unpinned["c"]
    assert (reason.key, reason.sandbox_id) == (("a", "main"), "sandbox-a")
    host.containers["c"] = events.Container("c", pod.sandbox_id, "main", 200 * MI)
    synchronize(host, 3000)
    assert unpinned(host) == {}


@pytest.mark.parametrize("is_restored", [False, True], ids=["same process", "restarted"])
def test_a_container_that_is_adopted_on_other_nodes_has_a_new_reason(
    host: Host, is_restored: bool
) -> None:
    container = create(host, "a", 1000)
    create(host, "b", 1001)
    if is_restored:
        earlier = restore(snapshot(host.engine.state))
        host.engine = Engine(host.engine.context, earlier)
    assert container.cpuset_mems == "0"
    host.containers["c-a"] = replace(container, cpuset_mems="2")
    synchronize(host, 2000)
    synchronize(host, 3000)
    assert pinned(host) == {"c-a": ("adopted", 2000), "c-b": ("admitted", 1001)}
