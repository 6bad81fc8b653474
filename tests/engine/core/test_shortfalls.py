"""What containers hold beyond the room of their nodes, through the events of a runtime."""

from dataclasses import replace
from random import Random

import pytest

from nri_numamem.engine.core.events import Container, ContainersFound, MachineChanged, PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Reservation, State, adopt, check_accounting, check_shortfalls
from nri_numamem.numa import Machine, NodeSet, NumaNode
from tests.engine.conftest import GI, MI, Host, NewHost
from tests.faults.checks import joined
from tests.sequences.on_engine import EngineDriver, life_on

MACHINE = Machine((NumaNode(0, 9 * GI), NumaNode(1, 9 * GI)))
RESERVED = tuple(Reservation(node, {"memory": GI}) for node in range(2))
REJECTS = Policy(reserved_memory=RESERVED)
RUNS_UNPINNED = replace(REJECTS, when_unsatisfiable="RunUnpinned")


def found(pod: PodSandbox, memory: int, mems: str = "") -> tuple[PodSandbox, Container]:
    """Return a container that the runtime did not report."""
    name = f"unreported-{pod.uid}"
    nodes = NodeSet.parse(mems)
    return pod, Container(name, pod.sandbox_id, name, memory, cgroup_mems=nodes)


def end(host: Host, uid: str) -> None:
    pod = host.pods[f"sandbox-{uid}"]
    for one in [c for c in host.containers.values() if c.sandbox_id == pod.sandbox_id]:
        host.stop(one)
    host.stop_pod(pod)
    host.remove_pod(pod)


@pytest.fixture
def overcommitted(new_host: NewHost) -> Host:
    """Node 0 has 8 GiB and holds 13: 6 were adopted. On node 1 1 GiB is free."""
    host = new_host(REJECTS, MACHINE)
    for uid, size in (("a", 4), ("b", 3), ("c", 7)):
        host.create(host.run(uid, memory=size * GI), memory=size * GI)
    assert host.placed() == {"a": {"main": "0"}, "b": {"main": "0"}, "c": {"main": "1"}}
    host.create(host.run("adopted"), memory=6 * GI, mems="0")
    assert host.free() == [0, GI]
    return host


def test_an_overcommitted_node_offers_nothing_when_a_container_ends(overcommitted: Host) -> None:
    host = overcommitted
    end(host, "b")
    assert host.free() == [0, GI]
    assert host.create(host.run("d"), memory=2 * GI).refusal is not None
    host.synchronize()
    assert host.free() == [0, GI]
    end(host, "a")
    assert host.free() == [2 * GI, GI]
    assert host.create(host.run("e"), memory=2 * GI).refusal is None


def test_a_shortfall_shrinks_when_a_container_ends(overcommitted: Host) -> None:
    end(overcommitted, "b")
    (block,) = overcommitted.engine.state.blocks(("adopted", "main")) or ()
    assert block.size - block.charged == 2 * GI


def test_a_resize_beyond_the_limit_counts_when_a_container_ends(new_host: NewHost) -> None:
    host = new_host(RUNS_UNPINNED, MACHINE)
    for uid, size in (("a", 4), ("b", 3), ("c", 7)):
        host.create(host.run(uid), memory=size * GI)
    a = next(c for c in host.containers.values() if c.sandbox_id == "sandbox-a")
    assert fields_of(host.resize(a, 7 * GI).records[0])["shortfall_bytes"] == {"memory": 2 * GI}
    end(host, "b")
    assert host.free() == [GI, GI]


def test_a_resize_on_an_overcommitted_node_keeps_what_the_container_has(
    overcommitted: Host,
) -> None:
    host = overcommitted
    a = next(c for c in host.containers.values() if c.sandbox_id == "sandbox-a")
    (record,) = host.resize(a, 2 * GI).records
    assert "shortfall_bytes" not in fields_of(record)
    assert host.free() == [0, GI]
    smaller = host.containers[a.container_id]
    assert host.resize(smaller, 3 * GI).refusal is not None


def test_a_container_that_restarts_on_an_overcommitted_node_keeps_its_place(
    overcommitted: Host,
) -> None:
    host = overcommitted
    a = next(c for c in host.containers.values() if c.sandbox_id == "sandbox-a")
    host.stop(a)
    assert host.free() == [0, GI]
    assert host.create(host.pods["sandbox-a"], memory=4 * GI).refusal is None
    assert host.placed()["a"] == {"main": "0"}


