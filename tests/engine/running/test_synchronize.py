"""Synchronize: the accounting is rebuilt from the runtime's list of containers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from nri_numamem.engine.core.events import CgroupUse, Container, PodSandbox, Synchronize
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.running import synchronize
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.numa import NodeSet

if TYPE_CHECKING:
    from tests.engine.conftest import Answer, Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 32 * MI


def events_of(plan: Answer) -> list[str]:
    return [record.event for record in plan.records]


def test_an_empty_synchronize(host: Host) -> None:
    plan = host.synchronize()
    assert plan.updates == ()
    assert events_of(plan) == ["synchronized"]
    assert fields_of(plan.records[0])["pod_count"] == 0


def test_a_restart_of_the_runtime_keeps_the_accounting(host: Host, new_host: NewHost) -> None:
    host.create(host.run("a", hugepages={PAGE: 2 * PAGE}))
    host.create(host.run("b"), memory=1200 * MI)
    host.create(host.run("c", "burstable/"))
    before = state_json(host.engine.state.accounting)
    plan = host.synchronize()
    assert plan.updates == ()
    assert state_json(host.engine.state.accounting) == before
    assert fields_of(plan.records[-1])["adopted_count"] == 2

    # A new process has the same accounting, from the runtime's list alone.
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    assert fresh.synchronize().updates == ()
    assert state_json(fresh.engine.state.accounting) == before


def test_where_no_update_is_needed_the_accounting_is_rebuilt_after_the_reply(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise RuntimeError("rebuilt")

    host.create(host.run("a"))
    host.create(host.run("b"))
    monkeypatch.setattr(synchronize, "_rebuild", fail)
    event = Synchronize(tuple(host.pods.values()), tuple(host.containers.values()))
    assert host.engine.decide(event).is_noop
    with pytest.raises(RuntimeError, match="rebuilt"):
        host.engine.commit()
    # The updates of a container without nodes, or with other ones, are in the reply.
    newest = host.newest()
    unpinned = replace(newest, cpuset_mems="")
    conflicting = replace(newest, cgroup_mems=NodeSet([3]), cgroup_use=USE)
    for container in (unpinned, conflicting):
        with pytest.raises(RuntimeError, match="rebuilt"):
            host.engine.decide(Synchronize(tuple(host.pods.values()), (container,)))


def test_each_adopted_container_shows_what_is_free_after_it(host: Host) -> None:
    for number in range(3):
        host.create(host.run(f"p{number}"), memory=100 * MI, mems="0")
    records = [record for record in host.synchronize().records if record.event == "adopted"]
    tables = [cast("Any", fields_of(record)["free_bytes"]) for record in records]
    assert [table["0"]["memory"] for table in tables] == [
        FREE - taken * MI for taken in (100, 200, 300)
    ]


def test_hugepages_that_a_pod_shares_count_once(host: Host, new_host: NewHost) -> None:
    """The reply to each container contained the pod's sum, which the runtime then reports."""
    pod = host.run("a", hugepages={PAGE: 4 * PAGE})
    host.create(pod, "first")
    host.create(pod, "second")
    before = state_json(host.engine.state.accounting)["machineState"]
    host.synchronize()
    assert state_json(host.engine.state.accounting)["machineState"] == before
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    fresh.synchronize()
    assert state_json(fresh.engine.state.accounting)["machineState"] == before


PAGES = "hugepages-2Mi"
SUM_ON_2 = [16 * PAGE, 16 * PAGE, 12 * PAGE, 16 * PAGE]


def pod_with_shared_hugepages(host: Host) -> None:
    """Run three containers on different nodes; "z-first" has the pod's sum, on node 2."""
    pod = host.run("a", hugepages={PAGE: 4 * PAGE})
    for container_id, mems in (("z-first", "2"), ("a-second", "0"), ("m-third", "1")):
        host.create(pod, container_id, mems=mems, container_id=f"{container_id}-id")
    assert host.free(PAGES) == SUM_ON_2


