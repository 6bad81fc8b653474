"""Updates of containers, as a runtime reports them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    UpdateContainer,
)
from nri_numamem.engine.core.plan import RecordValue, Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.engine.conftest import Answer

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
GI = 1 << 30
PAGE = 2 * MI
FREE = GI - 64 * MI - 16 * PAGE  # of an empty node


def update(host: Host, memory: int | None) -> Answer:
    container = host.newest()
    pod = host.pods[container.sandbox_id]
    return host.handle(events.UpdateContainer(pod, container, memory))


def without_effect(host: Host, memory: int | None) -> RecordValue:
    """Update a container without an effect; return the cause in the record."""
    before = host.engine.state
    answer = update(host, memory)
    (record,) = answer.records
    assert answer == Answer(records=(record,))
    assert host.engine.state == before
    assert (record.event, record.level) == ("update_without_effect", "debug")
    assert fields_of(record)["container_id"] == host.newest().container_id
    return str(fields_of(record)["cause"])


def test_an_update_without_another_memory_limit_changes_nothing(host: Host) -> None:
    host.create(host.run("a"))
    assert without_effect(host, None) == "its memory limit does not change"
    assert without_effect(host, 200 * MI) == "its memory limit does not change"


def test_an_update_of_an_unmanaged_container_changes_nothing(host: Host) -> None:
    host.create(host.run("a", "burstable/"))
    assert without_effect(host, 300 * MI) == "its pod is Burstable"


def test_an_update_of_an_unknown_container_changes_nothing(host: Host) -> None:
    pod = host.run("a")
    unknown = events.Container("unknown", pod.sandbox_id, "main", 200 * MI)
    host.containers[unknown.container_id] = unknown
    assert without_effect(host, 300 * MI) == "it has no assignment"


def test_an_update_of_an_ended_container_changes_nothing(host: Host) -> None:
    host.create(host.run("a"))
    container = host.newest()
    host.stop(container)
    host.containers[container.container_id] = container
    assert without_effect(host, 300 * MI) == "it has ended"


def test_more_memory_is_charged_to_the_same_nodes(host: Host) -> None:
    host.create(host.run("a"))
    plan = update(host, 300 * MI)
    assert (plan.adjustment, plan.updates, plan.refusal) == (None, (), None)
    (record,) = plan.records
    assert (record.event, record.level) == ("resized", "info")
    assert fields_of(record)["container"] == "main"
    assert fields_of(record)["previous_memory_bytes"] == 200 * MI
    assert fields_of(record)["request_bytes"] == {"memory": 300 * MI}
    assert host.free()[0] == FREE - 300 * MI


def test_less_memory_is_released(host: Host) -> None:
    host.create(host.run("a"))
    assert update(host, 50 * MI).records[0].level == "info"
    assert host.free()[0] == FREE - 50 * MI


def test_the_recorded_amount_changes_nothing(host: Host) -> None:
    host.create(host.run("a"))
    update(host, 300 * MI)
    assert without_effect(host, 300 * MI) == "its memory limit does not change"


def test_a_limit_that_the_node_cannot_hold_gets_more_nodes(host: Host) -> None:
    host.create(host.run("a"))
    plan = update(host, 1200 * MI)
    assert plan.updates == (Update(host.newest().container_id, "0-1"),)
    (record,) = plan.records
    assert (record.level, fields_of(record)["previous_nodes"], fields_of(record)["nodes"]) == (
        "info",
        "0",
        "0-1",
    )
    # It stays there when it shrinks: its pages are on both nodes.
    assert update(host, 200 * MI).updates == ()
    assert host.placed() == {"a": {"main": "0-1"}}


def crowded_update(host: Host) -> Answer:
    """Request more than the node has, while an assignment of another pod prevents a group."""
    host.create(host.run("a"))
    host.create(host.run("b"))
    return host.handle(events.UpdateContainer(host.pods["sandbox-b"], host.newest(), 1200 * MI))


def test_a_limit_that_fits_nowhere_is_refused_and_changes_nothing(host: Host) -> None:
    plan = crowded_update(host)
    assert plan.refusal == (
        "numamem: container main of pod ns/pod-b cannot be resized to memory 1.18Gi: 472Mi too "
        "much for node 0 (NUMA node 0 has 528Mi free), and no larger set of nodes may be used; "
        "remedy: end the pods on NUMA node 0, or request at most 728Mi"
    )
    assert plan.updates == ()
    (record,) = plan.records
    assert (record.event, record.level) == ("resize_rejected", "warning")
    assert fields_of(record)["shortfall_bytes"] == {"memory": 1400 * MI - FREE}
    assert host.free()[0] == FREE - 400 * MI


def test_a_smaller_limit_is_never_refused(new_host: NewHost) -> None:
    """Also if the new limit is larger than the bytes that are charged for the container."""
    host = new_host()
    host.create(host.run("b"), mems="0", memory=MI)
    host.create(host.run("a"), mems="0", memory=2000 * MI)
    assert update(host, 1500 * MI).refusal is None
    assert update(host, 1600 * MI).refusal is not None


def test_run_unpinned_never_refuses_a_resize(new_host: NewHost) -> None:
    settings = new_host().engine.context.policy
    host = new_host(replace(settings, when_unsatisfiable="RunUnpinned"))
    plan = crowded_update(host)
    assert (plan.adjustment, plan.updates, plan.refusal) == (None, (), None)
    (record,) = plan.records
    assert (record.event, record.level) == ("resized", "warning")
    assert fields_of(record)["shortfall_bytes"] == {"memory": 1400 * MI - FREE}
    assert host.free()[0] == 0
    host.stop_pod(host.pods["sandbox-b"])
    assert host.free()[0] == FREE - 200 * MI


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [("none", "0-1"), ("best-effort", "0-1"), ("restricted", "0"), ("single-numa-node", "0")],
)
def test_the_policy_decides_about_more_nodes(new_host: NewHost, policy: str, nodes: str) -> None:
    """The new size would fit on one larger node, so two are not preferred."""
    machine = Machine((NumaNode(0, GI), NumaNode(1, GI), NumaNode(2, 4 * GI)))
    reserved = (Reservation(0, {"memory": 64 * MI}),)
    host = new_host(Policy(reserved_memory=reserved, topology_manager_policy=policy), machine)
    host.create(host.run("a"))
    update(host, 1200 * MI)
    assert host.placed() == {"a": {"main": nodes}}


def test_restricted_admits_the_fewest_nodes(new_host: NewHost) -> None:
    host = new_host(Policy(topology_manager_policy="restricted"))
    host.create(host.run("a"))
    update(host, 1200 * MI)
    assert host.placed() == {"a": {"main": "0-1"}}


def test_an_ended_container_moves_with_the_resized_one(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, "init", memory=300 * MI)
    host.stop(host.newest("init"))
    host.create(pod, "main", memory=100 * MI)
    assert update(host, 1200 * MI).updates == (Update(host.newest().container_id, "0-1"),)
    assert host.placed() == {"a": {"main": "0-1", "init": "0-1"}}
    assert sum(host.free()) == 4 * FREE - 1400 * MI


def remedies_of(plan: Answer) -> list[object]:
    (record,) = plan.records
    remedies = fields_of(record)["remedies"]
    assert isinstance(remedies, list)
    return [*remedies]


def test_following_a_remedy_admits_the_resize(host: Host) -> None:
    """Without the other pod the container gets a second node."""
    end, less = remedies_of(crowded_update(host))
    assert end == {"kind": "empty_nodes", "text": "end the pods on NUMA node 0", "nodes": "0"}
    assert less == {
        "kind": "request_less",
        "text": "request at most 728Mi",
        "bytes": {"memory": 728 * MI},
    }
    container, pod = host.newest(), host.pods["sandbox-b"]
    assert host.handle(events.UpdateContainer(pod, container, 728 * MI)).refusal is None
    host.handle(events.StopPodSandbox(host.pods["sandbox-a"]))
    assert host.handle(events.UpdateContainer(pod, container, 1200 * MI)).refusal is None


def test_room_on_its_nodes_admits_the_resize(new_host: NewHost) -> None:
    """A strict policy admits no second node."""
    host = new_host(Policy(topology_manager_policy="single-numa-node"))
    host.create(host.run("a"))
    host.create(host.run("b"))
    container, pod = host.newest(), host.pods["sandbox-b"]
    size = 728 * MI + 100 * MI
    refused = host.handle(events.UpdateContainer(pod, container, size))
    room, _less = remedies_of(refused)
    short = fields_of(refused.records[0])["shortfall_bytes"]
    text = "make room on NUMA node 0: 61Mi"
    assert room == {"kind": "make_room", "text": text, "nodes": "0", "bytes": short}
    host.handle(events.StopPodSandbox(host.pods["sandbox-a"]))
    assert host.handle(events.UpdateContainer(pod, container, size)).updates == ()
    assert host.placed()["b"] == {"main": "0"}


def test_a_resize_beyond_the_host_has_no_remedy_by_other_pods(host: Host) -> None:
    host.create(host.run("a"))
    (less,) = remedies_of(update(host, 1 << 50))
    assert isinstance(less, dict)
    assert less["kind"] == "request_less"


MACHINE = Machine(tuple(NumaNode(n, 4 * GI) for n in (0, 1)))
POD = PodSandbox("s", "uid", "ns", "db", "/kubepods/poduid")
CONTAINER = Container("id", "s", "main", GI)


def resized(new_bytes: int, policy: Policy) -> tuple[Record, str | None]:
    engine = Engine(Context.of(MACHINE, policy))
    engine.apply(RunPodSandbox(POD))
    engine.apply(CreateContainer(POD, CONTAINER))
    applied = engine.apply(UpdateContainer(POD, CONTAINER, new_bytes))
    (record,) = applied.records
    return record, applied.plan.refusal


def test_a_limit_that_fits() -> None:
    record, _ = resized(2 * GI, Policy())
    assert (record.event, record.level) == ("resized", "info")
    assert fields_of(record)["previous_memory_bytes"] == GI
    assert fields_of(record)["candidates"] == [{"nodes": "0", "rule": "chosen", "reason": "chosen"}]
    assert "adjustment" not in fields_of(record)


def test_a_limit_that_needs_more_nodes() -> None:
    record, _ = resized(6 * GI, Policy())
    assert (fields_of(record)["previous_nodes"], fields_of(record)["nodes"]) == ("0", "0-1")
    assert fields_of(record)["candidates"] == [
        {"nodes": "0", "rule": "not_enough_free", "reason": "not enough free"},
        {"nodes": "0-1", "rule": "chosen", "reason": "chosen"},
    ]
    assert fields_of(record)["adjustment"] == {"cpuset_mems": "0-1"}


@pytest.mark.parametrize("when_unsatisfiable", ["Reject", "RunUnpinned"])
def test_a_limit_that_fits_nowhere(when_unsatisfiable: str) -> None:
    record, refusal = resized(9 * GI, Policy(when_unsatisfiable=when_unsatisfiable))
    assert record.level == "warning"
    assert fields_of(record)["shortfall_bytes"]
    if when_unsatisfiable == "Reject":
        assert record.event == "resize_rejected"
        assert refusal is not None
        assert refusal.startswith("numamem: container main of pod ns/db cannot be resized to ")
        reason = {"rule": "not_enough_free", "reason": "5.05Gi short"}
        assert {"nodes": "0", **reason} in list_of(record)
    else:
        assert (record.event, refusal) == ("resized", None)


def list_of(record: Record) -> list[object]:
    listed = fields_of(record)["candidates"]
    assert isinstance(listed, list)
    return [*listed]


def test_a_limit_that_fits_nowhere_even_without_the_other_pods() -> None:
    engine = Engine(Context.of(MACHINE, Policy()))
    other = PodSandbox("s2", "uid2", "ns", "web", "/kubepods/poduid2")
    engine.apply(CreateContainer(other, Container("id2", "s2", "main", GI)))
    engine.apply(CreateContainer(POD, CONTAINER))
    (record,) = engine.apply(UpdateContainer(POD, CONTAINER, 9 * GI)).records
    remedies = fields_of(record)["remedies"]
    assert isinstance(remedies, list)
    assert [remedy["kind"] for remedy in remedies] == ["request_less"]


def test_the_text_of_a_resize_is_short_on_64_nodes() -> None:
    nodes = tuple(NumaNode(n, (4 * GI) + n, cpus=CpuSet([n])) for n in range(64))
    engine = Engine(Context.of(Machine(nodes), Policy()))
    pod = PodSandbox("s", "uid", "n" * 63, "p" * 253, "/kubepods/poduid")
    container = Container("id", "s", "c" * 63, 250 * GI)
    engine.apply(CreateContainer(pod, container))
    text = engine.apply(UpdateContainer(pod, container, 900 * GI)).plan.refusal
    assert text is not None
    assert len(text) <= 880
    assert "(at most 1.9Gi free on one node)" in text
    assert "; remedy: request at most " in text
