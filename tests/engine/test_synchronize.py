"""After a reconnect: the books are what the runtime tells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nri_numamem.engine.books import entries, machine_state
from nri_numamem.engine.plan import Plan, Update

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
