"""Scope pod: a pod's sum is placed at once, and its containers share the nodes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Adjustment, Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Reservation
from nri_numamem.memorymanager.holder import HolderKind
from tests.engine.conftest import Answer

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 16 * PAGE  # of an empty node
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
SETTINGS = Policy(reserved_memory=RESERVED, topology_manager_scope="pod")


@pytest.fixture
def pods(new_host: NewHost) -> Host:
    return new_host(SETTINGS)


def events_of(plan: Answer) -> list[str]:
    return [record.event for record in plan.records]


def used(host: Host) -> list[int]:
    return [FREE - free for free in host.free()]


def restarted(host: Host, new_host: NewHost, settings: Policy = SETTINGS) -> Host:
    """Return the host with a new plugin process without a state file."""
    fresh = new_host(settings)
    fresh.pods, fresh.containers = host.pods, host.containers
    return fresh


def test_the_pods_request_is_placed_when_the_sandbox_starts(pods: Host) -> None:
    pods.run("a", memory=1200 * MI, hugepages={PAGE: 4 * PAGE, 1 << 30: 0})
    (record,) = pods.ran.records
    assert (record.event, record.level) == ("pod_admitted", "info")
    assert fields_of(record)["request_bytes"] == {"memory": 1200 * MI, "hugepages-2Mi": 4 * PAGE}
    assert fields_of(record)["nodes"] == "0-1"
    assert "container" not in fields_of(record)
    assert sum(used(pods)) == 1200 * MI


def test_the_containers_reuse_the_pool(pods: Host) -> None:
    pod = pods.run("a", memory=1200 * MI)
    for name, memory in (("one", 900), ("two", 200), ("three", 100)):
        assert pods.create(pod, name, memory * MI).adjustment == Adjustment("0-1")
        assert sum(used(pods)) == 1200 * MI
    assert pods.placed()["a"] == dict.fromkeys(["", "one", "two", "three"], "0-1")


def test_in_container_scope_a_sandbox_places_nothing(host: Host) -> None:
    pod = host.run("a", memory=1200 * MI)
    assert host.ran == Answer()
    assert host.create(pod, "one", 200 * MI).adjustment == Adjustment("0")


def test_app_containers_reuse_what_init_containers_had(pods: Host) -> None:
    pod = pods.run("a", memory=500 * MI)
    assert pods.create(pod, "init", 300 * MI).adjustment == Adjustment("0")
    pods.stop(pods.newest("init"))
    for name in ("one", "two"):
        assert pods.create(pod, name, 250 * MI).adjustment == Adjustment("0")
    assert used(pods)[0] == 500 * MI


def test_the_pods_hugepages_are_in_the_pool(pods: Host) -> None:
    pod = pods.run("a", memory=400 * MI, hugepages={PAGE: 10 * PAGE})
    assert pods.free("hugepages-2Mi")[0] == 6 * PAGE
    for name in ("one", "two"):
        plan = pods.create(pod, name)
        assert plan.adjustment is not None
        assert plan.adjustment.cpuset_mems == "0"
        assert plan.adjustment.hugepage_limits == {PAGE: 10 * PAGE}
    assert pods.free("hugepages-2Mi")[0] == 6 * PAGE


def test_more_than_the_sum_is_placed_on_the_pods_nodes_or_rejected(pods: Host) -> None:
    """A container may have been resized; its pod's limit was not known to change."""
    other = pods.run("other", memory=400 * MI)
    pods.create(other, "main", 400 * MI)
    pod = pods.run("a", memory=300 * MI)
    assert pods.create(pod, "one", 500 * MI).adjustment == Adjustment("0")
    assert used(pods)[0] == 900 * MI
    pods.stop(pods.newest("one"))
    refusal = pods.create(pod, "one", 600 * MI).refusal or ""
    assert "UnexpectedAdmissionError: " in refusal


