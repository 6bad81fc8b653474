"""Containers that were found running, and updates that wait for a reply."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.numa import NodeSet
from tests.engine.conftest import Answer

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
GI = 1 << 30
FREE = 1024 * MI - 64 * MI - 32 * MI


USE = events.CgroupUse(memory_bytes={0: MI})


def found(
    pod: events.PodSandbox,
    container_id: str,
    mems: str = "",
    memory: int = 200 * MI,
    use: events.CgroupUse = USE,
) -> tuple[events.PodSandbox, events.Container]:
    nodes = NodeSet.parse(mems)
    container = events.Container(
        container_id, pod.sandbox_id, container_id, memory, cgroup_mems=nodes, cgroup_use=use
    )
    return pod, container


def find(host: Host, *what: tuple[events.PodSandbox, events.Container]) -> Answer:
    plan = host.handle(events.ContainersFound(what))
    assert plan == Answer(records=plan.records)
    return plan


def test_a_found_container_with_nodes_keeps_them(host: Host) -> None:
    pod = host.run("a")
    (record,) = find(host, found(pod, "x", "2-3")).records
    assert (record.event, record.level) == ("unreported_container_found", "warning")
    assert fields_of(record)["container_id"] == "x"
    assert fields_of(record)["nodes"] == "2-3"
    assert fields_of(record)["outcome"] == "adopted"
    assert host.placed() == {"a": {"x": "2-3"}}
    assert host.engine.state.pending == frozenset()
    assert host.create(host.run("b")).updates == ()


def test_a_found_container_without_nodes_is_pinned_with_the_next_reply(host: Host) -> None:
    first, other = host.run("a"), host.run("b")
    host.create(other)
    (record,) = find(host, found(first, "x")).records
    assert record.event == "unreported_container_found"
    assert fields_of(record)["outcome"] == "pinning_deferred"
    assert fields_of(record)["nodes"] == "0"
    assert host.run("c").uid == "c"  # its reply carries nothing
    plan = host.create(other, "second")
    assert plan.updates == (Update("x", "0"),)
    assert plan.adjustment is not None
    assert plan.records[-1].event == "pinned_while_running"
    assert fields_of(plan.records[-1]) == {
        "container": "x",
        "pod_uid": "a",
        "container_id": "x",
        "nodes": "0",
    }
    assert host.create(other, "third").updates == ()


def test_a_found_container_whose_memory_must_not_move_stays_unpinned(host: Host) -> None:
    pod = host.run("a")
    much = events.CgroupUse(memory_bytes={0: 300 * MI, 1: 300 * MI})
    discovered, missing = find(host, found(pod, "x", use=much)).records
    assert discovered.event == "unreported_container_found"
    assert fields_of(discovered)["outcome"] == "unpinned"
    assert missing.event == "cpuset_mems_missing"
    assert fields_of(missing)["outcome"] == "unpinned"
    assert fields_of(missing)["cause"] == f"{300 * MI} bytes of memory would move"
    assert host.placed() == {"a": {"x": "0"}}
    assert host.engine.state.cpusets.unpinned == {"x"}
    assert host.create(host.run("b")).updates == ()


def test_found_containers_that_are_known_or_not_managed_are_ignored(host: Host) -> None:
    pod, burstable = host.run("a"), host.run("b", "burstable/")
    host.create(pod, container_id="known")
    plan = find(host, found(pod, "known"), found(burstable, "x"))
    assert plan.records == ()
    assert host.placed() == {"a": {"main": "0"}}


def test_a_found_container_that_fits_nowhere_is_a_warning(host: Host) -> None:
    pod = host.run("a")
    (record,) = find(host, found(pod, "x", memory=9 * GI)).records
    assert (record.event, record.level) == ("unreported_container_found", "warning")
    assert fields_of(record)["outcome"] == "unpinned"
    assert host.engine.state.holders == {}
    (record,) = find(host, found(pod, "y", "0", memory=9 * GI)).records
    assert fields_of(record)["shortfall_bytes"] == {"memory": 9 * GI - FREE}


def test_an_unreported_pod_ends_with_its_cgroup(host: Host) -> None:
    pod = events.PodSandbox("/kubepods/podu", "u", "", "", "/kubepods/podu")
    find(host, found(pod, "x"))
    assert host.engine.state.pods == {pod.sandbox_id: pod}
    plan = host.handle(events.PodCgroupGone(pod))
    assert [record.event for record in plan.records] == ["pod_released"]
    assert host.free() == [FREE] * 4
    assert host.engine.state.pending == frozenset()


def test_the_next_synchronize_contains_the_name(host: Host, new_host: NewHost) -> None:
    pod = host.run("a")
    find(host, found(pod, "x", "2"), found(pod, "y"))
    listed = [
        replace(found(pod, "x", "2")[1], name="one", cpuset_mems="2"),
        replace(found(pod, "y")[1], name="two"),
    ]
    host.containers = {container.container_id: container for container in listed}
    before = host.free()
    restarted = new_host()
    restarted.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    restarted.pods, restarted.containers = host.pods, host.containers
    for one in (host, restarted):
        plan = one.synchronize()
        assert plan.updates == (Update("y", "0"),)
        assert one.placed() == {"a": {"one": "2", "two": "0"}}
        assert one.free() == before
        assert one.engine.state.pending == frozenset()


def test_memory_of_an_ended_unnamed_container_stays_reserved_for_its_pod(host: Host) -> None:
    pod = host.run("a")
    find(host, found(pod, "x"))
    host.containers["x"] = replace(found(pod, "x")[1], name="one", ended=True)
    host.synchronize()
    assert host.placed() == {"a": {"x": "0"}}
    (holder,) = host.engine.state.holders.values()
    assert holder.ended


def test_in_pod_scope_a_found_container_uses_its_pods_pool(new_host: NewHost) -> None:
    host = new_host(Policy(topology_manager_scope="pod"))
    free = host.free()
    pod = host.run("a", memory=400 * MI)
    assert host.free()[0] == free[0] - 400 * MI
    find(host, found(pod, "x", "0"), found(pod, "y"))
    assert host.free()[0] == free[0] - 400 * MI
    assert host.create(pod, "main", memory=MI).updates == (Update("y", "0"),)
