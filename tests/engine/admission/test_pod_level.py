"""Pod-level resources: containers that share the limit of their pod."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Reservation, check_accounting
from nri_numamem.memorymanager.holder import container_name
from nri_numamem.numa import NodeSet

if TYPE_CHECKING:
    from tests.engine.conftest import Answer, Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 16 * PAGE  # of an empty node
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
SETTINGS = Policy(reserved_memory=RESERVED)


def held(host: Host, uid: str = "a") -> dict[str, int]:
    """Return container -> MiB that it holds, live or ended."""
    containers = host.engine.state.accounting.assignments.get(uid, {})
    return {container_name(name): blocks[0].size // MI for name, blocks in containers.items()}


def used(host: Host) -> list[int]:
    return [(FREE - free) // MI for free in host.free()]


def fill(host: Host, *memory: int) -> None:
    """Let other pods hold this many MiB of each node."""
    for node, size in enumerate(memory):
        if size:
            host.create(host.run(f"other-{node}"), "main", size * MI, cpus=f"{4 * node}")


def mems(answer: Answer) -> str | None:
    assert answer.refusal is None, answer.refusal
    return None if answer.adjustment is None else answer.adjustment.cpuset_mems


def test_limits_above_the_pods_limit_are_charged_once(host: Host) -> None:
    """Three containers of 400Mi in a pod of 400Mi."""
    pod = host.run("a", memory=400 * MI)
    answers = [host.create(pod, name, 400 * MI) for name in ("one", "two", "three")]
    assert [mems(answer) for answer in answers] == ["0", "0", "0"]
    assert held(host) == {"one": 400, "two": 0, "three": 0}
    assert used(host) == [400, 0, 0, 0]
    shares = [fields_of(answer.records[0]).get("shares_pod_memory") for answer in answers]
    assert shares == [None, True, True]


def test_a_container_without_a_limit_gets_the_rest_of_the_pods_limit(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    assert mems(host.create(pod, "one", 100 * MI)) == "0"
    answer = host.create(pod, "two", None)
    assert mems(answer) == "0"
    assert fields_of(answer.records[0])["request_bytes"] == {"memory": 300 * MI}
    assert mems(host.create(pod, "three", 200 * MI)) == "0"
    assert held(host) == {"one": 100, "two": 300, "three": 0}


def test_a_pods_first_container_without_a_limit_gets_all_of_it(host: Host) -> None:
    pod = host.run("a", memory=1500 * MI)
    assert mems(host.create(pod, "one", None)) == "0-1"
    assert mems(host.create(pod, "two", None)) == "0-1"
    assert held(host) == {"one": 1500, "two": 0}


def test_without_a_limit_of_the_pod_such_a_container_is_not_managed(host: Host) -> None:
    answer = host.create(host.run("a"), "one", None)
    assert answer.adjustment is None
    (record,) = answer.records
    assert record.event == "not_managed"
    assert "neither it nor its pod" in str(fields_of(record)["cause"])


def test_without_a_sign_containers_are_placed_as_before(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    assert mems(host.create(pod, "one", 200 * MI)) == "0"
    assert mems(host.create(pod, "two", 200 * MI, cpus="4-7")) == "1"
    assert held(host) == {"one": 200, "two": 200}


def test_memory_stays_shared_when_the_sign_has_ended(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "one", 100 * MI)
    host.create(pod, "two", None)
    host.stop(host.newest("two"))
    host.create(pod, "three", 150 * MI, cpus="4-7")
    assert host.placed()["a"] == {"one": "0", "two": "0", "three": "0"}
    assert held(host) == {"one": 100, "two": 150, "three": 150}
    host.create(pod, "two", None)
    assert held(host) == {"one": 100, "two": 150, "three": 150}


def test_an_init_container_without_a_limit(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "init", None)
    host.stop(host.newest("init"))
    assert mems(host.create(pod, "one", 100 * MI)) == "0"
    assert mems(host.create(pod, "two", None)) == "0"
    assert held(host) == {"init": 0, "one": 100, "two": 300}


def test_containers_of_another_sandbox_are_no_sign(host: Host) -> None:
    """The containers of the old sandbox end soon."""
    old = host.run("a", memory=400 * MI, sandbox="old")
    host.create(old, "one", 400 * MI)
    new = host.run("a", memory=400 * MI, sandbox="new")
    host.create(new, "two", 400 * MI)
    assert held(host) == {"one": 400, "two": 400}


def test_hugepages_are_shared_too(host: Host) -> None:
    pod = host.run("a", memory=400 * MI, hugepages={PAGE: 6 * PAGE})
    host.create(pod, "one", 100 * MI, hugepages={PAGE: 4 * PAGE})
    host.create(pod, "two", None, hugepages={PAGE: 6 * PAGE})
    assert host.free("hugepages-2Mi")[0] == 10 * PAGE


def test_the_nodes_of_the_pod_are_extended(host: Host) -> None:
    """Node 0 has no room for the rest, so the pod's first container gets node 1 as well."""
    pod = host.run("a", memory=1200 * MI)
    assert mems(host.create(pod, "one", 100 * MI)) == "0"
    first = host.newest("one")
    answer = host.create(pod, "two", None)
    assert mems(answer) == "0-1"
    assert answer.updates == (Update(first.container_id, "0-1"),)
    assert first.container_id in host.engine.state.cpusets.unconfirmed
    assert fields_of(answer.records[0])["extended_container_ids"] == [first.container_id]
    assert held(host) == {"one": 100, "two": 1100}
    assert host.placed()["a"] == {"one": "0-1", "two": "0-1"}
    assert sum(used(host)) == 1200