def test_the_end_of_the_sandbox_releases_the_pool(pods: Host) -> None:
    idle = pods.run("idle", memory=500 * MI)
    (record,) = pods.stop_pod(idle).records
    assert (record.event, fields_of(record)["containers"]) == ("pod_released", [])
    busy = pods.run("busy", memory=500 * MI)
    pods.create(busy, memory=100 * MI)
    (record,) = pods.stop_pod(busy).records
    assert fields_of(record)["containers"] == ["main"]
    assert used(pods) == [0] * 4
    assert pods.engine.state.holders == {}


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, topology_manager_policy="none"),
        replace(SETTINGS, memory_manager_policy="None"),
    ],
    ids=["topology-none", "memory-none"],
)
def test_without_a_policy_there_is_no_scope(new_host: NewHost, settings: Policy) -> None:
    host = new_host(settings)
    host.run("a", memory=500 * MI)
    assert host.ran == Answer()


def test_other_pods_have_no_pool(pods: Host) -> None:
    pods.run("a", "burstable/", memory=500 * MI)
    assert pods.ran == Answer()
    pods.run("", memory=500 * MI)
    assert pods.ran == Answer()


def test_without_a_sum_containers_are_placed_one_by_one(pods: Host) -> None:
    for memory in (None, 0):
        pod = pods.run(f"a{memory}", memory=memory)
        assert pods.ran == Answer()
        assert pods.create(pod, memory=100 * MI).adjustment == Adjustment("0")


def test_a_pod_that_does_not_fit_is_refused_at_its_first_container_and_may_retry(
    pods: Host,
) -> None:
    other = pods.run("other", memory=3500 * MI)
    pod = pods.run("a", memory=500 * MI)
    (record,) = pods.ran.records
    assert (record.event, record.level) == ("pod_rejected", "warning")
    assert fields_of(record)["reason"] == "UnexpectedAdmissionError"
    for _ in range(2):
        plan = pods.create(pod, memory=100 * MI)
        assert events_of(plan) == ["rejected"]
        assert plan.refusal is not None
        assert plan.refusal.startswith("numamem: container main of pod ns/pod-a refused, ")
        assert "requested the whole pod's memory 500Mi" in plan.refusal
    assert pods.engine.state.blocks(("a", "")) is None
    pods.stop_pod(other)
    assert pods.create(pod, memory=100 * MI).adjustment == Adjustment("0")
    assert used(pods)[0] == 500 * MI


def test_a_pod_that_does_not_fit_may_run_unpinned(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, when_unsatisfiable="RunUnpinned"))
    host.run("other", memory=3500 * MI)
    pod = host.run("a", memory=500 * MI)
    plan = host.create(pod, memory=100 * MI)
    assert plan.adjustment is None
    assert plan.refusal is None
    assert events_of(plan) == ["unpinned_no_capacity"]


def test_a_recreated_sandbox_keeps_the_pool(pods: Host) -> None:
    """The event of the old sandbox's end arrives late."""
    old = pods.run("a", memory=500 * MI, sandbox="old")
    pods.create(old, memory=100 * MI, container_id="old-main")
    new = pods.run("a", memory=500 * MI, sandbox="new")
    assert pods.ran == Answer()
    pods.create(new, memory=100 * MI, container_id="new-main")
    assert used(pods)[0] == 600 * MI  # the old container still runs
    assert events_of(pods.remove_pod(old)) == ["pod_released"]
    assert used(pods)[0] == 500 * MI
    pods.stop_pod(new)
    assert used(pods) == [0] * 4


def test_a_pod_whose_containers_are_placed_gets_no_pool(pods: Host) -> None:
    """Its containers were placed one by one, because its first sandbox had no sum."""
    old = pods.run("a", sandbox="old")
    pods.create(old, "one", 500 * MI)
    new = pods.run("a", memory=700 * MI, sandbox="new")
    assert pods.ran == Answer()
    pods.create(new, "two", 200 * MI)
    assert used(pods)[0] == 700 * MI


