"""Containers that were found running, and updates that wait for a reply."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nri_numamem.engine import events
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.plan import Plan, Update
from nri_numamem.engine.second_look import _UPDATES_PER_REPLY
from nri_numamem.engine.settings import Settings
from nri_numamem.engine.snapshot import restore, snapshot
from nri_numamem.memorymanager import Machine, NodeSet

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
GI = 1 << 30
FREE = 1024 * MI - 64 * MI - 32 * MI


def found(
    pod: events.PodSandbox, container_id: str, mems: str = "", memory: int = 200 * MI
) -> tuple[events.PodSandbox, events.Container]:
    nodes = NodeSet.parse(mems)
    container = events.Container(
        container_id, pod.sandbox_id, container_id, memory, cgroup_mems=nodes
    )
    return pod, container


def find(host: Host, *what: tuple[events.PodSandbox, events.Container]) -> Plan:
    plan = host.engine.handle(events.ContainersFound(what))
    assert plan == Plan(records=plan.records)
    return plan


def test_what_has_its_nodes_keeps_them(host: Host) -> None:
    pod = host.run("a")
    (record,) = find(host, found(pod, "x", "2-3")).records
    assert (record.event, record.level) == ("found running, never told", "warning")
    assert record.fields["container_id"] == "x"
    assert record.fields["nodes"] == "2-3"
    assert record.fields["then"] == "it keeps the nodes that its cgroup has"
    assert host.placed() == {"a": {"x": "2-3"}}
    assert host.engine.state.pending == frozenset()
    assert host.create(host.run("b")).updates == ()


def test_what_has_none_is_placed_and_pinned_with_the_next_reply(host: Host) -> None:
    first, other = host.run("a"), host.run("b")
    host.create(other)
    (record,) = find(host, found(first, "x")).records
    assert record.event == "found running, never told"
    assert record.fields["then"] == "its nodes go out with the next reply that can carry them"
    assert record.fields["nodes"] == "0"
    assert host.run("c").uid == "c"  # its reply carries nothing
    plan = host.create(other, "second")
    assert plan.updates == (Update("x", "0"),)
    assert plan.adjustment is not None
    assert plan.records[-1].event == "pinned while running"
    assert plan.records[-1].fields == {
        "container": "x",
        "pod_uid": "a",
        "container_id": "x",
        "nodes": "0",
    }
    assert host.create(other, "third").updates == ()


def test_replies_to_updates_and_stops_carry_them_too(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    find(host, found(pod, "x"))
    assert host.engine.handle(
        events.UpdateContainer(pod, host.newest(), memory_limit_bytes=None)
    ).updates == (Update("x", "0"),)
    find(host, found(pod, "y"))
    assert host.stop(host.newest()).updates == (Update("y", "0"),)


def test_a_removal_a_refusal_and_the_own_creation_carry_none(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    removed = host.newest()
    find(host, found(pod, "x"))
    assert host.remove(removed).updates == ()
    assert host.create(pod, "huge", memory=9 * GI).refusal is not None
    assert host.create(pod, "x", container_id="x").updates == ()
    assert host.engine.state.pending == {"x"}


def test_its_own_update_sends_its_nodes(host: Host) -> None:
    pod = host.run("a")
    pair = found(pod, "x")
    find(host, pair)
    resize = events.UpdateContainer(*pair, memory_limit_bytes=300 * MI)
    assert host.engine.handle(resize).updates == (Update("x", "0"),)


def test_an_update_to_more_nodes_sends_them_once(host: Host) -> None:
    pod = host.run("a")
    pair = found(pod, "x")
    find(host, pair)
    resize = events.UpdateContainer(*pair, memory_limit_bytes=FREE + MI)
    assert host.engine.handle(resize).updates == (Update("x", "0-1"),)
    assert host.engine.state.pending == frozenset()
    assert host.create(pod).updates == ()


def test_nodes_that_are_gone_are_not_sent(new_host: NewHost) -> None:
    new_host.groups_may_mix = True
    host = new_host(Settings())
    pod = host.run("a")
    find(host, found(pod, "x"))
    smaller = Machine(host.engine.context.machine.nodes[1:])
    host.engine.handle(events.MachineChanged(smaller))
    assert host.engine.state.pending == {"x"}
    assert host.create(pod).updates == ()
    assert host.engine.state.pending == frozenset()


def test_what_ends_waits_no_longer(host: Host) -> None:
    first, other = host.run("a"), host.run("b")
    find(host, found(first, "x"), found(other, "y"))
    plan = host.engine.handle(events.StopContainer(first, found(first, "x")[1]))
    assert plan.updates == (Update("y", "0"),)
    assert [record.event for record in plan.records] == ["container ended", "pinned while running"]
    find(host, found(other, "z"))
    assert host.engine.state.pending == {"z"}
    host.stop_pod(other)
    assert host.engine.state.pending == frozenset()
    host.stop_pod(first)
    assert host.free() == [FREE] * 4


def test_a_reply_carries_only_so_many(host: Host) -> None:
    pod = host.run("a")
    names = [f"x{number:02}" for number in range(_UPDATES_PER_REPLY + 2)]
    find(host, *(found(pod, name, memory=MI) for name in reversed(names)))
    sent = [update.container_id for update in host.create(pod).updates]
    assert sent == names[:_UPDATES_PER_REPLY]
    sent = [update.container_id for update in host.create(pod, "second").updates]
    assert sent == names[_UPDATES_PER_REPLY:]


def test_a_reply_that_was_never_given_sent_nothing(host: Host) -> None:
    pod = host.run("a")
    find(host, found(pod, "x"))
    before = host.engine.state
    assert host.create(pod, "first").updates == (Update("x", "0"),)
    host.engine.restore(before)
    assert host.create(pod, "second").updates == (Update("x", "0"),)


def test_what_is_known_by_now_or_not_ours_is_passed_over(host: Host) -> None:
    pod, burstable = host.run("a"), host.run("b", "burstable/")
    host.create(pod, container_id="known")
    plan = find(host, found(pod, "known"), found(burstable, "x"))
    assert plan.records == ()
    assert host.placed() == {"a": {"main": "0"}}


def test_what_fits_nowhere_is_a_warning(host: Host) -> None:
    pod = host.run("a")
    (record,) = find(host, found(pod, "x", memory=9 * GI)).records
    assert (record.event, record.level) == ("found running, never told", "warning")
    assert record.fields["then"] == "it runs on unpinned, nothing fits"
    assert host.engine.state.holders == {}
    (record,) = find(host, found(pod, "y", "0", memory=9 * GI)).records
    assert record.fields["does_not_fit"] == {"memory": 9 * GI - FREE}


def test_a_pod_that_nobody_told_of_ends_with_its_cgroup(host: Host) -> None:
    pod = events.PodSandbox("/kubepods/podu", "u", "", "", "/kubepods/podu")
    find(host, found(pod, "x"))
    assert host.engine.state.pods == {pod.sandbox_id: pod}
    plan = host.engine.handle(events.PodCgroupGone(pod))
    assert [record.event for record in plan.records] == ["pod released"]
    assert host.free() == [FREE] * 4
    assert host.engine.state.pending == frozenset()


def test_the_next_synchronize_tells_the_name(host: Host, new_host: NewHost) -> None:
    pod = host.run("a")
    find(host, found(pod, "x", "2"), found(pod, "y"))
    told = [
        replace(found(pod, "x")[1], name="one", cpuset_mems="2"),
        replace(found(pod, "y")[1], name="two"),
    ]
    host.containers = {container.container_id: container for container in told}
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


def test_what_ended_before_its_name_was_told_is_kept_for_its_pod(host: Host) -> None:
    pod = host.run("a")
    find(host, found(pod, "x"))
    host.containers["x"] = replace(found(pod, "x")[1], name="one", ended=True)
    host.synchronize()
    assert host.placed() == {"a": {"x": "0"}}
    (holder,) = host.engine.state.holders.values()
    assert holder.ended


def test_in_pod_scope_it_takes_from_its_pods_pool(new_host: NewHost) -> None:
    host = new_host(Settings(topology_manager_scope="pod"))
    free = host.free()
    pod = host.run("a", memory=400 * MI)
    assert host.free()[0] == free[0] - 400 * MI
    find(host, found(pod, "x", "0"), found(pod, "y"))
    assert host.free()[0] == free[0] - 400 * MI
    assert host.create(pod, "main", memory=MI).updates == (Update("y", "0"),)
