"""Synchronize: the accounting is rebuilt from the runtime's list of containers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.engine import Engine
from nri_numamem.engine.plan import Record, Update
from nri_numamem.engine.snapshot import restore, snapshot
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
    assert plan.records[0].fields["pod_count"] == 0


def test_a_restart_of_the_runtime_keeps_the_accounting(host: Host, new_host: NewHost) -> None:
    host.create(host.run("a", hugepages={PAGE: 2 * PAGE}))
    host.create(host.run("b"), memory=1200 * MI)
    host.create(host.run("c", "burstable/"))
    before = state_json(host.engine.state.accounting)
    plan = host.synchronize()
    assert plan.updates == ()
    assert state_json(host.engine.state.accounting) == before
    assert plan.records[-1].fields["adopted_count"] == 2

    # A new process has the same accounting, from the runtime's list alone.
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    assert fresh.synchronize().updates == ()
    assert state_json(fresh.engine.state.accounting) == before


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


def seen(host: Host, in_runtime: str, in_cgroup: str) -> str:
    """Let the newest container be shown so; return its id."""
    nodes = NodeSet.parse(in_cgroup)
    changed = replace(host.newest(), cpuset_mems=in_runtime, cgroup_mems=nodes)
    host.containers[changed.container_id] = changed
    return changed.container_id


@pytest.mark.parametrize("keeps_updates", [True, False])
@pytest.mark.parametrize(("in_runtime", "in_cgroup"), [("2", "1"), ("1", "2")])
def test_if_runtime_and_cgroup_differ_the_known_nodes_count(
    host: Host, in_runtime: str, in_cgroup: str, *, keeps_updates: bool
) -> None:
    host.create(host.run("a"), mems="2")
    container_id = seen(host, in_runtime, in_cgroup)
    plan = host.synchronize(keeps_updates=keeps_updates)
    assert plan.updates == (Update(container_id, "2"),)
    assert host.placed() == {"a": {"main": "2"}}
    (record,) = sent_again(plan)
    assert record.fields["runtime_cpuset_mems"] == in_runtime
    assert record.fields["cgroup_cpuset_mems"] == in_cgroup
    assert record.fields["nodes"] == "2"
    assert record.fields["cause"] == "they were given to the container before"


def test_the_nodes_in_the_state_file_count_as_well(host: Host, new_host: NewHost) -> None:
    host.create(host.run("a"), mems="2")
    fresh = new_host()
    fresh.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    fresh.pods, fresh.containers = host.pods, host.containers
    container_id = seen(fresh, "2", "3")
    assert fresh.synchronize(keeps_updates=False).updates == (Update(container_id, "2"),)


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
        assert [record.fields["cause"] for record in sent_again(plan)] == [why]


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


def test_an_equal_or_empty_cgroup_changes_nothing(host: Host) -> None:
    host.create(host.run("a"))
    for in_cgroup in ("0", ""):
        seen(host, "0", in_cgroup)
        plan = host.synchronize(keeps_updates=False)
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
