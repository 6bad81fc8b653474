"""CPUs of a partition, and containers that are not pinned."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.features.partitions.records import UnconfinedFound
from nri_numamem.numa import (
    CpuFollowing,
    Exclusive,
    NodeSet,
    Partition,
)
from tests.engine.conftest import GI, MI, NewHost, four_nodes, handle
from tests.engine.features.partitions.test_feature import (
    BEST_EFFORT,
    BURSTABLE,
    WEB,
    events_of,
    mems_of,
    policy_of,
)

# CPUs


def test_cpus_follow_memory_inside_the_partition(new_host: NewHost) -> None:
    confined = replace(WEB, confine=True)
    host = new_host(policy_of(confined, cpu_following=CpuFollowing.PREFER))
    pinned = host.create(host.run("a", namespace="web"), memory=1500 * MI)
    assert pinned.adjustment == Adjustment("2-3", cpuset_cpus="8-15")
    answer = host.create(host.run("b", BEST_EFFORT, namespace="web"), memory=None)
    assert answer.adjustment == Adjustment("2-3", cpuset_cpus="8-15")
    other = host.create(host.run("c", BEST_EFFORT), memory=None)
    assert other.adjustment is None


def test_cpus_on_all_nodes_of_the_partition_are_no_preference(new_host: NewHost) -> None:
    host = new_host(policy_of(WEB, topology_manager_policy="single-numa-node"))
    answer = host.create(host.run("a", namespace="web"), cpus="8-15")
    assert answer.adjustment == Adjustment("2")


# Confinement


@pytest.mark.parametrize("qos", [BURSTABLE, BEST_EFFORT])
def test_a_partition_confines_containers_that_are_not_pinned(new_host: NewHost, qos: str) -> None:
    host = new_host(policy_of(replace(WEB, confine=True)))
    free = host.free()
    assert [mems_of(host, each, qos) for each in ("web", "ns", "kube-system")] == ["2-3", "", ""]
    assert host.free() == free
    assert host.placed() == {}
    assert [e for a in host.answers for e in events_of(a) if e == "confined"] == ["confined"]


@pytest.mark.parametrize("qos", [BURSTABLE, BEST_EFFORT])
def test_a_closed_partition_confines_all_others(new_host: NewHost, qos: str) -> None:
    host = new_host(policy_of(replace(WEB, exclusive=Exclusive.ALL)))
    assert [mems_of(host, each, qos) for each in ("web", "ns", "kube-system")] == ["", "0-1", ""]


def test_kube_system_is_confined_if_it_is_listed(new_host: NewHost) -> None:
    system = Partition("system", NodeSet([0]), namespaces=("kube-system",), confine=True)
    host = new_host(policy_of(system))
    assert mems_of(host, "kube-system", BEST_EFFORT) == "0"
    patterns = new_host(policy_of(replace(system, namespaces=("kube-*",))))
    assert mems_of(patterns, "kube-system", BEST_EFFORT) == ""
    assert mems_of(patterns, "kube-public", BEST_EFFORT) == "0"
    assert mems_of(patterns, "kube-system") == "0"  # placed inside all the same


def test_a_container_with_nodes_is_left_alone(new_host: NewHost) -> None:
    host = new_host(policy_of(replace(WEB, confine=True)))
    answer = host.create(host.run("a", BEST_EFFORT, namespace="web"), memory=None, mems="0")
    assert answer.adjustment is None
    assert "confined" not in events_of(answer)
    pinned = host.create(host.run("b", namespace="web"), mems="0")
    assert pinned.adjustment is None
    assert host.placed() == {"b": {"main": "0"}}


def test_a_guaranteed_container_that_fits_nowhere_is_not_confined(new_host: NewHost) -> None:
    partition = replace(WEB, confine=True, exclusive=Exclusive.ALL)
    host = new_host(policy_of(partition, when_unsatisfiable="RunUnpinned"))
    assert [mems_of(host, each, memory=9 * GI) for each in ("web", "ns")] == ["", ""]


def test_two_closed_partitions(new_host: NewHost) -> None:
    first = Partition("a", NodeSet([1]), namespaces=("a",), exclusive=Exclusive.ALL)
    host = new_host(policy_of(first, replace(WEB, exclusive=Exclusive.ALL)))
    found = [mems_of(host, each, BEST_EFFORT) for each in ("a", "web", "ns")]
    assert found == ["0-1", "0,2-3", "0"]


def test_no_container_gets_an_empty_set(new_host: NewHost) -> None:
    """The machine lost node 0, and the partition has all others."""
    machine = four_nodes()
    closed = replace(WEB, nodes=NodeSet([1, 2, 3]), exclusive=Exclusive.ALL)
    host = new_host(replace(policy_of(closed), reserved_memory=()), machine)
    assert mems_of(host, "ns", BEST_EFFORT) == "0"
    host.handle(events.MachineChanged(replace(machine, nodes=machine.nodes[1:])))
    assert [mems_of(host, "ns", each) for each in (BEST_EFFORT, "")] == ["", "refused"]
    assert mems_of(host, "web") == "1"
    lost = replace(WEB, nodes=NodeSet([4]), confine=True)
    assert mems_of(new_host(policy_of(lost)), "web", BEST_EFFORT) == ""


def test_nothing_is_confined_while_memory_is_not_managed(new_host: NewHost) -> None:
    partition = replace(WEB, confine=True, exclusive=Exclusive.ALL)
    host = new_host(policy_of(partition, memory_manager_policy="None"))
    pod = host.run("a", BEST_EFFORT, namespace="web")
    annotated = replace(pod, annotations={"memory.numamem.io": "guaranteed"})
    container = events.Container("c", pod.sandbox_id, "main")
    answer = handle(host.engine, events.CreateContainer(annotated, container))
    assert answer.adjustment is None
    assert "unconfined_found" not in events_of(host.synchronize())


def test_running_containers_outside_are_listed(new_host: NewHost) -> None:
    closed = replace(WEB, exclusive=Exclusive.ALL)
    host = new_host(policy_of(closed))
    free = host.run("free", BEST_EFFORT)
    confined = host.run("confined", BEST_EFFORT)
    web = host.run("web", BURSTABLE, namespace="web")
    pinned = host.run("pinned")
    for pod, mems in ((free, ""), (confined, "0-1"), (web, ""), (pinned, "")):
        container = events.Container(pod.uid, pod.sandbox_id, "main", cpuset_mems=mems)
        host.containers[pod.uid] = container
    ended = events.Container("ended", free.sandbox_id, "ended", ended=True)
    host.containers["ended"] = ended
    host.containers["lost"] = replace(ended, container_id="lost", sandbox_id="lost", ended=False)
    answer = host.synchronize()
    (record,) = [r for r in answer.records if isinstance(r, UnconfinedFound)]
    assert (record.container_count, record.containers) == (1, ("ns/pod-free/main",))
    assert answer.updates == ()
    for confine, names in ((True, ("web/pod-web/main",)), (False, ())):
        other = new_host(policy_of(replace(WEB, confine=confine)))
        other.pods, other.containers = host.pods, host.containers
        records = other.synchronize().records
        listed = [r.containers for r in records if isinstance(r, UnconfinedFound)]
        assert listed == ([names] if names else [])