def test_the_sum_of_a_pods_hugepages_stays_with_its_container(
    host: Host, new_host: NewHost
) -> None:
    """Only the sum is known, so the runtime's list does not show which container has it."""
    pod_with_shared_hugepages(host)
    for _ in range(2):
        host.synchronize()
        assert host.free(PAGES) == SUM_ON_2
    restored = new_host()
    restored.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    restored.pods, restored.containers = host.pods, host.containers
    restored.synchronize()
    assert restored.free(PAGES) == SUM_ON_2
    assert state_json(restored.engine.state.accounting) == state_json(host.engine.state.accounting)


def test_the_sum_of_a_pods_hugepages_stays_with_an_ended_container(host: Host) -> None:
    pod_with_shared_hugepages(host)
    host.stop(host.newest("z-first"))
    host.synchronize()
    assert host.free(PAGES) == SUM_ON_2
    # The next container of that name has it again.
    host.create(host.pods["sandbox-a"], "z-first", mems="2", container_id="b-again-id")
    host.synchronize()
    assert host.free(PAGES) == SUM_ON_2


def test_without_an_earlier_state_the_oldest_container_has_the_sum(
    host: Host, new_host: NewHost
) -> None:
    pod_with_shared_hugepages(host)
    fresh = new_host()
    fresh.pods = host.pods
    for order, container in enumerate(host.containers.values(), start=1):
        fresh.containers[container.container_id] = replace(container, creation_order=order)
    fresh.synchronize()
    assert fresh.free(PAGES) == SUM_ON_2


def test_a_sum_that_no_container_has_goes_to_the_next_one(host: Host) -> None:
    """For example the pod's cgroup could not be read when the containers were created."""
    pod = host.run("a")
    host.create(pod, "one", mems="1")
    host.create(pod, "two", mems="2")
    host.pods["sandbox-a"] = replace(pod, hugepage_limits={PAGE: 4 * PAGE})
    host.synchronize()
    assert host.free(PAGES) == [16 * PAGE, 12 * PAGE, 16 * PAGE, 16 * PAGE]
    # A smaller limit reduces what the container has.
    host.pods["sandbox-a"] = replace(pod, hugepage_limits={PAGE: 3 * PAGE})
    host.synchronize()
    assert host.free(PAGES) == [16 * PAGE, 13 * PAGE, 16 * PAGE, 16 * PAGE]


def test_unified_keys_that_differ_from_the_pods_sum_are_limits_of_the_container(host: Host) -> None:
    pod = host.run("a", hugepages={PAGE: 4 * PAGE})
    host.create(pod, "first", unified={PAGE: PAGE})
    host.create(pod, "second", unified={PAGE: 3 * PAGE})
    assert host.free("hugepages-2Mi")[0] == 12 * PAGE
    host.synchronize()
    assert host.free("hugepages-2Mi")[0] == 12 * PAGE


def test_a_vanished_container_is_released(host: Host) -> None:
    host.create(host.run("a"))
    host.pods.clear()
    host.containers.clear()
    host.synchronize()
    assert host.free() == [FREE] * 4
    assert host.engine.state.holders == {}


def test_reusable_memory_is_kept_while_the_pod_exists(
    host: Host,
) -> None:
    pod = host.run("a")
    host.create(pod, "init", memory=300 * MI)
    host.stop(host.newest("init"))
    host.synchronize()
    assert host.free()[0] == FREE - 300 * MI
    host.create(pod, "app", memory=300 * MI)
    assert host.free()[0] == FREE - 300 * MI
    host.stop_pod(pod)
    assert host.free() == [FREE] * 4


