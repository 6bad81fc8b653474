"""Scope pod: a pod's sum is placed at once, and its containers share the nodes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine import events
from nri_numamem.engine.plan import Adjustment, Plan, Update
from nri_numamem.engine.settings import MemoryReservation, Settings

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 16 * PAGE  # of an empty node
RESERVED = tuple(MemoryReservation(node, {"memory": 64 * MI}) for node in range(4))
SETTINGS = Settings(reserved_memory=RESERVED, topology_manager_scope="pod")
RESTRICTED = replace(SETTINGS, topology_manager_policy="restricted")
SINGLE = replace(SETTINGS, topology_manager_policy="single-numa-node")


@pytest.fixture
def pods(new_host: NewHost) -> Host:
    return new_host(SETTINGS)


def events_of(plan: Plan) -> list[str]:
    return [record.event for record in plan.records]


def used(host: Host) -> list[int]:
    return [FREE - free for free in host.free()]


def restarted(host: Host, new_host: NewHost, settings: Settings = SETTINGS) -> Host:
    """Return the host with a plugin that knows nothing but what the runtime tells."""
    fresh = new_host(settings)
    fresh.pods, fresh.containers = host.pods, host.containers
    return fresh


def test_the_sum_is_placed_when_the_sandbox_starts(pods: Host) -> None:
    pods.run("a", memory=1200 * MI, hugepages={PAGE: 4 * PAGE, 1 << 30: 0})
    (record,) = pods.ran.records
    assert (record.event, record.level) == ("pod admitted", "info")
    assert record.fields["request"] == {"memory": 1200 * MI, "hugepages-2Mi": 4 * PAGE}
    assert record.fields["nodes"] == "0-1"
    assert "container" not in record.fields
    assert sum(used(pods)) == 1200 * MI


def test_the_containers_take_the_sum_over(pods: Host) -> None:
    pod = pods.run("a", memory=1200 * MI)
    for name, memory in (("one", 900), ("two", 200), ("three", 100)):
        assert pods.create(pod, name, memory * MI).adjustment == Adjustment("0-1")
        assert sum(used(pods)) == 1200 * MI
    assert pods.placed()["a"] == dict.fromkeys(["", "one", "two", "three"], "0-1")


def test_in_container_scope_nothing_is_placed_before(host: Host) -> None:
    pod = host.run("a", memory=1200 * MI)
    assert host.ran == Plan()
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


def test_more_than_the_sum_is_given_on_the_pods_nodes_or_not_at_all(pods: Host) -> None:
    """A container may have been resized since; the sum of the sandbox stays as it was."""
    pod = pods.run("a", memory=300 * MI)
    assert pods.create(pod, "one", 600 * MI).adjustment == Adjustment("0")
    assert used(pods)[0] == 600 * MI
    refusal = pods.create(pod, "two", 600 * MI).refusal or ""
    assert "UnexpectedAdmissionError: " in refusal


def test_the_sandboxs_end_releases_the_pool(pods: Host) -> None:
    idle = pods.run("idle", memory=500 * MI)
    (record,) = pods.stop_pod(idle).records
    assert (record.event, record.fields["containers"]) == ("pod released", [])
    busy = pods.run("busy", memory=500 * MI)
    pods.create(busy, memory=100 * MI)
    (record,) = pods.stop_pod(busy).records
    assert record.fields["containers"] == ["main"]
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
def test_without_a_policy_there_is_no_scope(new_host: NewHost, settings: Settings) -> None:
    host = new_host(settings)
    host.run("a", memory=500 * MI)
    assert host.ran == Plan()


def test_other_pods_have_no_pool(pods: Host) -> None:
    pods.run("a", "burstable/", memory=500 * MI)
    assert pods.ran == Plan()
    pods.run("", memory=500 * MI)
    assert pods.ran == Plan()


def test_without_a_sum_containers_are_placed_one_by_one(pods: Host) -> None:
    for memory in (None, 0):
        pod = pods.run(f"a{memory}", memory=memory)
        assert pods.ran == Plan()
        assert pods.create(pod, memory=100 * MI).adjustment == Adjustment("0")


def test_a_pod_that_does_not_fit_is_told_by_its_container_and_may_ask_again(pods: Host) -> None:
    other = pods.run("other", memory=3500 * MI)
    pod = pods.run("a", memory=500 * MI)
    (record,) = pods.ran.records
    assert (record.event, record.level) == ("pod rejected", "warning")
    assert record.fields["reason"] == "UnexpectedAdmissionError"
    for _ in range(2):
        plan = pods.create(pod, memory=100 * MI)
        assert events_of(plan) == ["rejected"]
        assert plan.refusal is not None
        assert plan.refusal.startswith("numamem: container main of pod ns/pod-a refused, ")
        assert "requested memory 500Mi" in plan.refusal
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
    assert events_of(plan) == ["left alone, nothing fits"]


def test_a_sandbox_that_is_made_anew_takes_the_pool_over(pods: Host) -> None:
    """The old sandbox's end is told late."""
    old = pods.run("a", memory=500 * MI, sandbox="old")
    pods.create(old, memory=100 * MI, container_id="old-main")
    new = pods.run("a", memory=500 * MI, sandbox="new")
    assert pods.ran == Plan()
    pods.create(new, memory=100 * MI, container_id="new-main")
    assert pods.remove_pod(old) == Plan()
    assert used(pods)[0] == 500 * MI
    pods.stop_pod(new)
    assert used(pods) == [0] * 4


