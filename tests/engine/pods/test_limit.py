"""What a pod's live and ended containers hold never exceeds the pod's limit."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Block, Reservation, check_accounting
from nri_numamem.memorymanager.holder import container_name
from nri_numamem.numa import NodeSet
from tests.engine.operations import count_operations

if TYPE_CHECKING:
    from nri_numamem.engine.core.state import EngineState
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 16 * PAGE  # of an empty node
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))


def held(host: Host, uid: str = "a") -> dict[str, int]:
    """Return container -> MiB that it holds, live or ended."""
    containers = host.engine.state.accounting.assignments.get(uid, {})
    return {container_name(name): blocks[0].size // MI for name, blocks in containers.items()}


def used(host: Host) -> list[int]:
    return [(FREE - free) // MI for free in host.free()]


def run_init(host: Host, pod: events.PodSandbox, memory: int, cpus: str = "0-3") -> None:
    """Let an init container run to its end."""
    assert host.create(pod, "init", memory * MI, cpus=cpus).refusal is None
    host.stop(host.newest("init"))


def test_what_exceeds_the_limit_is_released(host: Host) -> None:
    """The init container is larger than the app, which has CPUs near another node."""
    pod = host.run("a", memory=500 * MI)
    run_init(host, pod, 500)
    host.create(pod, "app", 300 * MI, cpus="4-7")
    assert held(host) == {"init": 200, "app": 300}
    assert used(host) == [200, 300, 0, 0]


def test_a_container_that_holds_nothing_any_more_is_forgotten(host: Host) -> None:
    """The init container is smaller than the app."""
    pod = host.run("a", memory=300 * MI)
    run_init(host, pod, 200)
    answer = host.create(pod, "app", 300 * MI, cpus="4-7")
    assert held(host) == {"app": 300}
    assert list(host.engine.state.holders) == [("a", "app")]
    assert len(host.engine.state.keys) == 1
    (record,) = answer.records
    assert fields_of(record)["released_bytes"] == {"memory": 200 * MI}
    assert used(host) == [0, 300, 0, 0]
    assert fields_of(host.stop_pod(pod).records[0])["containers"] == ["app"]


def test_on_the_same_nodes_ended_memory_is_reused_before_it_is_released(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    run_init(host, pod, 500)
    answer = host.create(pod, "one", 300 * MI)
    assert "released_bytes" not in fields_of(answer.records[0])
    assert held(host) == {"init": 200, "one": 300}
    host.create(pod, "two", 200 * MI)
    assert held(host) == {"init": 0, "one": 300, "two": 200}
    assert used(host) == [500, 0, 0, 0]


def test_below_the_limit_everything_stays_reserved(host: Host) -> None:
    pod = host.run("a", memory=800 * MI)
    run_init(host, pod, 300)
    host.create(pod, "app", 500 * MI, cpus="4-7")
    assert held(host) == {"init": 300, "app": 500}


def test_without_a_limit_everything_stays_reserved(host: Host) -> None:
    pod = host.run("a")
    run_init(host, pod, 300)
    host.create(pod, "app", 500 * MI, cpus="4-7")
    assert held(host) == {"init": 300, "app": 500}


def test_a_sidecar_counts_with_the_containers_that_run_beside_it(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "sidecar", 100 * MI)
    run_init(host, pod, 300)
    assert held(host) == {"sidecar": 100, "init": 300}
    host.create(pod, "app", 250 * MI, cpus="4-7")
    assert held(host) == {"sidecar": 100, "init": 50, "app": 250}


def test_an_app_that_crashes_before_its_sibling_is_created_keeps_its_memory(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    host.create(pod, "one", 300 * MI)
    host.stop(host.newest("one"))
    host.create(pod, "two", 200 * MI, cpus="4-7")
    assert held(host) == {"one": 300, "two": 200}
    host.create(host.run("b"), "main", FREE - 400 * MI)  # fits on node 2, not on node 0
    answer = host.create(pod, "one", 300 * MI)
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0"
    assert held(host) == {"one": 300, "two": 200}


def test_init_containers_run_again_in_a_new_sandbox(host: Host) -> None:
    old = host.run("a", memory=500 * MI, sandbox="old")
    run_init(host, old, 500)
    host.create(old, "app", 400 * MI, cpus="4-7")
    host.stop(host.newest("app"))
    assert held(host) == {"init": 100, "app": 400}
    new = host.run("a", memory=500 * MI, sandbox="new")
    run_init(host, new, 500)
    assert held(host) == {"init": 500}
    assert host.remove_pod(old).records == ()
    host.create(new, "app", 400 * MI, cpus="4-7")
    assert held(host) == {"init": 100, "app": 400}
    host.stop_pod(new)
    assert used(host) == [0] * 4


def test_the_oldest_is_released_first(host: Host) -> None:
    pod = host.run("a", memory=300 * MI)
    for name, cpus in (("one", "0-3"), ("two", "4-7")):
        host.create(pod, name, 150 * MI, cpus=cpus)
    for name in ("two", "one"):
        host.stop(host.newest(name))
    host.create(pod, "three", 200 * MI, cpus="8-11")
    assert held(host) == {"one": 100, "three": 200}


def test_released_memory_counts_for_the_placement(host: Host) -> None:
    """The app needs two nodes; the init container's node would keep it from a group."""
    for node, memory in ((2, 900), (3, 900)):
        host.create(host.run(f"full-{node}"), "main", memory * MI, cpus=f"{4 * node}")
    pod = host.run("a", memory=1500 * MI)
    run_init(host, pod, 400)
    answer = host.create(pod, "app", 1500 * MI)
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0-1"
    assert held(host) == {"app": 1500}


