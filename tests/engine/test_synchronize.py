"""After a reconnect: the books are what the runtime tells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.books import entries, machine_state
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.plan import Plan, Record, Update
from nri_numamem.engine.snapshot import restore, snapshot
from nri_numamem.memorymanager import NodeSet

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 32 * MI


def events_of(plan: Plan) -> list[str]:
    return [record.event for record in plan.records]


def test_nothing_to_tell(host: Host) -> None:
    plan = host.synchronize()
    assert plan.updates == ()
    assert events_of(plan) == ["synchronized"]
    assert plan.records[0].fields["pods"] == 0


def test_the_same_books_after_a_restart_of_the_runtime(host: Host, new_host: NewHost) -> None:
    host.create(host.run("a", hugepages={PAGE: 2 * PAGE}))
    host.create(host.run("b"), memory=1200 * MI)
    host.create(host.run("c", "burstable/"))
    before = entries(host.engine.state.books), machine_state(host.engine.state.books)
    plan = host.synchronize()
    assert plan.updates == ()
    assert (entries(host.engine.state.books), machine_state(host.engine.state.books)) == before
    assert plan.records[-1].fields["adopted"] == 2

    # A plugin that starts anew comes to the same, from what the runtime shows of its answers.
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    assert fresh.synchronize().updates == ()
    assert (entries(fresh.engine.state.books), machine_state(fresh.engine.state.books)) == before


def test_hugepages_that_a_pod_shares_count_once(host: Host, new_host: NewHost) -> None:
    """Each of its containers was answered the pod's sum, and that is what the runtime shows."""
    pod = host.run("a", hugepages={PAGE: 4 * PAGE})
    host.create(pod, "first")
    host.create(pod, "second")
    before = machine_state(host.engine.state.books)
    host.synchronize()
    assert machine_state(host.engine.state.books) == before
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    fresh.synchronize()
    assert machine_state(fresh.engine.state.books) == before


def test_unified_keys_other_than_the_pods_sum_are_the_containers_own(host: Host) -> None:
    pod = host.run("a", hugepages={PAGE: 4 * PAGE})
    host.create(pod, "first", unified={PAGE: PAGE})
    host.create(pod, "second", unified={PAGE: 3 * PAGE})
    assert host.free("hugepages-2Mi")[0] == 12 * PAGE
    host.synchronize()
    assert host.free("hugepages-2Mi")[0] == 12 * PAGE


def test_what_vanished_is_released(host: Host) -> None:
    host.create(host.run("a"))
    host.pods.clear()
    host.containers.clear()
    host.synchronize()
    assert host.free() == [FREE] * 4
    assert host.engine.state.holders == {}