def test_a_pod_without_a_pool_gets_none_beside_its_containers(pods: Host) -> None:
    """It was placed one by one: its first sandbox did not tell the sum."""
    old = pods.run("a", sandbox="old")
    pods.create(old, "one", 500 * MI)
    new = pods.run("a", memory=700 * MI, sandbox="new")
    assert pods.ran == Plan()
    pods.create(new, "two", 200 * MI)
    assert used(pods)[0] == 700 * MI


def test_what_others_set_is_taken_from_the_pool(pods: Host) -> None:
    pod = pods.run("a", memory=500 * MI)
    assert pods.create(pod, "one", 300 * MI, mems="2").adjustment is None
    assert used(pods) == [200 * MI, 0, 300 * MI, 0]
    pods.create(pod, "two", 200 * MI)
    assert used(pods) == [200 * MI, 0, 300 * MI, 0]
    one_by_one = pods.run("b")
    pods.create(one_by_one, "one", 300 * MI, mems="3")
    assert used(pods) == [200 * MI, 0, 300 * MI, 300 * MI]


def test_the_first_containers_hints_move_the_pod(pods: Host) -> None:
    pod = pods.run("a", memory=500 * MI)
    assert pods.create(pod, "one", 100 * MI, cpus="8").adjustment == Adjustment("2")
    assert used(pods) == [0, 0, 500 * MI, 0]
    assert pods.create(pod, "two", 100 * MI, cpus="0").adjustment == Adjustment("2")


def test_hints_on_a_part_of_the_pods_nodes_leave_it_there(new_host: NewHost) -> None:
    host = new_host(RESTRICTED)
    pod = host.run("a", memory=1200 * MI)
    assert host.create(pod, "one", 100 * MI, cpus="4").adjustment == Adjustment("0-1")


def test_a_pod_that_waited_for_room_is_placed_around_its_hints(new_host: NewHost) -> None:
    host = new_host(RESTRICTED)
    other = host.run("other", memory=3500 * MI)
    pod = host.run("a", memory=1200 * MI)
    host.stop_pod(other)
    # The whole pod needs two nodes, so no hint is preferred together with one CPU's.
    assert host.create(pod, "one", 100 * MI, cpus="4").adjustment == Adjustment("0-1")