def test_a_shortfall_outlasts_a_change_of_the_machine(overcommitted: Host) -> None:
    host = overcommitted
    larger = Machine((NumaNode(0, 13 * GI), NumaNode(1, 9 * GI)))
    host.handle(MachineChanged(larger))
    assert host.free() == [0, GI]
    end(host, "b")
    assert host.free() == [2 * GI, GI]
    host.handle(MachineChanged(MACHINE))
    assert host.free() == [0, GI]
    end(host, "a")
    assert host.free() == [2 * GI, GI]


def test_unreported_containers_get_nothing_that_others_lack(overcommitted: Host) -> None:
    """What a pod holds beyond its limit is released when its container is found on node 1."""
    host = overcommitted
    b = host.pods["sandbox-b"]
    host.stop(next(c for c in host.containers.values() if c.sandbox_id == b.sandbox_id))
    pinned, unpinned = found(b, 3 * GI, "1"), found(host.run("d"), 2 * GI)
    host.handle(ContainersFound((pinned, unpinned)))
    assert host.placed()["b"] == {pinned[1].name: "1"}
    assert "d" not in host.placed()
    assert host.free() == [0, 0]


def test_a_synchronize_places_nothing_where_others_lack_room(overcommitted: Host) -> None:
    host = overcommitted
    end(host, "b")
    pod = host.run("d")
    unpinned = Container("c-d", pod.sandbox_id, "main", 2 * GI)
    host.containers[unpinned.container_id] = unpinned
    host.synchronize()
    assert "d" not in host.placed()
    assert host.free() == [0, GI]


def random_event(random: Random, life: EngineDriver, step: int) -> None:
    """Adopt on any nodes, resize beyond any limit, change the machine, or live on."""
    chance, host = random.random(), life.host
    running = list(host.containers.values())
    if chance < 0.2 and host.pods:
        pod = random.choice(list(host.pods.values()))
        nodes = random.choice(["0", "0", "1", "0-1", "1-2", "0,2-3"])
        memory = random.choice([0, 100, 400, 900, 2500]) * MI
        name = random.choice(["one", "two"])
        if (pod.uid, name) not in host.engine.state.holders:
            host.create(pod, name, memory, mems=nodes, container_id=f"c{step}")
    elif chance < 0.3 and running:
        one = random.choice(running)
        host.resize(one, random.choice([50, 700, 1500, 3000]) * MI)
    elif chance < 0.4:
        sizes = [random.choice([700, 1024, 1024, 3000]) * MI for _ in range(4)]
        each = zip(host.engine.context.machine.nodes, sizes, strict=True)
        changed = tuple(replace(node, memory_bytes=size) for node, size in each)
        host.handle(MachineChanged(Machine(changed)))
    elif chance < 0.5:
        host.synchronize()
    else:
        life.step()


def free_by_group(state: State) -> dict[tuple[NodeSet, str], int]:
    """Return the free bytes of each set of nodes whose groups overlap, and resource."""
    known = NodeSet(state.machine_state)
    sets = [
        block.numa_affinity & known
        for containers in state.assignments.values()
        for blocks in containers.values()
        for block in blocks
    ]
    groups = joined([nodes for nodes in sets if nodes], known)
    return {
        (group, name): sum(state.machine_state[n].table(name).free for n in group)
        for group in groups
        for name in ("memory", "hugepages-2Mi")
    }


def recomputed(random: Random, engine: Engine) -> State:
    """Return the accounting of the same blocks on the same machine, recorded in any order."""
    state, present = engine.context.empty_accounting(), engine.state.accounting
    each = [(uid, name) for uid, found in present.assignments.items() for name in found]
    for uid, name in random.sample(each, len(each)):
        blocks = present.assignments[uid][name]
        request = {block.type: block.size for block in blocks}
        state = adopt(state, uid, name, blocks[0].numa_affinity, request).state
    return Engine.with_state(
        engine.context, replace(engine.state, accounting=state)
    ).state.accounting


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_free_is_a_function_of_what_runs_and_of_what_is_kept(
    new_host: NewHost, seed: int, scope: str
) -> None:
    random = Random(seed)
    new_host.groups_may_mix = True
    reserved = (Reservation(0, {"memory": 64 * MI}),)
    settings = Policy(
        topology_manager_scope=scope, reserved_memory=reserved, when_unsatisfiable="RunUnpinned"
    )
    host = new_host(settings)
    life = life_on(host, 100 + seed)
    short = 0
    for step in range(120):
        random_event(random, life, step)
        accounting = host.engine.state.accounting
        assert check_accounting(accounting) == check_shortfalls(accounting) == ()
        assert free_by_group(recomputed(random, host.engine)) == free_by_group(accounting)
        short += any(
            block.size > block.charged
            for containers in accounting.assignments.values()
            for blocks in containers.values()
            for block in blocks
        )
    assert short