def test_nodes_that_another_plugin_set_use_the_pool(pods: Host) -> None:
    pod = pods.run("a", memory=500 * MI)
    assert pods.create(pod, "one", 300 * MI, mems="2").adjustment is None
    assert used(pods) == [200 * MI, 0, 300 * MI, 0]
    pods.create(pod, "two", 200 * MI)
    assert used(pods) == [200 * MI, 0, 300 * MI, 0]
    one_by_one = pods.run("b")
    pods.create(one_by_one, "one", 300 * MI, mems="3")
    assert used(pods) == [200 * MI, 0, 300 * MI, 300 * MI]


def test_a_restart_of_the_runtime_keeps_pools(pods: Host) -> None:
    pods.run("idle", memory=500 * MI)
    busy = pods.run("busy", memory=1200 * MI)
    pods.create(busy, "init", 300 * MI)
    pods.stop(pods.newest("init"))
    pods.create(busy, "main", 900 * MI)
    before = (pods.placed(), used(pods))
    assert events_of(pods.synchronize())[-1] == "synchronized"
    assert (pods.placed(), used(pods)) == before
    pods.pods.clear()
    pods.containers.clear()
    pods.synchronize()
    assert used(pods) == [0] * 4


def test_a_new_process_rebuilds_pools_from_containers(pods: Host, new_host: NewHost) -> None:
    # Two containers first, so that both processes charge the lower node.
    pod = pods.run("a", memory=1200 * MI)
    pods.create(pod, "one", 700 * MI)
    pods.create(pod, "two", 400 * MI)
    pods.run("idle", memory=500 * MI)
    fresh = restarted(pods, new_host)
    assert fresh.synchronize().updates == ()
    assert fresh.placed() == {"a": dict.fromkeys(["one", "two", ""], "0-1")}
    assert sum(used(fresh)) == 1200 * MI
    # A pod without containers may have ended; if it has not, its first container places it.
    idle = pods.pods["sandbox-idle"]
    assert fresh.create(idle, memory=100 * MI).adjustment == Adjustment("2")
    assert sum(used(fresh)) == 1700 * MI


def test_of_two_sandboxes_the_one_with_containers_has_the_pool(
    pods: Host, new_host: NewHost
) -> None:
    pods.run("a", memory=500 * MI, sandbox="0-old")
    pod = pods.run("a", memory=500 * MI, sandbox="1-new")
    pods.create(pod, memory=100 * MI)
    fresh = restarted(pods, new_host)
    fresh.synchronize()
    assert used(fresh)[0] == 500 * MI
    assert fresh.engine.state.holders["a", HolderKind.POD].sandbox_id == "1-new"


def test_containers_on_different_nodes_are_kept_without_a_pool(
    host: Host, new_host: NewHost
) -> None:
    """They were placed in scope container."""
    pod = host.run("a", memory=1500 * MI)
    host.create(pod, "one", 700 * MI)
    host.create(pod, "two", 700 * MI)
    fresh = restarted(host, new_host)
    fresh.synchronize()
    assert fresh.placed() == {"a": {"one": "0", "two": "1"}}
    assert fresh.create(pod, "three", 100 * MI).adjustment == Adjustment("0")


def test_a_pool_that_no_longer_fits_is_recorded(pods: Host, new_host: NewHost) -> None:
    pod = pods.run("a", memory=800 * MI)
    pods.create(pod, memory=100 * MI)
    pods.run("other", memory=500 * MI)
    fresh = restarted(pods, new_host)
    other = replace(pods.newest(), container_id="x", name="x", sandbox_id="sandbox-other")
    fresh.containers["x"] = replace(other, memory_limit_bytes=500 * MI)
    plan = fresh.synchronize()
    (record,) = (record for record in plan.records if record.event == "pod_adopted")
    assert record.level == "warning"
    assert fields_of(record)["nodes"] == "0"
    assert fields_of(record)["shortfall_bytes"] == {"memory": 800 * MI + 500 * MI - FREE}


def test_a_container_created_while_disconnected_uses_its_pods_nodes(pods: Host) -> None:
    pod = pods.run("a", memory=500 * MI)
    pods.create(pod, "one", 100 * MI)
    unseen = replace(pods.newest("one"), container_id="unseen", name="two", cpuset_mems="")
    pods.containers["unseen"] = unseen
    plan = pods.synchronize()
    assert plan.updates == (Update("unseen", "0"),)
    assert used(pods)[0] == 500 * MI