@pytest.mark.parametrize("settings", [RESTRICTED, SINGLE], ids=["restricted", "single"])
def test_the_strict_policies_refuse_what_cannot_be_near_its_cpus(
    new_host: NewHost, settings: Settings
) -> None:
    host = new_host(settings)
    full = host.run("full", memory=900 * MI)
    assert host.create(full, cpus="8").adjustment == Adjustment("2")
    first = host.run("a", memory=500 * MI)
    refusal = host.create(first, "one", 100 * MI, cpus="8").refusal or ""
    assert "TopologyAffinityError with cpu on node 2: " in refusal
    assert host.create(first, "one", 100 * MI, cpus="0").adjustment == Adjustment("0")
    refusal = host.create(first, "two", 100 * MI, cpus="4").refusal or ""
    assert refusal.endswith("with Topology locality; the pod's memory is on node 0")


def test_a_restart_of_the_runtime_keeps_the_pools(pods: Host) -> None:
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


def test_a_new_plugin_finds_the_pools_around_the_containers(pods: Host, new_host: NewHost) -> None:
    # Two containers first, so that what was given goes to the lower node in both books.
    pod = pods.run("a", memory=1200 * MI)
    pods.create(pod, "one", 700 * MI)
    pods.create(pod, "two", 400 * MI)
    pods.run("idle", memory=500 * MI)
    fresh = restarted(pods, new_host)
    assert fresh.synchronize().updates == ()
    assert fresh.placed() == {"a": dict.fromkeys(["one", "two", ""], "0-1")}
    assert sum(used(fresh)) == 1200 * MI
    # One without containers may have ended long ago; it asks when it is still there.
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
    assert fresh.engine.state.holders["a", ""].sandbox_id == "1-new"


def test_containers_on_different_nodes_stay_and_have_no_pool(host: Host, new_host: NewHost) -> None:
    """They were placed in scope container."""
    pod = host.run("a", memory=1500 * MI)
    host.create(pod, "one", 700 * MI)
    host.create(pod, "two", 700 * MI)
    fresh = restarted(host, new_host)
    fresh.synchronize()
    assert fresh.placed() == {"a": {"one": "0", "two": "1"}}
    assert fresh.create(pod, "three", 100 * MI).adjustment == Adjustment("0")


def test_a_pool_that_does_not_fit_any_more_is_told(pods: Host, new_host: NewHost) -> None:
    pod = pods.run("a", memory=800 * MI)
    pods.create(pod, memory=100 * MI)
    pods.run("other", memory=500 * MI)
    fresh = restarted(pods, new_host)
    other = replace(pods.newest(), container_id="x", name="x", sandbox_id="sandbox-other")
    fresh.containers["x"] = replace(other, memory_limit_bytes=500 * MI)
    plan = fresh.synchronize()
    (record,) = (record for record in plan.records if record.event == "pod adopted")
    assert record.level == "warning"
    assert record.fields["nodes"] == "0"
    assert record.fields["does_not_fit"] == {"memory": 800 * MI + 500 * MI - FREE}


def test_a_container_that_was_created_meanwhile_joins_its_pod(pods: Host) -> None:
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


def test_a_resize_within_the_sum_is_taken_from_the_pool(pods: Host) -> None:
    pod = pods.run("a", memory=800 * MI)
    pods.create(pod, "one", 300 * MI)
    grown = events.UpdateContainer(pod, pods.newest("one"), 500 * MI)
    assert pods.engine.handle(grown).updates == ()
    assert used(pods) == [800 * MI, 0, 0, 0]
    shrunk = events.UpdateContainer(pod, pods.newest("one"), 100 * MI)
    pods.engine.handle(shrunk)
    assert used(pods) == [800 * MI, 0, 0, 0]
    assert pods.create(pod, "two", 700 * MI).adjustment == Adjustment("0")


def test_a_resize_beyond_the_node_takes_the_pool_along(pods: Host) -> None:
    pod = pods.run("a", memory=800 * MI)
    pods.create(pod, "one", 300 * MI)
    event = events.UpdateContainer(pod, pods.newest("one"), 1100 * MI)
    assert pods.engine.handle(event).updates == (Update(pods.newest("one").container_id, "0-1"),)
    assert sum(used(pods)) == 1100 * MI
    assert pods.placed() == {"a": {"one": "0-1", "": "0-1"}}
    assert pods.create(pod, "two", 100 * MI).adjustment == Adjustment("0-1")
