"""Creation, stop and removal of containers, as a runtime reports them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.plan import Adjustment, HugepageRoute
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Reservation
from tests.engine.conftest import Answer

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
GI = 1 << 30
PAGE = 2 * MI
FREE = GI - 64 * MI - 16 * PAGE  # of an empty node


def test_a_guaranteed_container_gets_one_node(host: Host) -> None:
    plan = host.create(host.run("a"))
    assert plan.adjustment == Adjustment("0")
    (record,) = plan.records
    assert (record.event, record.level) == ("admitted", "info")
    assert fields_of(record)["pod"] == "pod-a"
    assert fields_of(record)["container"] == "main"
    assert fields_of(record)["request_bytes"] == {"memory": 200 * MI}
    assert fields_of(record)["nodes"] == "0"
    assert fields_of(record)["merged_hint"] == {"affinity": "0", "preferred": True}
    assert fields_of(record)["free_bytes"] == {
        "0": {"memory": FREE - 200 * MI},
        "1": {"memory": FREE},
        "2": {"memory": FREE},
        "3": {"memory": FREE},
    }


def test_a_request_larger_than_a_node_gets_the_closest_free_pair(host: Host) -> None:
    """Node 0 is in use; the lowest other pair is 1-2, but 2-3 are closer."""
    host.create(host.run("small"))
    assert host.create(host.run("large"), memory=1200 * MI).adjustment == Adjustment("2-3")
    refused = host.create(host.run("larger"), memory=1200 * MI)
    assert refused.adjustment is None
    assert refused.refusal is not None


def test_without_prefer_closest_the_lowest_pair_wins(new_host: NewHost) -> None:
    reserved = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
    host = new_host(Policy(reserved_memory=reserved, prefer_closest_numa_nodes=False))
    host.create(host.run("small"))
    assert host.create(host.run("large"), memory=1200 * MI).adjustment == Adjustment("1-2")


def test_a_node_has_assignments_of_one_group_only(host: Host) -> None:
    assert host.create(host.run("x"), memory=1200 * MI).adjustment == Adjustment("0-1")
    assert host.create(host.run("y"), memory=1200 * MI).adjustment == Adjustment("2-3")
    # Both groups have room, and the lower one takes a small container too.
    assert host.create(host.run("z")).adjustment == Adjustment("0-1")


@pytest.mark.parametrize(
    ("qos", "why"),
    [("burstable/", "Burstable"), ("besteffort/", "BestEffort"), ("other/", "no QoS class")],
)
def test_pods_that_are_not_guaranteed_are_not_managed(host: Host, qos: str, why: str) -> None:
    pod = host.run("a", qos) if qos != "other/" else replace(host.run("a"), cgroup_parent="/x")
    plan = host.create(pod, hugepages={PAGE: PAGE})
    assert (plan.adjustment, plan.updates, plan.refusal) == (None, (), None)
    (record,) = plan.records
    assert (record.event, record.level) == ("not_managed", "debug")
    assert why in str(fields_of(record)["cause"])
    assert host.placed() == {}


@pytest.mark.parametrize("memory", [None, 0])
def test_a_container_without_memory_limit_is_not_managed(host: Host, memory: int | None) -> None:
    plan = host.create(host.run("a"), memory=memory)
    assert plan.adjustment is None
    assert host.placed() == {}


def test_a_container_without_name_or_uid_is_not_managed(host: Host) -> None:
    assert host.create(host.run("a"), name="").adjustment is None
    assert host.create(replace(host.run("a"), uid="")).adjustment is None
    assert host.placed() == {}


def test_policy_none_manages_nothing(new_host: NewHost) -> None:
    host = new_host(Policy(memory_manager_policy="None"))
    assert host.create(host.run("a")).adjustment is None
    assert host.placed() == {}


def test_a_refusal_names_the_request_and_each_node_and_changes_nothing(host: Host) -> None:
    before = host.engine.state.accounting
    plan = host.create(host.run("a"), memory=9 * GI)
    assert plan.adjustment is None
    text = plan.refusal or ""
    assert text.startswith("numamem: container main of pod ns/pod-a refused")
    assert "9Gi" in text
    assert "928Mi free" in text
    assert "0-3" in text
    assert len(text) <= 1024
    assert host.engine.state.accounting == before
    (record,) = plan.records
    assert (record.event, record.level) == ("rejected", "warning")
    assert str(fields_of(record)["message"]) in text


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_refusal_names_no_other_pod(new_host: NewHost, policy: str, scope: str) -> None:
    """Users of one namespace read it, in the events of their pod."""
    host = new_host(Policy(topology_manager_policy=policy, topology_manager_scope=scope))
    others = [host.run(f"neighbour-{number}") for number in range(4)]
    for other in others:
        host.create(other, "secret", memory=600 * MI, container_id=f"id-{other.uid}")
    answer = host.create(host.run("mine"), memory=700 * MI)
    assert answer.refusal is not None
    for other in others:
        for name in (other.uid, other.name, other.sandbox_id, "secret", f"id-{other.uid}"):
            assert name not in answer.refusal
    (record,) = answer.records
    assert "pod-neighbour-0" in str(fields_of(record)["holders"])


def test_after_a_pod_is_removed_the_retry_succeeds(host: Host) -> None:
    first, second = host.run("x"), host.run("y")
    host.create(first, memory=1500 * MI)
    host.create(second, memory=1500 * MI)
    third = host.run("z")
    assert host.create(third, memory=1500 * MI).refusal
    host.stop_pod(first)
    assert host.create(third, memory=1500 * MI).adjustment == Adjustment("0-1")


def test_run_unpinned_starts_containers_that_do_not_fit(new_host: NewHost) -> None:
    host = new_host(Policy(when_unsatisfiable="RunUnpinned"))
    plan = host.create(host.run("a"), memory=9 * GI)
    assert (plan.adjustment, plan.refusal) == (None, None)
    assert [record.event for record in plan.records] == ["unpinned_no_capacity"]


# Hugepages


def test_hugepages_of_the_pods_cgroup_are_enforced_by_unified_keys(host: Host) -> None:
    plan = host.create(host.run("a", hugepages={PAGE: 2 * PAGE}))
    assert plan.adjustment == Adjustment("0", {PAGE: 2 * PAGE}, HugepageRoute.UNIFIED)
    assert host.free("hugepages-2Mi") == [14 * PAGE, 16 * PAGE, 16 * PAGE, 16 * PAGE]


def test_hugepage_limits_that_the_runtime_shows_are_enforced_by_limits(host: Host) -> None:
    pod = host.run("a", hugepages={PAGE: 7 * PAGE})
    plan = host.create(pod, hugepages={PAGE: 2 * PAGE, GI: 0})
    assert plan.adjustment == Adjustment("0", {PAGE: 2 * PAGE}, HugepageRoute.LIMITS)


def test_shown_zeros_win_over_the_pods_sum(host: Host) -> None:
    pod = host.run("a", hugepages={PAGE: 7 * PAGE})
    assert host.create(pod, hugepages={PAGE: 0}).adjustment == Adjustment("0")


def test_hugepages_that_another_plugin_set_are_counted_and_not_set_again(host: Host) -> None:
    plan = host.create(host.run("a"), unified={PAGE: 3 * PAGE})
    assert plan.adjustment == Adjustment("0", {}, HugepageRoute.UNIFIED)
    assert host.free("hugepages-2Mi")[0] == 13 * PAGE


def test_hugepages_may_need_a_group_where_memory_does_not(host: Host) -> None:
    plan = host.create(host.run("a", hugepages={PAGE: 24 * PAGE}))
    assert plan.adjustment == Adjustment("0-1", {PAGE: 24 * PAGE}, HugepageRoute.UNIFIED)


def test_the_containers_of_a_pod_share_its_sum_of_hugepages(host: Host) -> None:
    """No message shows which container uses them: all may, and the first one is charged."""
    pod = host.run("a", hugepages={PAGE: 10 * PAGE})
    host.create(pod, "first", memory=800 * MI)
    plan = host.create(pod, "second", memory=100 * MI)
    assert plan.adjustment == Adjustment("0", {PAGE: 10 * PAGE}, HugepageRoute.UNIFIED)
    assert host.free("hugepages-2Mi")[0] == 6 * PAGE


def test_a_container_without_room_near_the_pods_hugepages_uses_other_nodes(host: Host) -> None:
    pod = host.run("a", hugepages={PAGE: 10 * PAGE})
    host.create(pod, "first", memory=800 * MI)
    assert host.create(pod, "second", memory=300 * MI).adjustment == Adjustment(
        "1", {PAGE: 10 * PAGE}, HugepageRoute.UNIFIED
    )


def test_the_next_container_reuses_hugepages_of_an_ended_one(host: Host) -> None:
    pod = host.run("a", hugepages={PAGE: 10 * PAGE})
    host.create(pod, "init")
    host.stop(host.newest("init"))
    host.create(pod, "app")
    assert host.free("hugepages-2Mi")[0] == 6 * PAGE
    assert host.free()[0] == FREE - 200 * MI


def test_reusable_hugepages_go_to_the_pods_next_container(host: Host) -> None:
    """The pod's other live container has memory only."""
    pod = host.run("a", hugepages={PAGE: 10 * PAGE})
    host.create(pod, "first")
    host.create(pod, "second")
    host.stop(host.newest("first"))
    host.create(pod, "third")
    assert host.free("hugepages-2Mi")[0] == 6 * PAGE