def test_what_a_pod_holds_between_two_containers_is_kept_while_the_pod_is_there(
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


def test_a_container_that_ended_unseen_leaves_its_place_to_its_pod(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    host.containers.clear()
    host.synchronize()
    assert host.free()[0] == FREE - 200 * MI
    (holder,) = host.engine.state.holders.values()
    assert holder.ended


def test_a_container_that_is_told_to_have_ended_leaves_its_place_to_its_pod(host: Host) -> None:
    host.create(host.run("a"))
    container = host.newest()
    host.containers[container.container_id] = replace(container, ended=True)
    assert host.synchronize().updates == ()
    assert host.free()[0] == FREE - 200 * MI
    (holder,) = host.engine.state.holders.values()
    assert holder.ended


def test_a_container_that_was_created_meanwhile_is_placed_and_updated(host: Host) -> None:
    host.create(host.run("a"))
    unseen = replace(host.newest(), container_id="unseen", name="second", cpuset_mems="")
    host.containers["unseen"] = unseen
    plan = host.synchronize()
    assert plan.updates == (Update("unseen", "0"),)
    assert events_of(plan) == ["adopted", "pinned while running", "synchronized"]
    assert host.free()[0] == FREE - 400 * MI


def test_what_was_created_meanwhile_and_does_not_fit_runs_on(host: Host) -> None:
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
    assert events_of(plan)[1] == "runs unpinned, nothing fits"


def test_a_place_against_the_rules_is_kept(host: Host, new_host: NewHost) -> None:
    new_host.groups_may_mix = True
    host.create(host.run("a"))
    strange = replace(host.newest(), container_id="strange", name="strange", cpuset_mems="0,3")
    host.containers["strange"] = strange
    assert host.synchronize().updates == ()
    assert host.placed() == {"a": {"main": "0", "strange": "0,3"}}


def test_what_cannot_be_understood_is_passed_over(host: Host) -> None:
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


def test_the_order_in_which_the_runtime_tells_does_not_matter(host: Host) -> None:
    for uid in "abc":
        host.create(host.run(uid), memory=500 * MI)
    host.synchronize()
    before = machine_state(host.engine.state.books)
    host.containers = dict(reversed(host.containers.items()))
    host.pods = dict(reversed(host.pods.items()))
    host.synchronize()
    assert machine_state(host.engine.state.books) == before


def sent_again(plan: Plan) -> list[Record]:
    return [record for record in plan.records if record.event == "sent again"]


def seen(host: Host, in_runtime: str, in_cgroup: str) -> str:
    """Let the newest container be shown so; return its id."""
    nodes = NodeSet.parse(in_cgroup)
    changed = replace(host.newest(), cpuset_mems=in_runtime, cgroup_mems=nodes)
    host.containers[changed.container_id] = changed
    return changed.container_id


@pytest.mark.parametrize("keeps_updates", [True, False])
@pytest.mark.parametrize(("in_runtime", "in_cgroup"), [("2", "1"), ("1", "2")])
def test_where_runtime_and_cgroup_differ_what_was_known_counts(
    host: Host, in_runtime: str, in_cgroup: str, *, keeps_updates: bool
) -> None:
    host.create(host.run("a"), mems="2")
    container_id = seen(host, in_runtime, in_cgroup)
    plan = host.synchronize(keeps_updates=keeps_updates)
    assert plan.updates == (Update(container_id, "2"),)
    assert host.placed() == {"a": {"main": "2"}}
    (record,) = sent_again(plan)
    assert record.fields["in_runtime"] == in_runtime
    assert record.fields["in_cgroup"] == in_cgroup
    assert record.fields["nodes"] == "2"
    assert record.fields["why"] == "they were given to the container before"


def test_what_an_earlier_process_knew_counts_as_well(host: Host, new_host: NewHost) -> None:
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
def test_else_the_runtimes_habit_counts(
    host: Host, new_host: NewHost, nodes: str, why: str, *, keeps_updates: bool
) -> None:
    host.create(host.run("a"), mems="3")
    for fresh in (host, new_host()):  # what was known is neither, and nothing is known
        fresh.pods, fresh.containers = host.pods, host.containers
        container_id = seen(fresh, "1", "0,2")
        plan = fresh.synchronize(keeps_updates=keeps_updates)
        assert plan.updates == (Update(container_id, nodes),)
        assert fresh.placed() == {"a": {"main": nodes}}
        assert [record.fields["why"] for record in sent_again(plan)] == [why]


def test_a_pinned_container_of_which_the_runtime_knows_no_nodes(new_host: NewHost) -> None:
    host = new_host()
    host.create(host.run("a"))
    container_id = seen(host, "", "2-3")
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    plan = fresh.synchronize()
    assert plan.updates == (Update(container_id, "2-3"),)
    assert events_of(plan) == ["adopted", "sent again", "synchronized"]
    assert fresh.placed() == {"a": {"main": "2-3"}}


def test_a_cgroup_that_agrees_or_says_nothing_changes_nothing(host: Host) -> None:
    host.create(host.run("a"))
    for in_cgroup in ("0", ""):
        seen(host, "0", in_cgroup)
        plan = host.synchronize(keeps_updates=False)
        assert plan.updates == ()
        assert events_of(plan) == ["adopted", "synchronized"]


def test_nothing_is_sent_for_whom_we_do_not_manage_or_to_nodes_that_are_gone(
    host: Host, new_host: NewHost
) -> None:
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


def test_a_container_that_is_told_twice_is_updated_once(host: Host) -> None:
    host.create(host.run("a"))
    container_id = seen(host, "", "")
    again = replace(host.newest(), name="again")
    host.containers["again"] = again
    assert [u.container_id for u in host.synchronize().updates] == [container_id]
