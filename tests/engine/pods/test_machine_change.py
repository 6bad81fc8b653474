"""The machine changes while pods run: the result equals a Synchronize on the new machine."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, MachineChanged, Synchronize
from nri_numamem.engine.core.plan import Adjustment, HugepageRoute
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import Overcommitted
from nri_numamem.memorymanager import Reservation, ReservedMemoryError, check_accounting
from nri_numamem.numa import CpuSet, Machine, hugepages_page_size
from tests.engine.conftest import Answer
from tests.engine.records.examples import example
from tests.sequences.on_engine import life_on

if TYPE_CHECKING:
    from nri_numamem.engine.core.state import EngineState
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
GI = 1 << 30
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 16 * PAGE
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(2))
SETTINGS = Policy(reserved_memory=RESERVED)
POD_SCOPE = replace(SETTINGS, topology_manager_scope="pod")


def machine_of(host: Host) -> Machine:
    return host.engine.context.machine


def with_node(machine: Machine, node_id: int, **changes: object) -> Machine:
    nodes = (
        replace(node, **changes) if node.node_id == node_id else node  # type: ignore[arg-type]
        for node in machine.nodes
    )
    return Machine(tuple(nodes))


def without_nodes(machine: Machine, *node_ids: int) -> Machine:
    return Machine(tuple(node for node in machine.nodes if node.node_id not in node_ids))


def change(host: Host, machine: Machine) -> tuple[Record, ...]:
    plan = host.handle(MachineChanged(machine))
    assert plan == Answer(records=plan.records)
    return tuple(plan.records)


def test_a_failed_creation_is_placed_anew_if_its_nodes_lost_memory(host: Host) -> None:
    """CRI-O does not report the end of a container whose creation failed."""
    pod = host.run("a")
    for _ in range(2):
        assert host.create(pod, hugepages={PAGE: 4 * PAGE}).adjustment == Adjustment(
            "0", {PAGE: 4 * PAGE}, HugepageRoute.LIMITS
        )
    change(host, with_node(machine_of(host), 0, hugepages={PAGE: 0}))
    plan = host.create(pod, hugepages={PAGE: 4 * PAGE})
    assert plan.adjustment is not None
    assert plan.adjustment.cpuset_mems == "1"
    assert host.free("hugepages-2Mi") == [0, 12 * PAGE, 16 * PAGE, 16 * PAGE]


def test_the_same_machine_changes_nothing(host: Host) -> None:
    host.create(host.run("a"))
    before = host.engine.state
    assert change(host, machine_of(host)) == ()
    assert host.engine.state is before


def test_more_memory_is_usable_at_once(new_host: NewHost) -> None:
    host = new_host(SETTINGS)
    host.create(host.run("a"))
    larger = with_node(machine_of(host), 0, memory_bytes=2 * GI)
    assert change(host, larger) == (
        example(
            "machine_changed",
            {
                "nodes": {
                    "0": {
                        "memory": 2 * GI,
                        "previous_memory": GI,
                        "free_bytes": {"memory": FREE + GI - 200 * MI, "hugepages-2Mi": 16 * PAGE},
                    }
                }
            },
        ),
    )
    assert machine_of(host) == larger
    assert host.create(host.run("b"), memory=1500 * MI).adjustment == Adjustment("0")


def test_a_pool_that_was_resized(new_host: NewHost) -> None:
    host = new_host(SETTINGS)
    host.create(host.run("a", hugepages={PAGE: 4 * PAGE}))
    (record,) = change(host, with_node(machine_of(host), 0, hugepages={PAGE: 8, GI: 0}))
    assert fields_of(record)["nodes"] == {
        "0": {
            "hugepages-2Mi": 8 * PAGE,
            "previous_hugepages-2Mi": 16 * PAGE,
            "hugepages-1Gi": 0,
            "free_bytes": {
                "memory": FREE + 8 * PAGE - 200 * MI,
                "hugepages-2Mi": 4 * PAGE,
                "hugepages-1Gi": 0,
            },
        }
    }
    assert host.free("hugepages-2Mi")[0] == 4 * PAGE
    (record,) = change(host, with_node(machine_of(host), 0, hugepages={PAGE: 8}, cpus=CpuSet([0])))
    nodes = fields_of(record)["nodes"]
    assert isinstance(nodes, dict)
    assert nodes["0"] == {
        "cpus": 1,
        "previous_cpus": 4,
        "previous_hugepages-1Gi": 0,
        "free_bytes": {"memory": FREE + 8 * PAGE - 200 * MI, "hugepages-2Mi": 4 * PAGE},
    }


def test_a_container_that_no_longer_fits_keeps_its_nodes_and_is_recorded_once(
    new_host: NewHost,
) -> None:
    host = new_host(SETTINGS)
    pod = host.run("a", hugepages={PAGE: 4 * PAGE})
    host.create(pod)
    host.create(host.run("b"), memory=100 * MI)
    _, named = change(host, with_node(machine_of(host), 0, hugepages={PAGE: 1}))
    assert isinstance(named, Overcommitted)
    assert fields_of(named) == {
        "pod": "pod-a",
        "namespace": "ns",
        "pod_uid": "a",
        "container": "main",
        "container_id": host.newest().container_id.replace("-b", "-a").replace("-1", "-0"),
        "ended": False,
        "request_bytes": {"memory": 200 * MI, "hugepages-2Mi": 4 * PAGE},
        "nodes": "0",
        "shortfall_bytes": {"hugepages-2Mi": 3 * PAGE},
    }
    assert host.placed() == {"a": {"main": "0"}, "b": {"main": "0"}}
    # A changed shortfall has level debug; its end has level info.
    _, named = change(host, with_node(machine_of(host), 0, hugepages={PAGE: 2}))
    assert (named.event, named.level) == ("overcommitted", "debug")
    (record,) = change(host, with_node(machine_of(host), 1, memory_bytes=2 * GI))
    assert record.event == "machine_changed"
    _, named = change(host, with_node(machine_of(host), 0, hugepages={PAGE: 4}))
    assert (named.event, named.level) == ("overcommit_resolved", "info")
    assert "shortfall_bytes" not in fields_of(named)


def test_a_node_that_disappears_and_returns(new_host: NewHost) -> None:
    host = new_host(SETTINGS)
    whole = machine_of(host)
    for uid in "abc":
        host.create(host.run(uid), memory=800 * MI)
    before = host.engine.state
    changed, named = change(host, without_nodes(whole, 2, 3))
    assert fields_of(changed)["removed_nodes"] == "2-3"
    assert changed.level == "info"
    assert fields_of(named)["removed_nodes"] == "2"
    assert fields_of(named)["shortfall_bytes"] == {"memory": 800 * MI}
    assert host.placed()["c"] == {"main": "2"}
    refusal = host.create(host.run("d"), memory=800 * MI).refusal
    assert refusal is not None
    assert "NUMA nodes 0-1: 128Mi free of 928Mi allocatable" in refusal
    changed, named = change(host, whole)
    assert named.event == "overcommit_resolved"
    nodes = fields_of(changed)["nodes"]
    assert isinstance(nodes, dict)
    assert list(nodes) == ["2", "3"]
    # The node's accounting is restored. Only the sandbox of the refused pod is new.
    assert host.engine.state.accounting == before.accounting
    assert host.engine.state.holders == before.holders


def test_reusable_memory_is_kept(new_host: NewHost) -> None:
    host = new_host(SETTINGS)
    pod = host.run("a")
    host.create(pod, "init", memory=600 * MI)
    host.stop(host.newest("init"))
    _, named = change(host, with_node(machine_of(host), 0, memory_bytes=512 * MI))
    assert fields_of(named)["ended"] is True
    change(host, with_node(machine_of(host), 0, memory_bytes=GI))
    assert host.free()[0] == FREE - 600 * MI
    host.create(pod, "app", memory=600 * MI)
    assert host.free()[0] == FREE - 600 * MI


def test_the_pool_of_a_pod_is_rebuilt(new_host: NewHost) -> None:
    host = new_host(POD_SCOPE)
    pod = host.run("a", memory=700 * MI)
    host.create(pod, memory=300 * MI)
    empty = host.run("b", memory=500 * MI)
    machine = machine_of(host)
    _, named = change(host, with_node(machine, 0, memory_bytes=512 * MI))
    assert fields_of(named)["request_bytes"] == {"memory": 400 * MI}
    assert "container" not in fields_of(named)
    change(host, machine)
    assert host.placed() == {"a": {"main": "0", "": "0"}, "b": {"": "1"}}
    assert host.free()[:2] == [FREE - 700 * MI, FREE - 500 * MI]
    assert host.create(empty, memory=500 * MI).adjustment == Adjustment("1")


def test_a_machine_that_contradicts_the_settings_is_rejected(new_host: NewHost) -> None:
    host = new_host(SETTINGS)
    host.create(host.run("a"))
    before, context = host.engine.state, host.engine.context
    (record,) = change(host, without_nodes(machine_of(host), 1))
    assert record.level == "warning"
    assert record.event == "machine_change_rejected"
    assert "references a NUMA node 1 that does not exist" in str(fields_of(record)["cause"])
    assert "restart the plugin" in str(fields_of(record)["remedy"])
    assert host.engine.state is before
    assert host.engine.context is context


def test_small_changes_are_recorded_only_when_they_add_up(new_host: NewHost) -> None:
    host = new_host(SETTINGS)
    first = machine_of(host)
    for percent_less in (0.5, 0.9, 0.2):
        size = int(GI * (100 - percent_less) / 100)
        (record,) = change(host, with_node(first, 1, memory_bytes=size))
        assert (record.event, record.level) == ("machine_changed", "debug")
        assert host.free()[1] == FREE - GI + size
    (record,) = change(host, first)
    assert (record.level, fields_of(record)) == ("debug", {"nodes": {}})
    change(host, with_node(first, 1, memory_bytes=int(GI * 0.992)))
    (record,) = change(host, with_node(first, 1, memory_bytes=int(GI * 0.985)))
    assert record.level == "info"
    nodes = fields_of(record)["nodes"]
    assert isinstance(nodes, dict)
    assert nodes["1"]["previous_memory"] == GI
    (record,) = change(host, with_node(first, 1, memory_bytes=int(GI * 0.98)))
    assert record.level == "debug"


def test_small_changes_on_a_full_node_have_level_debug(new_host: NewHost) -> None:
    host = new_host(SETTINGS)
    host.create(host.run("a"), memory=FREE)
    full = machine_of(host)

    def shrunk(by_bytes: int) -> Record:
        return change(host, with_node(full, 0, memory_bytes=GI - by_bytes))[-1]

    steps = [
        (4096, "overcommitted", "debug"),
        (8192, "overcommitted", "debug"),
        (0, "overcommit_resolved", "debug"),
        (64 * MI, "overcommitted", "warning"),
        (65 * MI, "overcommitted", "debug"),
        (MI, "overcommit_resolved", "info"),
        (0, "overcommit_resolved", "debug"),
    ]
    for by_bytes, event, level in steps:
        record = shrunk(by_bytes)
        assert (record.event, record.level) == (event, level)
        assert fields_of(record).get("shortfall_bytes") == (
            {"memory": by_bytes} if by_bytes else None
        )


def test_before_the_first_synchronize_the_restored_state_stays_valid(
    new_host: NewHost,
) -> None:
    host = new_host(SETTINGS)
    pod = host.run("a")
    host.create(pod, "init", memory=300 * MI)
    host.stop(host.newest("init"))
    restored = restore(snapshot(host.engine.state))
    after = new_host(SETTINGS)
    after.engine = Engine(after.engine.context, restored)
    change(after, with_node(machine_of(after), 0, memory_bytes=2 * GI))
    assert after.free()[0] == FREE + GI
    assert after.engine.state.restored is restored
    after.pods = host.pods
    after.synchronize()
    assert after.free()[0] == FREE + GI - 300 * MI


def test_with_policy_none_the_accounting_follows_too(new_host: NewHost) -> None:
    host = new_host(Policy(memory_manager_policy="None"))
    (record,) = change(host, without_nodes(machine_of(host), 3))
    assert fields_of(record)["removed_nodes"] == "3"
    assert list(host.engine.state.accounting.machine_state) == [0, 1, 2]


# In any life


def other_machine(random: Random, whole: Machine) -> Machine:
    """Return a machine that differs in a node's memory or pool, or has lost nodes."""
    machine = whole
    for node in random.sample(range(4), 2):
        changes: dict[str, object] = {}
        if random.random() < 0.6:
            changes["memory_bytes"] = random.choice([300, 700, 1020, 1023, 1500, 3000]) * MI
        if random.random() < 0.6:
            changes["hugepages"] = {PAGE: random.choice([0, 1, 5, 40])}
        machine = with_node(machine, node, **changes)
    gone = random.sample([1, 2, 3], random.choice([0, 0, 1, 2]))
    return without_nodes(machine, *gone)