def test_ended_containers_move_with_the_pod(host: Host) -> None:
    pod = host.run("a", memory=1200 * MI)
    host.create(pod, "init", 50 * MI)
    host.create(pod, "one", 100 * MI)
    host.stop(host.newest("init"))
    assert mems(host.create(pod, "two", None)) == "0-1"
    assert sum(used(host)) == 1200
    assert sum(held(host).values()) == 1200


def test_a_pod_that_cannot_be_extended_is_refused(host: Host) -> None:
    """Another pod's container on node 0 keeps that node from every group."""
    fill(host, 500)
    pod = host.run("a", memory=1200 * MI)
    host.create(pod, "one", 100 * MI, cpus="0-3")
    answer = host.create(pod, "two", None)
    assert answer.refusal is not None
    assert answer.updates == ()
    assert held(host) == {"one": 100}


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_a_strict_policy_admits_only_preferred_nodes(new_host: NewHost, policy: str) -> None:
    host = new_host(replace(SETTINGS, topology_manager_policy=policy))
    pod = host.run("a", memory=1200 * MI)
    host.create(pod, "one", 100 * MI)
    answer = host.create(pod, "two", None)
    assert (answer.refusal is None) == (policy == "restricted")


def test_cpus_decide_between_the_nodes_of_the_pod(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "one", 100 * MI, cpus="0-3")
    host.create(pod, "two", 100 * MI, cpus="4-7")
    assert mems(host.create(pod, "three", None, cpus="4-7")) == "1"
    assert mems(host.create(pod, "four", 400 * MI, cpus="8-11")) == "0"


def test_a_strict_policy_needs_a_common_node(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, topology_manager_policy="restricted"))
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "one", 100 * MI, cpus="0-3")
    refusal = host.create(pod, "two", None, cpus="4-7").refusal or ""
    assert "TopologyAffinityError" in refusal
    assert mems(host.create(pod, "two", None, cpus="0-3")) == "0"


def test_in_pod_scope_the_pool_is_shared(new_host: NewHost) -> None:
    host = new_host(replace(SETTINGS, topology_manager_scope="pod"))
    pod = host.run("a", memory=400 * MI)
    assert mems(host.create(pod, "one", 400 * MI)) == "0"
    assert mems(host.create(pod, "two", None)) == "0"
    assert held(host) == {"": 0, "one": 400, "two": 0}
    again = host.run("b", memory=1500 * MI)
    assert mems(host.create(again, "one", None)) == "2-3"
    assert mems(host.create(again, "two", 1000 * MI)) == "2-3"
    assert sum(used(host)) == 1900


def test_a_container_with_nodes_of_its_own_shares_the_limit(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "one", 400 * MI)
    assert host.create(pod, "two", None, mems="2").adjustment is None
    assert held(host) == {"one": 400, "two": 0}
    assert host.placed()["a"] == {"one": "0", "two": "2"}


def test_a_container_that_is_created_again_without_a_stop(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "one", 100 * MI)
    for _ in range(2):
        host.create(pod, "two", None)
        assert held(host) == {"one": 100, "two": 300}


def test_a_container_that_shares_is_resized_within_the_limit(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "one", 300 * MI)
    host.create(pod, "two", 300 * MI)
    assert held(host) == {"one": 300, "two": 100}
    host.resize(host.newest("two"), 400 * MI)
    assert held(host) == {"one": 300, "two": 100}
    host.resize(host.newest("two"), 400 * MI, limit=600 * MI)
    assert held(host) == {"one": 300, "two": 300}


def test_a_container_that_grows_takes_from_those_that_share(host: Host) -> None:
    pod = host.run("a", memory=900 * MI)
    host.create(pod, "one", 100 * MI)
    host.create(pod, "two", None)
    assert held(host) == {"one": 100, "two": 800}
    assert host.resize(host.newest("one"), 300 * MI).updates == ()
    assert held(host) == {"one": 300, "two": 600}
    host.resize(host.newest("one"), 50 * MI)
    assert held(host) == {"one": 50, "two": 850}


