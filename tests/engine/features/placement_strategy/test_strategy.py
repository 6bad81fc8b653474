"""The placement strategy, of the settings and of annotations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import PodStrategies, Strategy

if TYPE_CHECKING:
    from nri_numamem.engine.core.events import PodSandbox
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
RESERVED = tuple(Reservation(node, {"memory": 92 * MI}) for node in range(4))  # 900 MiB are free
FILLED = (300, 500, 100, 500)


def filled(
    new_host: NewHost,
    strategy: Strategy,
    scope: str = "container",
    policy: str = "best-effort",
    allowed: PodStrategies | None = None,
) -> Host:
    """Nodes 0 to 3 with 600, 400, 800 and 400 MiB free."""
    settings = Policy(
        topology_manager_policy=policy,
        topology_manager_scope=scope,
        reserved_memory=RESERVED,
        placement_strategy=strategy,
        pod_strategies=allowed or PodStrategies(),
    )
    host = new_host(settings)
    for node, size in enumerate(FILLED):
        pod = host.run(f"full-{node}", memory=size * MI)
        assert nodes_of(host, pod, size, cpus=f"{4 * node}") == str(node)
    return host


def nodes_of(host: Host, pod: PodSandbox, size: int, name: str = "main", cpus: str = "") -> str:
    """Create a container of some MiB; return its nodes."""
    adjustment = host.create(pod, name, size * MI, cpus=cpus).adjustment
    assert adjustment is not None
    return adjustment.cpuset_mems


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(
    ("strategy", "nodes"),
    [(Strategy.LOWEST_IDS, "0"), (Strategy.PACK, "1"), (Strategy.SPREAD, "2")],
)
def test_a_single_node(new_host: NewHost, strategy: Strategy, nodes: str, scope: str) -> None:
    host = filled(new_host, strategy, scope)
    assert nodes_of(host, host.run("a", memory=300 * MI), 300) == nodes


def test_containers_are_packed_until_the_node_is_full(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.PACK)
    found = [nodes_of(host, host.run(f"p{n}", memory=200 * MI), 200) for n in range(6)]
    assert found == ["1", "1", "3", "3", "0", "0"]


def test_containers_are_spread(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.SPREAD)
    found = [nodes_of(host, host.run(f"p{n}", memory=200 * MI), 200) for n in range(6)]
    assert found == ["2", "0", "2", "0", "1", "2"]


def test_packing_leaves_a_node_for_a_large_container(new_host: NewHost) -> None:
    """The example in docs/internals/placement.md."""
    answers: dict[Strategy, str | None] = {}
    for strategy in Strategy:
        host = filled(new_host, strategy, policy="single-numa-node")
        for number in range(6):
            nodes_of(host, host.run(f"p{number}", memory=200 * MI), 200)
        adjustment = host.create(host.run("large", memory=800 * MI), memory=800 * MI).adjustment
        answers[strategy] = None if adjustment is None else adjustment.cpuset_mems
    assert answers == {
        Strategy.LOWEST_IDS: None,
        Strategy.PACK: "2",
        Strategy.SPREAD: None,
        Strategy.BALANCED_WITH_CPUS: None,
    }


def test_hints_of_cpus_come_first(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.PACK)
    assert nodes_of(host, host.run("a", memory=300 * MI), 300, cpus="8") == "2"
    assert nodes_of(host, host.run("b", memory=300 * MI), 300, cpus="0,12") == "3"


def test_the_rest_of_the_pod_comes_first(new_host: NewHost) -> None:
    """Only node 2 can hold the second container, so the first one goes elsewhere."""
    host = filled(new_host, Strategy.SPREAD)
    pod = host.run("a", memory=1000 * MI)
    assert nodes_of(host, pod, 300, "one") == "0"
    assert nodes_of(host, pod, 700, "two") == "2"


def test_previous_nodes_come_first(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.PACK)
    pod = host.run("a", memory=200 * MI)
    assert nodes_of(host, pod, 200, cpus="8") == "2"
    host.stop_pod(pod)
    again = host.run("a", memory=200 * MI, sandbox="again")
    assert nodes_of(host, again, 200) == "2"


@pytest.mark.parametrize(
    ("strategy", "nodes"),
    [(Strategy.LOWEST_IDS, "0-1"), (Strategy.PACK, "0-1"), (Strategy.SPREAD, "2-3")],
)
def test_existing_groups(new_host: NewHost, strategy: Strategy, nodes: str) -> None:
    host = new_host(Policy(reserved_memory=RESERVED, placement_strategy=strategy))
    assert nodes_of(host, host.run("large", memory=1100 * MI), 1100) == "0-1"
    assert nodes_of(host, host.run("less", memory=1000 * MI), 1000) == "2-3"
    assert nodes_of(host, host.run("a", memory=100 * MI), 100) == nodes


BALANCED = Policy(reserved_memory=RESERVED, placement_strategy=Strategy.BALANCED_WITH_CPUS)


def test_memory_and_cpu_requests_stay_balanced(new_host: NewHost) -> None:
    """Node 0 has CPU requests and little memory in use, node 1 memory and no CPU requests."""
    host = new_host(BALANCED)
    host.create(host.run("cpus"), memory=90 * MI, cpu_shares=3072)
    host.create(host.run("memory"), memory=675 * MI, cpus="4", cpu_shares=0)
    made = [
        host.create(host.run(name, memory=size * MI), memory=size * MI, cpu_shares=shares)
        for name, size, shares in (("a", 600, 2), ("b", 100, 2048), ("c", 90, 400))
    ]
    assert [one.adjustment and one.adjustment.cpuset_mems for one in made] == ["0", "1", "2"]


def test_the_balance_follows_updates_and_ends(new_host: NewHost) -> None:
    host = new_host(BALANCED)
    host.create(host.run("a"), memory=100 * MI, cpu_shares=4096)
    host.create(host.run("b"), memory=100 * MI, cpu_shares=400, cpus="4")
    pod, small = host.run("c", memory=450 * MI), "0"
    assert nodes_of(host, pod, 450, small) == "0"
    host.stop(host.newest(small))
    host.stop_pod(pod)
    first = next(one for one in host.containers.values() if one.sandbox_id == "sandbox-a")
    host.handle(events.UpdateContainer(host.pods["sandbox-a"], first, cpu_shares=2))
    assert nodes_of(host, host.run("d", memory=450 * MI), 450) == "2"


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_balanced_in_both_scopes(new_host: NewHost, scope: str) -> None:
    host = new_host(replace(BALANCED, topology_manager_scope=scope))
    host.create(host.run("a", memory=100 * MI), memory=100 * MI, cpu_shares=2048, cpus="8")
    assert nodes_of(host, host.run("b", memory=400 * MI), 400) == "2"


ALLOWED = PodStrategies((Strategy.PACK, Strategy.SPREAD), ("ns",))


def annotated(host: Host, uid: str, text: str, memory: int = 200 * MI) -> PodSandbox:
    """Start a pod with the annotation."""
    pod = events.PodSandbox(
        f"sandbox-{uid}",
        uid,
        "ns",
        f"pod-{uid}",
        f"/kubepods/pod{uid}",
        memory,
        annotations={"placement-strategy.numamem.io": text},
    )
    host.pods[pod.sandbox_id] = pod
    host.ran = host.handle(events.RunPodSandbox(pod))
    return pod


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(
    ("text", "nodes"), [("pack", "1"), ("spread", "2"), ("lowest-ids", "1"), ("near", "1")]
)
def test_an_annotation_that_is_allowed_decides(
    new_host: NewHost, text: str, nodes: str, scope: str
) -> None:
    host = filled(new_host, Strategy.PACK, scope, allowed=ALLOWED)
    pod = annotated(host, "a", text)
    assert nodes_of(host, pod, 200) == nodes
    found = [r for r in host.ran.records if r.event == "placement_strategy_ignored"]
    assert bool(found) is (text not in ("pack", "spread"))
    for record in found:
        assert record.level == "warning"
        assert (fields_of(record)["strategy"], fields_of(record)["pod_uid"]) == (text, "a")
        assert fields_of(record)["cause"] == ALLOWED.obstacle("ns", text)


def test_without_the_setting_an_annotation_is_only_recorded(host: Host) -> None:
    pod = annotated(host, "a", "spread")
    (record,) = host.ran.records
    assert (record.event, record.level) == ("placement_strategy_ignored", "debug")
    (admitted,) = host.create(pod).records
    assert "strategy" not in fields_of(admitted)


def test_pods_that_are_not_managed_have_no_record(host: Host) -> None:
    pod = annotated(host, "a", "x")
    burstable = replace(pod, sandbox_id="b", cgroup_parent="/kubepods/burstable/podb")
    assert host.handle(events.RunPodSandbox(burstable)).records == ()
    other = replace(pod, sandbox_id="c", annotations={"memory-policy.numamem.io": "bind"})
    assert host.handle(events.RunPodSandbox(other)).records == ()


def test_a_sandbox_that_gets_no_pool_is_recorded_too(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.PACK, "pod")
    pod = annotated(host, "a", "near")
    again = host.handle(events.RunPodSandbox(replace(pod, sandbox_id="again")))
    assert [record.event for record in again.records] == ["placement_strategy_ignored"]
    one_by_one = replace(annotated(host, "b", "near", 0), memory_limit_bytes=None)
    host.create(one_by_one, memory=50 * MI)
    again = host.handle(
        events.RunPodSandbox(replace(one_by_one, sandbox_id="c", memory_limit_bytes=100 * MI))
    )
    assert [record.event for record in again.records] == ["placement_strategy_ignored"]


def test_the_record_says_what_the_strategy_decided(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.SPREAD)
    (record,) = host.create(host.run("a", memory=300 * MI), memory=300 * MI).records
    assert [fields_of(record)[name] for name in ("strategy", "strategy_source", "equal_nodes")] == [
        "spread",
        "setting",
        ["0", "1", "2", "3"],
    ]
    (record,) = host.create(host.run("b", memory=300 * MI), memory=300 * MI, cpus="8").records
    assert "equal_nodes" not in fields_of(record)


def test_the_record_of_an_annotation(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.SPREAD, allowed=ALLOWED)
    (record,) = host.create(annotated(host, "a", "pack", 300 * MI), memory=300 * MI).records
    assert (fields_of(record)["strategy"], fields_of(record)["strategy_source"]) == (
        "pack",
        "annotation",
    )


def test_the_record_in_pod_scope_is_that_of_the_pod(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.SPREAD, "pod")
    pod = host.run("a", memory=300 * MI)
    (record,) = host.ran.records
    assert (record.event, fields_of(record)["strategy"]) == ("pod_admitted", "spread")
    assert fields_of(record)["equal_nodes"] == ["0", "1", "2", "3"]
    (record,) = host.create(pod, memory=300 * MI).records
    assert "strategy" not in fields_of(record)


def test_the_rest_of_the_pod_previous_nodes_and_restarts_are_not_the_strategy(
    new_host: NewHost,
) -> None:
    host = filled(new_host, Strategy.SPREAD)
    pod = host.run("a", memory=1000 * MI)
    (record,) = host.create(pod, "one", 300 * MI).records
    assert "equal_nodes" not in fields_of(record)
    (record,) = host.create(pod, "one", 300 * MI).records
    assert "equal_nodes" not in fields_of(record)
    host.stop_pod(pod)
    again = host.run("a", memory=300 * MI, sandbox="again")
    (record,) = host.create(again, "one", 300 * MI).records
    assert "equal_nodes" not in fields_of(record)


def test_misalignment_has_a_record_of_its_own(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.SPREAD)
    answer = host.create(host.run("a", memory=600 * MI), memory=600 * MI, cpus="4")
    events_found = [record.event for record in answer.records]
    assert events_found == ["admitted", "misaligned"]
    assert "strategy" in fields_of(answer.records[0])
    assert "strategy" not in fields_of(answer.records[1])


def test_containers_that_ran_unpinned_follow_the_annotation(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.LOWEST_IDS, allowed=ALLOWED)
    pod = annotated(host, "a", "spread")
    host.containers["id"] = events.Container("id", pod.sandbox_id, "main", 200 * MI)
    host.synchronize()
    assert host.placed()["a"] == {"main": "2"}


@pytest.mark.parametrize("is_annotated", [False, True])
def test_containers_that_ran_unpinned_are_balanced_with_those_of_other_pods(
    new_host: NewHost, *, is_annotated: bool
) -> None:
    """Node 0 has CPU requests, and each container that is placed adds some to its node."""
    allowed = PodStrategies((Strategy.BALANCED_WITH_CPUS,))
    by_pod = Policy(reserved_memory=RESERVED, pod_strategies=allowed)
    host = new_host(by_pod if is_annotated else BALANCED)
    host.create(host.run("pinned"), memory=100 * MI, cpu_shares=2048)
    for uid in "abc":
        pod = annotated(host, uid, "balanced-with-cpus") if is_annotated else host.run(uid)
        host.containers[uid] = events.Container(
            uid, pod.sandbox_id, "main", 100 * MI, cpu_shares=2048
        )
    host.synchronize()
    placed = host.placed()
    assert [placed[uid]["main"] for uid in "abc"] == ["1", "2", "3"]
