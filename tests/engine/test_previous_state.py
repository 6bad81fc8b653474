"""The restored state: what the runtime confirms is kept, and previous nodes of ended pods."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.core.state import PREVIOUS_NODES_LIMIT, EngineState, Holder
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Block, Reservation, State
from nri_numamem.memorymanager.holder import HolderKey
from nri_numamem.numa import Machine, NodeSet, NumaNode
from tests.sequences.on_engine import life_on

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
GI = 1 << 30
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 16 * PAGE
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
SETTINGS = Policy(reserved_memory=RESERVED)
POD_SCOPE = replace(SETTINGS, topology_manager_scope="pod")


def reborn(host: Host, new_host: NewHost, settings: Policy = SETTINGS) -> Host:
    """Return the host with a new plugin process that has the old one's snapshot."""
    fresh = new_host(settings, host.engine.context.machine)
    restored = restore(snapshot(host.engine.state))
    fresh.engine = Engine(new_context(host.engine.context.machine, settings), restored)
    fresh.pods, fresh.containers = host.pods, host.containers
    return fresh


def test_a_new_process_keeps_reusable_memory(host: Host, new_host: NewHost) -> None:
    pod = host.run("a")
    host.create(pod, "init", memory=300 * MI)
    host.stop(host.newest("init"))
    after = reborn(host, new_host)
    assert after.free() == [FREE] * 4
    after.synchronize()
    assert after.free()[0] == FREE - 300 * MI
    assert after.engine.state.restored is None
    after.create(pod, "app", memory=300 * MI)
    assert after.free()[0] == FREE - 300 * MI


def test_a_container_that_ended_while_no_plugin_ran_is_reusable(
    host: Host, new_host: NewHost
) -> None:
    host.create(host.run("a"))
    host.containers.clear()
    after = reborn(host, new_host)
    after.synchronize()
    assert after.free()[0] == FREE - 200 * MI


def test_a_pod_that_ended_while_no_plugin_ran_is_released_with_previous_nodes(
    host: Host, new_host: NewHost
) -> None:
    host.create(host.run("x"))
    host.create(host.run("a"), memory=900 * MI)
    host.pods.clear()
    host.containers.clear()
    after = reborn(host, new_host)
    after.synchronize()
    assert after.free() == [FREE] * 4
    assert after.create(after.run("a"), memory=900 * MI).adjustment == Adjustment("1")


def test_without_synchronize_the_restored_state_has_no_effect(
    host: Host, new_host: NewHost
) -> None:
    """Launched by NRI 0.6 and before."""
    pod = host.run("a")
    host.create(pod, "init", memory=900 * MI)
    host.stop(host.newest("init"))
    after = reborn(host, new_host)
    assert after.create(host.run("b"), memory=900 * MI).adjustment == Adjustment("0")
    after.synchronize()
    assert "a" not in after.placed()


def test_a_pool_is_kept_in_pod_scope(new_host: NewHost) -> None:
    host = new_host(POD_SCOPE)
    pod = host.run("a", memory=700 * MI)
    after = reborn(host, new_host, POD_SCOPE)
    after.synchronize()
    assert after.free()[0] == FREE - 700 * MI
    assert after.create(pod, memory=500 * MI).adjustment == Adjustment("0")


def test_a_reservation_that_conflicts_with_running_containers_is_dropped(
    host: Host, new_host: NewHost
) -> None:
    pod, other = host.run("a"), host.run("b")
    host.create(pod, "init", memory=1200 * MI)
    host.stop(host.newest("init"))
    host.create(other, "app", mems="2")
    moved = replace(host.newest("app"), cpuset_mems="1")
    host.containers[moved.container_id] = moved
    after = reborn(host, new_host)
    plan = after.synchronize()
    assert after.placed() == {"b": {"app": "1"}}
    (record,) = [r for r in plan.records if r.event == "stale_reservation_dropped"]
    assert record.level == "warning"
    assert fields_of(record)["pod_uid"] == "a"
    assert fields_of(record)["request_bytes"] == {"memory": 1200 * MI}
    assert fields_of(record)["nodes"] == "0-1"


def test_a_reservation_on_missing_nodes_is_dropped(host: Host, new_host: NewHost) -> None:
    host.create(host.run("x"), memory=900 * MI)
    host.create(host.run("a"), "init", memory=900 * MI)
    host.containers.clear()
    machine = Machine((NumaNode(0, GI),))
    after = new_host(Policy(), machine)
    restored = restore(snapshot(host.engine.state))
    after.engine = Engine(new_context(machine, Policy()), restored)
    after.pods = host.pods
    after.synchronize()
    assert after.placed() == {"x": {"main": "0"}}


def test_a_restored_holder_without_blocks_is_ignored(new_host: NewHost) -> None:
    host = new_host()
    pod = host.run("a")
    holder = Holder("c", pod.sandbox_id, ("a", "app"))
    restored = EngineState(State({}), holders={holder.key: holder}, keys={"c": holder.key})
    host.engine = Engine(host.engine.context, restored)
    host.synchronize()
    assert host.placed() == {}


# Pods that start again with the same uid