# The end of containers


def test_memory_of_an_ended_container_stays_reserved_for_its_pod(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, "init", memory=300 * MI)
    plan = host.stop(host.newest("init"))
    assert [record.event for record in plan.records] == ["container_ended"]
    assert fields_of(plan.records[0])["reusable_bytes"] == {"memory": 300 * MI}
    assert host.free()[0] == FREE - 300 * MI
    host.create(pod, "app", memory=200 * MI)
    assert host.free()[0] == FREE - 300 * MI
    host.stop_pod(pod)
    assert host.free() == [FREE] * 4
    assert host.placed() == {}


def test_a_recreated_container_gets_its_previous_assignment(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, container_id="old")
    host.stop(host.newest())
    host.create(host.run("b"), memory=700 * MI)
    assert host.create(pod, container_id="new").adjustment == Adjustment("0")
    assert host.free()[0] == FREE - 900 * MI


def test_a_successor_may_be_created_before_its_predecessor_stops(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, container_id="old")
    old = host.newest()
    assert host.create(pod, container_id="new").adjustment == Adjustment("0")
    assert host.stop(old) == Answer()
    assert host.remove(old) == Answer()
    assert host.free()[0] == FREE - 200 * MI
    assert host.engine.state.holder("new") is not None


def test_a_recreated_container_with_another_request_is_placed_anew(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, container_id="old")
    host.stop(host.newest())
    assert host.create(pod, memory=1200 * MI, container_id="new").adjustment == Adjustment("0-1")
    assert sum(host.free()) == 4 * FREE - 1200 * MI


def test_events_of_unknown_and_ended_containers_change_nothing(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    container = host.newest()
    stranger = replace(container, container_id="stranger")
    assert host.stop(stranger) == Answer()
    assert host.remove(stranger) == Answer()
    assert host.stop(container).records
    assert host.stop(container) == Answer()
    assert host.remove(container) == Answer()


def test_remove_without_stop_ends_a_container_too(host: Host) -> None:
    host.create(host.run("a"))
    assert [record.event for record in host.remove(host.newest()).records] == ["container_ended"]


def test_the_retry_of_a_failed_creation_gets_the_same_nodes(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, container_id="failed")
    failed = host.newest()
    nameless = replace(
        failed, name=""
    )  # the removal after a failed creation in containerd has no labels
    assert host.stop(nameless).records
    assert host.remove(nameless) == Answer()
    assert host.create(pod, container_id="retried").adjustment == Adjustment("0")
    assert host.free()[0] == FREE - 200 * MI
