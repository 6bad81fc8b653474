"""Updates that wait for a reply: which replies carry them, and how many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.cpusets.pending import _UPDATES_PER_REPLY
from nri_numamem.numa import Machine, NodeSet
from tests.engine.running.test_discovered import find, found

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
GI = 1 << 30
FREE = 1024 * MI - 64 * MI - 32 * MI
USE = events.CgroupUse(memory_bytes={})


def test_replies_to_updates_and_stops_contain_pending_nodes(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    find(host, found(pod, "x"))
    assert host.handle(
        events.UpdateContainer(pod, host.newest(), memory_limit_bytes=None)
    ).updates == (Update("x", "0"),)
    find(host, found(pod, "y"))
    assert host.stop(host.newest()).updates == (Update("y", "0"),)


def test_removals_refusals_and_its_own_creation_contain_no_pending_nodes(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    removed = host.newest()
    find(host, found(pod, "x"))
    assert host.remove(removed).updates == ()
    assert host.create(pod, "huge", memory=9 * GI).refusal is not None
    assert host.create(pod, "x", container_id="x").updates == ()
    assert host.engine.state.pending == {"x"}


def test_the_reply_to_its_own_update_contains_its_nodes(host: Host) -> None:
    pod = host.run("a")
    pair = found(pod, "x")
    find(host, pair)
    resize = events.UpdateContainer(*pair, memory_limit_bytes=300 * MI)
    assert host.handle(resize).updates == (Update("x", "0"),)


def test_an_update_to_more_nodes_sends_them_once(host: Host) -> None:
    pod = host.run("a")
    pair = found(pod, "x")
    find(host, pair)
    resize = events.UpdateContainer(*pair, memory_limit_bytes=FREE + MI)
    assert host.handle(resize).updates == (Update("x", "0-1"),)
    assert host.engine.state.pending == frozenset()
    assert host.create(pod).updates == ()


def test_nodes_that_are_gone_are_not_sent(new_host: NewHost) -> None:
    new_host.groups_may_mix = True
    host = new_host(Policy())
    pod = host.run("a")
    find(host, found(pod, "x"))
    smaller = Machine(host.engine.context.machine.nodes[1:])
    host.handle(events.MachineChanged(smaller))
    assert host.engine.state.pending == {"x"}
    assert host.create(pod).updates == ()
    assert host.engine.state.pending == frozenset()


def test_an_ended_container_is_not_pending(host: Host) -> None:
    first, other = host.run("a"), host.run("b")
    find(host, found(first, "x"), found(other, "y"))
    plan = host.handle(events.StopContainer(first, found(first, "x")[1]))
    assert plan.updates == (Update("y", "0"),)
    assert [record.event for record in plan.records] == ["container_ended", "pinned_while_running"]
    find(host, found(other, "z"))
    assert host.engine.state.pending == {"z"}
    host.stop_pod(other)
    assert host.engine.state.pending == frozenset()
    host.stop_pod(first)
    assert host.free() == [FREE] * 4


def test_the_updates_of_a_reply_are_limited(host: Host) -> None:
    pod = host.run("a")
    names = [f"x{number:02}" for number in range(_UPDATES_PER_REPLY + 2)]
    find(host, *(found(pod, name, memory=MI) for name in reversed(names)))
    sent = [update.container_id for update in host.create(pod).updates]
    assert sent == names[:_UPDATES_PER_REPLY]
    sent = [update.container_id for update in host.create(pod, "second").updates]
    assert sent == names[_UPDATES_PER_REPLY:]


def test_a_discarded_decision_keeps_the_updates_pending(host: Host) -> None:
    pod = host.run("a")
    find(host, found(pod, "x"))
    container = events.Container("late", pod.sandbox_id, "first", 200 * MI)
    late = host.engine.decide(events.CreateContainer(pod, container))
    assert late.updates == (Update("x", "0"),)
    host.engine.discard()
    assert host.create(pod, "second").updates == (Update("x", "0"),)


def unset(host: Host, *container_ids: str) -> None:
    """Let the cgroups of these containers have no nodes."""
    reads = tuple(events.CpusetRead(one, NodeSet(), USE) for one in container_ids)
    host.handle(events.CpusetsRead(reads))


def test_a_reply_carries_one_repair_beside_the_found_containers(host: Host) -> None:
    pod, other = host.run("a"), host.run("b")
    for name in ("one", "two"):
        host.create(pod, name, container_id=name)
    unset(host, "one", "two")
    find(host, found(pod, "x"), found(pod, "y"))
    plan = host.create(other)
    assert plan.updates == (Update("x", "0"), Update("y", "0"), Update("one", "0"))
    assert host.create(other, "second").updates == (Update("two", "0"),)


def test_repairs_are_not_sent_for_the_created_container_or_with_a_refusal(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, container_id="x")
    unset(host, "x")
    assert host.create(pod, "huge", memory=9 * GI).refusal is not None
    again = events.Container("x", pod.sandbox_id, "main", 200 * MI)
    assert host.handle(events.CreateContainer(pod, again)).updates == ()
    assert host.engine.state.cpusets.repairs == {"x": NodeSet()}


def test_an_update_to_more_nodes_replaces_a_repair(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, container_id="x")
    unset(host, "x")
    wider = events.UpdateContainer(pod, host.newest(), FREE + MI)
    assert host.handle(wider).updates == (Update("x", "0-1"),)
    assert host.engine.state.cpusets.repairs == {}
    assert host.engine.state.cpusets.unconfirmed == {"x"}


def test_a_repair_to_nodes_that_are_gone_is_dropped(new_host: NewHost) -> None:
    new_host.groups_may_mix = True
    host = new_host(Policy())
    pod = host.run("a")
    host.create(pod, container_id="x")
    unset(host, "x")
    host.handle(events.MachineChanged(Machine(host.engine.context.machine.nodes[1:])))
    assert host.create(pod, "other").updates == ()
    assert host.engine.state.cpusets.repairs == {}