def test_a_rejected_container_releases_nothing(host: Host) -> None:
    for node in range(1, 4):
        host.create(host.run(f"full-{node}"), "main", 500 * MI, cpus=f"{4 * node}")
    pod = host.run("a", memory=1100 * MI)
    run_init(host, pod, 400)
    assert host.create(pod, "app", 1050 * MI).refusal is not None
    assert held(host) == {"init": 400}


def test_hugepages_are_released_by_their_own_limit(host: Host) -> None:
    pod = host.run("a", memory=500 * MI, hugepages={PAGE: 6 * PAGE})
    host.create(pod, "init", 200 * MI, hugepages={PAGE: 6 * PAGE})
    host.stop(host.newest("init"))
    host.create(pod, "app", 300 * MI, hugepages={PAGE: 4 * PAGE}, cpus="4-7")
    blocks = host.engine.state.accounting.assignments["a"]["init"]
    assert blocks == (
        Block(NodeSet([0]), "memory", 200 * MI),
        Block(NodeSet([0]), "hugepages-2Mi", 2 * PAGE),
    )
    assert host.free("hugepages-2Mi") == [14 * PAGE, 12 * PAGE, 16 * PAGE, 16 * PAGE]


def test_a_resized_container_leaves_less_for_ended_ones(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    run_init(host, pod, 500)
    host.create(pod, "app", 300 * MI, cpus="4-7")
    host.resize(host.newest("app"), 450 * MI, limit=500 * MI)
    assert held(host) == {"init": 50, "app": 450}
    host.resize(host.newest("app"), 600 * MI, limit=600 * MI)
    assert held(host) == {"app": 600}


def test_a_smaller_limit_of_the_pod_releases_memory(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    run_init(host, pod, 500)
    assert host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=400 * MI))).is_noop
    assert held(host) == {"init": 400}
    assert host.engine.state.pods[pod.sandbox_id].memory_limit_bytes == 400 * MI


def test_an_update_of_an_unknown_pod_changes_nothing(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    host.stop_pod(pod)
    host.handle(events.UpdatePodSandbox(pod))
    assert host.engine.state.pods == {}


def test_a_new_limit_changes_the_pool(new_host: NewHost) -> None:
    host = new_host(Policy(reserved_memory=RESERVED, topology_manager_scope="pod"))
    pod = host.run("a", memory=500 * MI)
    host.create(pod, "one", 200 * MI)
    host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=600 * MI)))
    assert held(host) == {"": 400, "one": 200}
    host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=150 * MI)))
    assert held(host) == {"": 0, "one": 200}
    assert host.placed()["a"] == {"": "0", "one": "0"}