def test_a_restarted_pod_prefers_its_previous_nodes(host: Host) -> None:
    blocker = host.run("x")
    host.create(blocker)
    pod = host.run("a")
    host.create(pod, memory=800 * MI)
    assert host.placed()["a"] == {"main": "1"}
    host.stop_pod(pod)
    host.stop_pod(blocker)
    again = host.run("a", sandbox="again")
    assert host.create(again, memory=800 * MI).adjustment == Adjustment("1")
    assert host.create(host.run("b"), memory=800 * MI).adjustment == Adjustment("0")


def test_previous_nodes_win_only_among_equal_sets(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, memory=1200 * MI)
    host.stop_pod(pod)
    assert host.create(host.run("a"), memory=200 * MI).adjustment == Adjustment("0")


def test_each_container_has_its_own_previous_nodes(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, "one", memory=800 * MI)
    host.create(pod, "two", memory=800 * MI)
    host.stop_pod(pod)
    host.remove_pod(pod)
    again = host.run("a", sandbox="again")
    assert host.create(again, "two", memory=800 * MI).adjustment == Adjustment("1")
    assert host.create(again, "one", memory=800 * MI).adjustment == Adjustment("0")


def test_a_pods_pool_has_previous_nodes_too(new_host: NewHost) -> None:
    host = new_host(POD_SCOPE)
    blocker, pod = host.run("x", memory=800 * MI), host.run("a", memory=800 * MI)
    host.stop_pod(blocker)
    host.stop_pod(pod)
    host.run("a", memory=800 * MI, sandbox="again")
    assert host.placed() == {"a": {"": "1"}}


def test_previous_nodes_are_limited() -> None:
    state = EngineState(
        State({}),
        previous_nodes={f"u{n}": {"x": NodeSet([0])} for n in range(PREVIOUS_NODES_LIMIT)},
    )
    accounting = State({}, {"u0": {"y": (Block(NodeSet([1]), "memory", 1),)}, "new": {"z": ()}})
    known, empty = Holder("c", "s", ("u0", "y")), Holder("d", "s", ("new", "z"))
    again = replace(state, accounting=accounting).previous_nodes_with([known, empty])
    assert len(again) == PREVIOUS_NODES_LIMIT
    assert list(again)[-1] == "u0"
    assert again["u0"] == {"x": NodeSet([0]), "y": NodeSet([1])}
    more = State({}, {"new": {"z": (Block(NodeSet([1]), "memory", 1),)}})
    assert "u0" not in replace(state, accounting=more).previous_nodes_with([empty])


@pytest.mark.parametrize("key", [("a", "x"), ("b", "y")])
def test_most_containers_have_no_previous_nodes(key: tuple[str, str]) -> None:
    state = EngineState(State({}), previous_nodes={"a": {"y": NodeSet([0])}})
    assert state.nodes_before(key) == NodeSet()


# A restart of the plugin is no more than a reconnect


@pytest.mark.parametrize("settings", [SETTINGS, POD_SCOPE], ids=["container", "pod"])
@pytest.mark.parametrize("seed", range(15))
def test_a_restart_has_the_same_accounting_as_a_reconnect(
    new_host: NewHost, seed: int, settings: Policy
) -> None:
    host = new_host(settings)
    life = life_on(host, seed)
    for step in range(60):
        life.step()
        if step % 6 == 5:
            after = reborn(host, new_host, settings)
            plan, same = after.synchronize(), host.synchronize()
            assert plan == same
            assert after.engine.state == host.engine.state
            life.host = host = after


def hugepages_of(host: Host) -> dict[HolderKey, tuple[str, int]]:
    """Return key -> nodes and bytes of the hugepages of live containers."""
    state = host.engine.state
    return {
        key: (str(block.numa_affinity), block.size)
        for key, holder in state.holders.items()
        for block in state.blocks(key) or ()
        if block.type != "memory" and not holder.ended
    }


@pytest.mark.parametrize("seed", range(15))
def test_hugepages_that_a_pod_shares_stay_where_they_are(new_host: NewHost, seed: int) -> None:
    """Neither a reconnect nor a restart moves them, whatever the ids of the containers are."""
    random = Random(seed)
    new_host.groups_may_mix = True
    host = new_host()
    for _ in range(40):
        uid = random.choice("abc")
        pod = host.pods.get(f"sandbox-{uid}") or host.run(uid, hugepages={PAGE: 4 * PAGE})
        container_id = f"{random.randrange(1 << 32):x}"
        mems = random.choice(["", "0", "1", "3"])
        host.create(
            pod, random.choice(["one", "two", "three"]), mems=mems, container_id=container_id
        )
        if random.random() < 0.2:
            host.stop(host.containers[random.choice(list(host.containers))])
        if random.random() < 0.05:
            host.stop_pod(pod)
            host.remove_pod(pod)
        running = [c for c in host.containers.values() if c.sandbox_id in host.pods]
        newest = {c.sandbox_id + c.name: c for c in running}  # one per name
        host.containers = {c.container_id: c for c in newest.values()}
        host.synchronize()
        before = hugepages_of(host)
        after = reborn(host, new_host)
        after.synchronize()
        assert hugepages_of(after) == before
        host.synchronize()
        assert hugepages_of(host) == before