def test_a_new_limit_of_the_pod_changes_what_is_shared(host: Host) -> None:
    pod = host.run("a", memory=500 * MI)
    host.create(pod, "one", 100 * MI)
    host.create(pod, "two", None)
    host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=300 * MI)))
    assert held(host) == {"one": 100, "two": 200}
    host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=2000 * MI)))
    assert held(host) == {"one": 100, "two": FREE // MI - 100}
    host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=None)))
    assert held(host) == {"one": 100, "two": FREE // MI - 100}
    host.handle(events.UpdatePodSandbox(replace(pod, memory_limit_bytes=50 * MI)))
    assert held(host) == {"one": 100, "two": 0}


def test_a_synchronize_keeps_the_shares(host: Host) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "one", None, container_id="z")
    host.create(pod, "two", 300 * MI, container_id="a")
    host.create(pod, "three", None, container_id="b")
    before = host.engine.state
    host.synchronize()
    assert host.engine.state.accounting == before.accounting
    assert host.engine.state.holders == before.holders


def test_a_new_process_comes_to_the_same_accounting(host: Host, new_host: NewHost) -> None:
    pod = host.run("a", memory=400 * MI)
    host.create(pod, "one", None, container_id="z")
    host.create(pod, "two", 300 * MI, container_id="a")
    host.stop(host.newest("one"))
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    fresh.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    fresh.synchronize()
    assert fresh.engine.state.accounting == host.engine.state.accounting
    assert fresh.engine.state.holders == host.engine.state.holders


def test_without_a_state_file_the_limit_still_holds(host: Host, new_host: NewHost) -> None:
    pod = host.run("a", memory=400 * MI)
    for name in ("one", "two", "three"):
        host.create(pod, name, 400 * MI)
    fresh = new_host()
    fresh.pods, fresh.containers = host.pods, host.containers
    fresh.synchronize()
    assert sum(held(fresh).values()) == 400
    assert used(fresh) == [400, 0, 0, 0]


def test_containers_that_run_without_nodes_are_placed_beside_the_others(host: Host) -> None:
    pod = host.run("a", memory=1200 * MI)
    host.create(pod, "one", 100 * MI)
    first = host.newest("one")
    host.containers["c9"] = events.Container("c9", pod.sandbox_id, "two")
    answer = host.synchronize()
    assert set(answer.updates) == {Update(first.container_id, "0-1"), Update("c9", "0-1")}
    assert held(host) == {"one": 100, "two": 1100}


def test_an_unreported_container_extends_the_others_with_the_next_reply(host: Host) -> None:
    pod = host.run("a", memory=1200 * MI)
    host.create(pod, "one", 100 * MI)
    found = events.Container("x1", pod.sandbox_id, "x1", 1200 * MI)
    host.handle(events.ContainersFound(((pod, found),)))
    assert host.engine.state.pending == {"x1", host.newest("one").container_id}
    again = events.Container("x2", pod.sandbox_id, "x2", 1200 * MI, cgroup_mems=NodeSet([3]))
    host.handle(events.ContainersFound(((pod, again),)))
    assert held(host) == {"one": 100, "x1": 1100, "x2": 0}


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("seed", range(10))
def test_live_containers_never_hold_more_than_the_limit(
    new_host: NewHost, scope: str, seed: int
) -> None:
    random = Random(seed)
    host = new_host(replace(SETTINGS, topology_manager_scope=scope))
    limits = {uid: random.choice((300, 700, 1200)) * MI for uid in "abc"}
    pods = {uid: host.run(uid, memory=limits[uid]) for uid in limits}
    for step in range(120):
        uid = random.choice("abc")
        running = [c for c in host.containers.values() if c.sandbox_id == pods[uid].sandbox_id]
        chance = random.random()
        if chance < 0.5:
            memory = random.choice((None, 100 * MI, 300 * MI))
            cpus = random.choice(("", f"{random.randrange(16)}"))
            host.create(pods[uid], f"c{step}", memory, cpus=cpus)
        elif chance < 0.8 and running:
            host.stop(random.choice(running))
        elif chance < 0.9:
            host.synchronize()
        elif running:
            host.resize(random.choice(running), random.choice((50, 200)) * MI, limits[uid])
        state = host.engine.state
        assert check_accounting(state.accounting) == ()
        for other, limit in limits.items():
            assert sum(held(host, other).values()) * MI <= limit
        for container in host.containers.values():
            blocks = state.blocks((pods[container.sandbox_id[-1]].uid, container.name))
            assert blocks is None or str(blocks[0].numa_affinity) == container.cpuset_mems