class Life:
    """Pods with one to four containers, which start, restart and end by chance."""

    def __init__(self, host: Host, chance: random.Random) -> None:
        self.host = host
        self.chance = chance
        self.missing: dict[str, list[int]] = {}
        """Sandbox id -> sizes of the containers that are still to be created."""

    def start(self) -> None:
        count = self.chance.randrange(1, 5)
        sizes = [self.chance.randrange(20, 500) * MI for _ in range(count)]
        number = self.chance.getrandbits(64)
        pod = self.host.run(f"p{number}", memory=sum(sizes))
        self.missing[pod.sandbox_id] = sizes

    def create(self) -> None:
        sandbox_id = self.chance.choice(sorted(self.missing))
        sizes = self.missing[sandbox_id]
        if sizes:
            pod = self.host.pods[sandbox_id]
            if self.host.create(pod, f"c{len(sizes)}", sizes[-1]).refusal is None:
                sizes.pop()

    def restart(self) -> None:
        ended = self.host.containers[self.chance.choice(sorted(self.host.containers))]
        self.host.stop(ended)
        pod = self.host.pods[ended.sandbox_id]
        again = self.host.create(pod, ended.name, ended.memory_limit_bytes)
        assert again.adjustment == Adjustment(ended.cpuset_mems)

    def end(self) -> None:
        sandbox_id = self.chance.choice(sorted(self.missing))
        del self.missing[sandbox_id]
        pod = self.host.pods[sandbox_id]
        self.host.stop_pod(pod)
        self.host.remove_pod(pod)
        for container in list(self.host.containers.values()):
            if container.sandbox_id == sandbox_id:
                del self.host.containers[container.container_id]

    def reconnect(self) -> None:
        before = used(self.host)
        assert self.host.synchronize().updates == ()
        assert sum(used(self.host)) == sum(before)

    def step(self) -> None:
        steps = [self.start, self.start, self.reconnect]
        if self.missing:
            steps += [self.create] * 3 + [self.end]
        if self.host.containers:
            steps.append(self.restart)
        self.chance.choice(steps)()


@pytest.mark.parametrize("seed", range(12))
def test_all_containers_of_a_pod_share_their_nodes(seed: int, new_host: NewHost) -> None:
    life = Life(new_host(SETTINGS), random.Random(seed))
    shared = 0
    for _ in range(120):
        life.step()
        for containers in life.host.placed().values():
            assert len(set(containers.values())) == 1
            shared += len(containers) > 2
        given: dict[str, set[str]] = {}
        for container in life.host.containers.values():
            given.setdefault(container.sandbox_id, set()).add(container.cpuset_mems)
        assert all(len(nodes) == 1 for nodes in given.values())
    assert shared > 20


def test_a_resize_within_the_sum_uses_the_pool(pods: Host) -> None:
    pod = pods.run("a", memory=800 * MI)
    pods.create(pod, "one", 300 * MI)
    grown = events.UpdateContainer(pod, pods.newest("one"), 500 * MI)
    assert pods.handle(grown).updates == ()
    assert used(pods) == [800 * MI, 0, 0, 0]
    shrunk = events.UpdateContainer(pod, pods.newest("one"), 100 * MI)
    pods.handle(shrunk)
    assert used(pods) == [800 * MI, 0, 0, 0]
    assert pods.create(pod, "two", 700 * MI).adjustment == Adjustment("0")


def test_a_resize_beyond_the_node_moves_the_pool(pods: Host) -> None:
    pod = pods.run("a", memory=800 * MI)
    pods.create(pod, "one", 300 * MI)
    event = events.UpdateContainer(pod, pods.newest("one"), 1100 * MI)
    assert pods.handle(event).updates == (Update(pods.newest("one").container_id, "0-1"),)
    assert sum(used(pods)) == 1100 * MI
    assert pods.placed() == {"a": {"one": "0-1", "": "0-1"}}
    assert pods.create(pod, "two", 100 * MI).adjustment == Adjustment("0-1")