def synchronize_of(state: EngineState) -> Synchronize:
    """Return the list of a runtime whose containers are exactly those of the accounting."""
    containers = []
    for key, holder in state.holders.items():
        blocks = state.blocks(key) or ()
        sizes = {block.type: block.size for block in blocks}
        memory = sizes.pop("memory")
        pages = {hugepages_page_size(name): size for name, size in sizes.items()}
        containers.append(
            Container(
                holder.container_id,
                holder.sandbox_id,
                holder.container_name,
                memory,
                # A size of 0 is one that the container may not use, and no block.
                hugepage_limits=pages or {PAGE: 0},
                cpuset_mems=str(blocks[0].numa_affinity),
                ended=holder.ended,
            )
        )
    return Synchronize(tuple(state.pods.values()), tuple(containers))


def reconnected(state: EngineState, machine: Machine, settings: Policy) -> EngineState:
    engine = Engine.with_state(Context.of(machine, settings), state)
    engine.apply(synchronize_of(state))
    return engine.state


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("seed", range(20))
def test_the_accounting_equals_that_of_a_reconnect_on_the_new_machine(
    new_host: NewHost, seed: int, scope: str
) -> None:
    new_host.groups_may_mix = True  # a node that is gone takes its group with it
    random = Random(seed)
    reserved = (Reservation(0, {"memory": 64 * MI}),)
    settings = Policy(topology_manager_scope=scope, reserved_memory=reserved)
    host = new_host(settings)
    whole, life = machine_of(host), life_on(host, seed)
    for step in range(60):
        life.step()
        if step % 4 == 3:
            machine = whole if random.random() < 0.3 else other_machine(random, whole)
            before = host.engine.state
            if machine == machine_of(host):
                continue
            try:
                expected = reconnected(before, machine, settings)
            except ReservedMemoryError:
                change(host, machine)
                assert host.engine.state is before
                continue
            change(host, machine)
            after = host.engine.state
            assert machine_of(host) == machine
            assert after.accounting == expected.accounting
            assert (after.holders, after.keys) == (expected.holders, expected.keys)
            assert (after.pods, after.previous_nodes) == (before.pods, before.previous_nodes)
            assert check_accounting(after.accounting) == ()