def test_a_container_with_nodes_of_its_own_releases_memory(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    run_init(host, pod, 500)
    host.create(pod, "app", 300 * MI, mems="2")
    assert held(host) == {"init": 200, "app": 300}


def test_a_container_that_was_not_reported_releases_memory(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    run_init(host, pod, 500)
    found = events.Container("x1", pod.sandbox_id, "x1", 300 * MI, cgroup_mems=NodeSet([2]))
    host.handle(events.ContainersFound(((pod, found),)))
    assert held(host) == {"init": 200, "x1": 300}
    unset = events.Container("x2", pod.sandbox_id, "x2", 200 * MI, cpuset_cpus="4-7")
    host.handle(events.ContainersFound(((pod, unset),)))
    assert held(host) == {"x1": 300, "x2": 200}


def test_a_synchronize_releases_memory(host: Host) -> None:
    """A container was created while the plugin was away."""
    pod = host.run("a", memory=500 * MI)
    run_init(host, pod, 500)
    host.run("b", memory=100 * MI)
    missed = events.Container("c9", pod.sandbox_id, "app", 300 * MI, cpuset_mems="1")
    host.containers["c9"] = missed
    smaller = replace(pod, sandbox_id="older", memory_limit_bytes=10 * MI)
    host.pods["older"] = smaller
    host.synchronize()
    assert held(host) == {"app": 300, "init": 200}


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("seed", range(10))
def test_no_pod_holds_more_than_its_limit(new_host: NewHost, scope: str, seed: int) -> None:
    random = Random(seed)
    host = new_host(Policy(reserved_memory=RESERVED, topology_manager_scope=scope))
    limits = {uid: random.choice((300, 700, 1200)) for uid in "abcd"}
    pods: dict[str, events.PodSandbox] = {}
    for step in range(150):
        uid = random.choice("abcd")
        chance = random.random()
        running = [c for c in host.containers.values() if uid in pods]
        running = [c for c in running if c.sandbox_id == pods[uid].sandbox_id]
        if uid not in pods:
            pods[uid] = host.run(uid, memory=limits[uid] * MI, sandbox=f"{uid}{step}")
        elif chance < 0.5:
            live = sum(c.memory_limit_bytes or 0 for c in running)
            memory = min(random.choice((50, 200, 400, 900)) * MI, limits[uid] * MI - live)
            if memory > 0:
                cpus = f"{random.randrange(16)}"
                host.create(pods[uid], f"c{random.randrange(6)}-{step}", memory, cpus=cpus)
        elif chance < 0.85 and running:
            host.stop(random.choice(running))
        elif chance < 0.9:
            host.synchronize()
        elif chance > 0.95:
            host.stop_pod(pods[uid])
            del host.pods[pods.pop(uid).sandbox_id]
            for container in running:
                del host.containers[container.container_id]
        check_limits(host.engine.state, limits)


def check_limits(state: EngineState, limits: dict[str, int]) -> None:
    assert check_accounting(state.accounting) == ()
    for uid, containers in state.accounting.assignments.items():
        sizes = [block.size for blocks in containers.values() for block in blocks]
        assert sum(sizes) <= limits[uid] * MI
        assert all((uid, name) in state.holders for name in containers)
    for pod in state.pods.values():
        assert pod_limit.excess(state, pod) == {}


def test_the_oldest_ended_containers_beyond_the_limit_are_released(host: Host) -> None:
    pod = host.run("a", memory=900 * MI)
    host.create(pod, "app", 100 * MI)
    for number in range(pod_limit.ENDED_LIMIT + 3):
        host.create(pod, f"init-{number}", MI, cpus="0-3")
        host.stop(host.newest(f"init-{number}"))
    kept = {f"init-{number}" for number in range(3, pod_limit.ENDED_LIMIT + 3)}
    assert held(host).keys() == kept | {"app"}
    assert {name for _, name in host.engine.state.holders} == kept | {"app"}
    assert len(host.engine.state.keys) == pod_limit.ENDED_LIMIT + 1
    assert check_accounting(host.engine.state.accounting) == ()
    host.stop_pod(pod)
    assert used(host) == [0, 0, 0, 0]


def test_a_creation_does_not_slow_down_with_the_number_of_ended_containers(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    counts: list[int] = []
    for number in range(3 * pod_limit.ENDED_LIMIT):
        name = f"init-{number:04}"

        def run(name: str = name) -> None:
            host.create(pod, name, 100 * MI)
            host.stop(host.newest(name))

        if number % pod_limit.ENDED_LIMIT == pod_limit.ENDED_LIMIT - 1:
            counts.append(count_operations(run))
        else:
            run()
    assert counts[2] <= 1.02 * counts[1]
    assert counts[1] <= 1.1 * counts[0]