def test_memory_of_a_missing_container_stays_reserved_for_its_pod(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    host.containers.clear()
    host.synchronize()
    assert host.free()[0] == FREE - 200 * MI
    (holder,) = host.engine.state.holders.values()
    assert holder.ended


def test_memory_of_a_container_reported_as_ended_stays_reserved_for_its_pod(host: Host) -> None:
    host.create(host.run("a"))
    container = host.newest()
    host.containers[container.container_id] = replace(container, ended=True)
    assert host.synchronize().updates == ()
    assert host.free()[0] == FREE - 200 * MI
    (holder,) = host.engine.state.holders.values()
    assert holder.ended


def test_a_container_created_while_disconnected_is_placed_and_updated(host: Host) -> None:
    host.create(host.run("a"))
    unseen = replace(host.newest(), container_id="unseen", name="second", cpuset_mems="")
    host.containers["unseen"] = unseen
    plan = host.synchronize()
    assert plan.updates == (Update("unseen", "0"),)
    assert events_of(plan) == ["adopted", "pinned_while_running", "synchronized"]
    assert host.free()[0] == FREE - 400 * MI


def test_a_container_created_while_disconnected_runs_unpinned_if_nothing_fits(host: Host) -> None:
    host.create(host.run("a"))
    huge = replace(
        host.newest(),
        container_id="huge",
        name="huge",
        cpuset_mems="",
        memory_limit_bytes=9 << 30,
    )
    host.containers["huge"] = huge
    plan = host.synchronize()
    assert plan.updates == ()
    assert events_of(plan)[1] == "running_unpinned_no_capacity"


def test_nodes_that_violate_the_rules_are_kept(host: Host, new_host: NewHost) -> None:
    new_host.groups_may_mix = True
    host.create(host.run("a"))
    strange = replace(host.newest(), container_id="strange", name="strange", cpuset_mems="0,3")
    host.containers["strange"] = strange
    assert host.synchronize().updates == ()
    assert host.placed() == {"a": {"main": "0", "strange": "0,3"}}


def test_invalid_containers_are_ignored(host: Host) -> None:
    host.create(host.run("a"))
    known = host.newest()
    host.containers["x"] = replace(known, container_id="x", name="x", cpuset_mems="none")
    host.containers["y"] = replace(known, container_id="y", name="y", sandbox_id="gone")
    for mems in ("0", ""):
        no_limit = replace(known, memory_limit_bytes=None, cpuset_mems=mems)
        host.containers[f"z{mems}"] = replace(no_limit, container_id=f"z{mems}", name="z")
    plan = host.synchronize()
    assert plan.updates == ()
    assert host.placed() == {"a": {"main": "0"}}


def test_the_order_of_the_runtimes_list_does_not_matter(host: Host) -> None:
    for uid in "abc":
        host.create(host.run(uid), memory=500 * MI)
    host.synchronize()
    before = state_json(host.engine.state.accounting)["machineState"]
    host.containers = dict(reversed(host.containers.items()))
    host.pods = dict(reversed(host.pods.items()))
    host.synchronize()
    assert state_json(host.engine.state.accounting)["machineState"] == before


def sent_again(plan: Answer) -> list[Record]:
    return [record for record in plan.records if record.event == "cpuset_mems_reapplied"]


USE = CgroupUse(memory_bytes={0: 100 * MI, 3: MI})
MUCH = replace(USE, memory_bytes={0: 300 * MI, 3: MI})


def seen(host: Host, in_runtime: str, in_cgroup: str | None, use: CgroupUse | None = USE) -> str:
    """Let the newest container be shown so, without a cgroup if None; return its id."""
    nodes = None if in_cgroup is None else NodeSet.parse(in_cgroup)
    changed = replace(host.newest(), cpuset_mems=in_runtime, cgroup_mems=nodes, cgroup_use=use)
    host.containers[changed.container_id] = changed
    return changed.container_id


@pytest.mark.parametrize("keeps_updates", [True, False])
def test_a_runtime_that_lost_the_known_nodes_gets_them_again(
    host: Host, *, keeps_updates: bool
) -> None:
    host.create(host.run("a"), mems="2")
    container_id = seen(host, "1", "2", MUCH)
    plan = host.synchronize(keeps_updates=keeps_updates)
    assert plan.updates == (Update(container_id, "2"),)
    assert host.placed() == {"a": {"main": "2"}}
    (record,) = sent_again(plan)
    assert fields_of(record)["runtime_cpuset_mems"] == "1"
    assert fields_of(record)["cgroup_cpuset_mems"] == "2"
    assert fields_of(record)["nodes"] == "2"
    assert fields_of(record)["cause"] == "they were given to the container before"


@pytest.mark.parametrize("keeps_updates", [True, False])
def test_nodes_that_something_else_set_are_adopted(host: Host, *, keeps_updates: bool) -> None:
    host.create(host.run("a"), mems="2", memory=500 * MI)
    host.create(host.run("0"), "other", mems="1", memory=700 * MI)
    container_id = seen(host, "2", "1")
    plan = host.synchronize(keeps_updates=keeps_updates)
    assert plan.updates == ()
    assert host.placed()["a"] == {"main": "1"}
    (record,) = [one for one in plan.records if one.event == "cpuset_mems_conflict"]
    assert record.level == "warning"
    assert fields_of(record)["previous_nodes"] == "2"
    assert fields_of(record)["nodes"] == "1"
    assert fields_of(record)["shortfall_bytes"] == {"memory": 1200 * MI - FREE}
    # From now on they are the container's nodes, which the runtime must not overwrite.
    assert host.synchronize(keeps_updates=keeps_updates).updates == (Update(container_id, "1"),)


def unconfirmed(host: Host) -> str:
    """Run a container that a Synchronize pinned to node 0; return its id."""
    host.create(host.run("a"))
    started = replace(host.newest(), cpuset_mems="")
    host.containers[started.container_id] = started
    fresh = Engine(host.engine.context)
    host.engine = fresh
    assert host.synchronize().updates == (Update(started.container_id, "0"),)
    return started.container_id


def restarted(host: Host, new_host: NewHost) -> Host:
    """Return the host with a new plugin process that has the state file."""
    fresh = new_host()
    fresh.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    fresh.pods, fresh.containers = host.pods, host.containers
    return fresh


@pytest.mark.parametrize("is_restarted", [True, False])
def test_an_update_that_no_cgroup_showed_is_repeated_once(
    host: Host, new_host: NewHost, *, is_restarted: bool
) -> None:
    container_id = unconfirmed(host)
    if is_restarted:
        host = restarted(host, new_host)
    seen(host, "0", "1")
    plan = host.synchronize()
    assert plan.updates == (Update(container_id, "0"),)
    assert [fields_of(r)["cause"] for r in sent_again(plan)] == [
        "the update did not reach the cgroup"
    ]
    plan = host.synchronize()
    assert plan.updates == ()
    assert events_of(plan) == ["adopted", "cpuset_mems_conflict", "synchronized"]
    assert fields_of(plan.records[1])["previous_nodes"] == "0"
    assert host.placed() == {"a": {"main": "1"}}


def test_an_update_stays_unconfirmed_while_there_is_no_cgroup(host: Host) -> None:
    container_id = unconfirmed(host)
    seen(host, "0", None)
    assert host.synchronize().updates == ()
    assert host.engine.state.cpusets.unconfirmed == {container_id}
    seen(host, "0", "0")
    assert host.synchronize().updates == ()
    assert host.engine.state.cpusets.unconfirmed == frozenset()


@pytest.mark.parametrize("keeps_updates", [True, False])
def test_a_cgroup_without_nodes_is_repaired(host: Host, *, keeps_updates: bool) -> None:
    """The container was being started when an earlier update came."""
    host.create(host.run("a"))
    container_id = seen(host, "0", "")
    plan = host.synchronize(keeps_updates=keeps_updates)
    assert plan.updates == (Update(container_id, "0"),)
    assert events_of(plan) == ["adopted", "cpuset_mems_reapplied", "synchronized"]
    assert fields_of(plan.records[1])["cause"] == "the cgroup has none"
    assert fields_of(plan.records[1])["cgroup_cpuset_mems"] == ""


def test_a_cgroup_without_nodes_gets_those_of_the_accounting_in_cri_o(host: Host) -> None:
    """CRI-O's list has the nodes of the creation."""
    host.create(host.run("a"), mems="2")
    container_id = seen(host, "1", "")
    assert host.synchronize(keeps_updates=False).updates == (Update(container_id, "2"),)


def test_a_reply_contains_one_repair(host: Host) -> None:
    for uid in "abc":
        host.create(host.run(uid), uid)
        container = replace(host.newest(uid), cgroup_mems=NodeSet(), cgroup_use=USE)
        host.containers[container.container_id] = container
    first, second, third = sorted(host.containers)
    plan = host.synchronize()
    assert plan.updates == (Update(first, "0"),)
    assert events_of(plan) == [
        *("adopted", "cpuset_mems_reapplied"),
        *("adopted", "cpuset_mems_missing") * 2,
        "synchronized",
    ]
    assert fields_of(plan.records[3])["outcome"] == "repair_deferred"
    assert plan.records[3].level == "info"
    assert host.create(host.run("d"), "d").updates == (Update(second, "0"),)
    plan = host.stop(host.newest("d"))
    assert plan.updates == (Update(third, "0"),)
    assert events_of(plan) == ["container_ended", "cpuset_mems_reapplied"]
    assert host.create(host.pods["sandbox-d"], "e").updates == ()


@pytest.mark.parametrize(
    ("use", "changes", "cause"),
    [
        (
            replace(USE, memory_bytes={0: 9, 3: 257 * MI}),
            {},
            "269484032 bytes of memory would move",
        ),
        (replace(USE, has_hugepages=True), {}, "the container uses hugepages"),
        (USE, {"has_devices": True}, "the container has devices"),
        (replace(USE, memory_bytes=None), {}, "its use of memory is unknown"),
        (None, {}, "its use of memory is unknown"),
    ],
)
def test_a_container_is_shown_as_unpinned_where_a_repair_would_move_too_much(
    host: Host, use: CgroupUse | None, changes: dict[str, bool], cause: str
) -> None:
    host.create(host.run("a"))
    container_id = seen(host, "0", "", use)
    host.containers[container_id] = replace(
        host.containers[container_id], has_devices=bool(changes)
    )
    plan = host.synchronize()
    assert plan.updates == ()
    assert events_of(plan) == ["adopted", "cpuset_mems_missing", "synchronized"]
    record = plan.records[1]
    assert (record.level, fields_of(record)["outcome"]) == ("warning", "unpinned")
    assert fields_of(record)["cause"] == cause
    assert "write 0 to cpuset.mems" in str(fields_of(record)["remedy"])
    assert host.engine.state.cpusets.unpinned == {container_id}


def test_a_container_with_assigned_hugepages_is_shown_as_unpinned(host: Host) -> None:
    host.create(host.run("a"), hugepages={PAGE: PAGE})
    seen(host, "0", "")
    plan = host.synchronize()
    assert plan.updates == ()
    assert fields_of(plan.records[1])["cause"] == "the container has hugepages"


def test_a_cgroup_whose_parents_have_the_containers_nodes_needs_no_repair(host: Host) -> None:
    """In cgroup v1 such a value and an unset one look the same."""
    host.create(host.run("a"), mems="0-3")
    seen(host, "0-3", "", replace(MUCH, effective_mems=NodeSet(range(4))))
    plan = host.synchronize()
    assert plan.updates == ()
    assert events_of(plan) == ["adopted", "synchronized"]


@pytest.mark.parametrize(
    ("keeps_updates", "nodes", "why"),
    [
        (True, "1", "the update did not reach the cgroup"),
        (False, "0,2", "the runtime shows those of the creation"),
    ],
)
def test_without_known_nodes_the_runtimes_behaviour_decides(
    host: Host, new_host: NewHost, nodes: str, why: str, *, keeps_updates: bool
) -> None:
    host.create(host.run("a"), mems="3")
    for fresh in (
        host,
        new_host(),
    ):  # the known nodes are neither of the two, or no nodes are known
        fresh.pods, fresh.containers = host.pods, host.containers
        container_id = seen(fresh, "1", "0,2")
        plan = fresh.synchronize(keeps_updates=keeps_updates)
        assert plan.updates == (Update(container_id, nodes),)
        assert fresh.placed() == {"a": {"main": nodes}}
        assert [fields_of(record)["cause"] for record in sent_again(plan)] == [why]


def test_a_pinned_container_without_nodes_in_the_runtimes_list(new_host: NewHost) -> None:
    host = new_host()
    host.create(host.run("a"))
    container_id = seen(host, "", "2-3")
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    plan = fresh.synchronize()
    assert plan.updates == (Update(container_id, "2-3"),)
    assert events_of(plan) == ["adopted", "cpuset_mems_reapplied", "synchronized"]
    assert fresh.placed() == {"a": {"main": "2-3"}}


@pytest.mark.parametrize("keeps_updates", [True, False])
@pytest.mark.parametrize("in_cgroup", ["0", None])
def test_an_equal_or_missing_cgroup_changes_nothing(
    host: Host, in_cgroup: str | None, *, keeps_updates: bool
) -> None:
    host.create(host.run("a"))
    seen(host, "0", in_cgroup)
    plan = host.synchronize(keeps_updates=keeps_updates)
    assert plan.updates == ()
    assert events_of(plan) == ["adopted", "synchronized"]


def test_unmanaged_containers_and_missing_nodes_are_not_sent(host: Host, new_host: NewHost) -> None:
    new_host.groups_may_mix = True
    host.create(host.run("a"))
    container_id = seen(host, "", "3,7")
    no_limit = replace(host.newest(), container_id="n", name="n", memory_limit_bytes=None)
    burstable = host.run("b", "burstable/")
    host.containers["n"] = no_limit
    host.containers["b"] = replace(
        host.containers[container_id], container_id="b", sandbox_id=burstable.sandbox_id
    )
    assert host.synchronize().updates == ()


def test_a_container_that_is_listed_twice_is_updated_once(host: Host) -> None:
    host.create(host.run("a"))
    container_id = seen(host, "", "")
    again = replace(host.newest(), name="again")
    host.containers["again"] = again
    assert [u.container_id for u in host.synchronize().updates] == [container_id]


def test_containers_that_are_not_managed_are_counted_by_cause(host: Host) -> None:
    for number in range(3):
        host.create(host.run(f"b{number}", "burstable/"))
    host.create(host.run("a"))
    for number in range(2):
        parent = f"/other{number}"
        pod = PodSandbox(f"s{number}", f"o{number}", "default", "o", parent)
        host.pods[pod.sandbox_id] = pod
        new = Container(f"o{number}", pod.sandbox_id, "c", 200 * MI)
        host.containers[new.container_id] = new
    record = host.synchronize().records[-1]
    assert fields_of(record)["not_managed"] == {"its pod is Burstable": 3, "no QoS class": 2}


def test_the_record_of_a_rebuilt_state(host: Host) -> None:
    host.create(host.run("b", "burstable/"))
    host.create(host.run("a"), memory=200 * MI)
    record = fields_of(host.synchronize().records[-1])
    assert record["free_bytes"] == {str(n): {"memory": free} for n, free in enumerate(host.free())}
    assert {name: n for name, n in record.items() if name.endswith("count")} == {
        "pod_count": 2,
        "container_count": 2,
        "adopted_count": 1,
        "updated_count": 0,
    }
    host.containers = {name: replace(c, cpuset_mems="") for name, c in host.containers.items()}
    record = fields_of(host.synchronize().records[-1])
    assert (record["adopted_count"], record["updated_count"]) == (0, 1)


def test_a_pod_that_is_not_listed_is_kept_with_its_running_containers(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, memory=300 * MI)
    other = host.run("b")
    host.create(other, memory=100 * MI)
    before = state_json(host.engine.state.accounting)
    containers = tuple(host.containers.values())
    plan = host.handle(Synchronize((other,), containers))
    assert plan.updates == ()
    assert state_json(host.engine.state.accounting) == before
    (record,) = [each for each in plan.records if each.event == "pod_not_listed"]
    assert fields_of(record)["pod"] == "pod-a"
    # The kubelet ends it.
    host.stop_pod(pod)
    host.stop_pod(other)
    assert host.free() == [FREE] * 4


def test_containers_of_a_pod_that_is_neither_listed_nor_known_are_left_out(host: Host) -> None:
    host.create(host.run("a"), memory=300 * MI)
    ended = replace(host.newest(), ended=True)
    assert events_of(host.handle(Synchronize((), (ended,)))) == ["synchronized"]
    unknown = replace(host.newest(), sandbox_id="other")
    assert events_of(host.handle(Synchronize((), (unknown,)))) == ["synchronized"]
    assert host.free() == [FREE] * 4
