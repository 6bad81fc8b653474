"""Nodes without CPUs: excluded, or used as a last resort; and what runs there already."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.events import (
    Container,
    ContainersFound,
    MachineChanged,
    UpdateContainer,
)
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Container as ManagedContainer
from nri_numamem.memorymanager import ContainerKind, HostReservation, Pod, Reservation
from nri_numamem.numa import CpuSet, Machine, MemoryNodes, NodeClass, NodeSet, NumaNode, WithoutCpus
from tests.laboratory.container_hints import hints_for_container

if TYPE_CHECKING:
    from nri_numamem.engine.records.record import Record
    from tests.engine.conftest import Answer, Host, NewHost

MI, GI = 1 << 20, 1 << 30
PAGE = 2 * MI


def machine(with_cpus: int = 2, without: int = 2) -> Machine:
    """Nodes with 1 GiB; those without CPUs have 2 GiB, and each is close to one with CPUs."""
    count = with_cpus + without
    close = {n: n - with_cpus for n in range(with_cpus, count)}

    def distance(a: int, b: int) -> int:
        return 10 if a == b else 15 if close.get(a) == b or close.get(b) == a else 20

    return Machine(
        tuple(
            NumaNode(
                n,
                GI if n < with_cpus else 2 * GI,
                hugepages={PAGE: 0},
                cpus=CpuSet([n]) if n < with_cpus else CpuSet(),
                distances={other: distance(n, other) for other in range(count)},
            )
            for n in range(count)
        )
    )


NO_RESERVATION = HostReservation(eviction_hard={"memory.available": "0"})


def policy(action: WithoutCpus = WithoutCpus.EXCLUDE, **values: object) -> Policy:
    nodes = MemoryNodes(action)
    return Policy(memory_nodes=nodes, host_reservation=NO_RESERVATION, **values)  # type: ignore[arg-type]


LAST_RESORT = policy(WithoutCpus.LAST_RESORT)


def mems(answer: Answer) -> str | None:
    """Return the chosen nodes; None for a refusal."""
    if answer.refusal is not None:
        return None
    assert answer.adjustment is not None
    return answer.adjustment.cpuset_mems


def placed(host: Host, *sizes: int, **options: object) -> list[str | None]:
    """Return the nodes of containers that are created one after the other."""
    found = []
    for index, size in enumerate(sizes):
        pod = host.run(f"p{index}", memory=size)
        found.append(mems(host.create(pod, memory=size, **options)))  # type: ignore[arg-type]
    return found


def events_of(answer: Answer) -> list[str]:
    return [record.event for record in answer.records]


def test_no_container_is_placed_on_an_excluded_node(new_host: NewHost) -> None:
    host = new_host(policy(), machine())
    assert placed(host, 600 * MI, 600 * MI, 600 * MI) == ["0", "1", None]
    assert "NUMA node 2" not in (host.answers[-1].refusal or "")


def test_a_request_for_several_nodes_has_no_excluded_node(new_host: NewHost) -> None:
    host = new_host(policy(), machine())
    # Node 2 alone could hold it, and nodes 0 and 2 are the closest pair.
    assert placed(host, 1500 * MI) == ["0-1"]


def test_use_places_as_on_nodes_with_cpus(new_host: NewHost) -> None:
    host = new_host(policy(WithoutCpus.USE), machine())
    assert placed(host, 1500 * MI) == ["2"]


def test_34_nodes_of_which_two_have_cpus_are_two_nodes(new_host: NewHost) -> None:
    host = new_host(policy(), machine(2, 32))
    state = host.engine.state.accounting
    assert list(state.machine_state) == [0, 1]
    assert len(host.engine.context.topology.preferences.distances.rows) == 2
    assert placed(host, 1500 * MI) == ["0-1"]
    record = next(r for r in host.answers[-1].records if r.event == "admitted")
    assert [found["nodes"] for found in fields_of(record)["candidates"]] == ["0-1", "0", "1"]


@pytest.mark.parametrize("name", ["best-effort", "restricted", "single-numa-node"])
def test_memory_follows_a_device_to_the_nearest_node_with_cpus(
    new_host: NewHost, name: str
) -> None:
    host = new_host(policy(topology_manager_policy=name), machine())
    assert placed(host, 100 * MI, devices=["3"]) == ["1"]


def test_excluded_nodes_need_no_reservation_and_get_none(new_host: NewHost) -> None:
    shared = HostReservation(kube_reserved={"memory": "200Mi"}, eviction_hard={"x": "0"})
    host = new_host(replace(policy(), host_reservation=shared), machine())
    assert host.free() == [GI - 100 * MI] * 2
    tenth = HostReservation(eviction_hard={"memory.available": "10%"})
    host = new_host(replace(policy(), host_reservation=tenth), machine())
    assert sum(host.free()) == 2 * GI - 2 * GI // 10
    written = (Reservation(0, {"memory": 100 * MI}), Reservation(2, {"memory": 100 * MI}))
    both = replace(policy(), reserved_memory=written, host_reservation=shared)
    assert new_host(both, machine()).free() == [GI - 100 * MI, GI]


def running(host: Host, nodes: str, memory: int = 500 * MI, uid: str = "old") -> Answer:
    """Let a container run on some nodes, and synchronize."""
    host.create(host.run(uid, memory=memory), memory=memory, mems=nodes)
    return host.synchronize()


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_what_runs_on_an_excluded_node_is_adopted_and_not_moved(
    new_host: NewHost, scope: str
) -> None:
    host = new_host(policy(topology_manager_scope=scope), machine())
    answer = running(host, "2")
    assert answer.updates == ()
    assert host.placed() == {"old": {"main": "2"}}
    assert host.free() == [GI, GI]
    record = next(r for r in answer.records if r.event == "adopted")
    assert (record.level, fields_of(record)["nodes"]) == ("warning", "2")
    assert fields_of(record)["excluded_nodes"] == "2"
    assert "shortfall_bytes" not in fields_of(record)
    # The pod's other containers are placed on other nodes.
    assert mems(host.create(host.pods["sandbox-old"], "second", 100 * MI)) == "0"


def test_a_container_on_excluded_and_other_nodes_closes_no_other_node(new_host: NewHost) -> None:
    host = new_host(policy(), machine())
    running(host, "0,2")
    # All of its memory may be on node 0, which others may use all the same.
    assert host.free() == [GI - 500 * MI, GI]
    assert placed(host, 400 * MI, 600 * MI) == ["0", "1"]
    host.stop_pod(host.pods["sandbox-old"])
    assert host.free() == [GI - 400 * MI, GI - 600 * MI]


@pytest.mark.parametrize("memory", [100 * MI, 900 * MI])
def test_a_resize_on_an_excluded_node_is_recorded_and_moves_nothing(
    new_host: NewHost, memory: int
) -> None:
    host = new_host(policy(), machine())
    running(host, "2")
    container = host.newest()
    answer = host.handle(UpdateContainer(host.pods["sandbox-old"], container, memory))
    assert (answer.refusal, answer.updates) == (None, ())
    assert events_of(answer) == ["resized"]
    assert answer.records[0].level == "info"
    blocks = host.engine.state.blocks(("old", "main"))
    assert blocks is not None
    assert blocks[0].size == memory


def test_a_container_that_starts_again_leaves_the_excluded_node(new_host: NewHost) -> None:
    host = new_host(policy(), machine())
    running(host, "2")
    host.stop(host.newest())
    assert mems(host.create(host.pods["sandbox-old"], memory=500 * MI)) == "0"


def test_an_unreported_container_on_an_excluded_node_is_adopted(new_host: NewHost) -> None:
    host = new_host(policy(), machine())
    pod = host.run("a")
    found = Container("c", pod.sandbox_id, "c", 100 * MI, cgroup_mems=NodeSet([3]))
    answer = host.handle(ContainersFound(((pod, found),)))
    assert fields_of(answer.records[0])["excluded_nodes"] == "3"


def changed(host: Host, **cpus: str) -> Answer:
    """Report a machine whose node n has the CPUs of n=LIST."""
    now = host.engine.context.machine
    nodes = [
        replace(node, cpus=CpuSet.parse(cpus[f"n{node.node_id}"]))
        if f"n{node.node_id}" in cpus
        else node
        for node in now.nodes
    ]
    return host.handle(MachineChanged(Machine(tuple(nodes))))


def by_event(answer: Answer, event: str) -> list[Record]:
    return [record for record in answer.records if record.event == event]


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_node_that_loses_its_cpus_is_excluded_and_its_containers_stay(
    new_host: NewHost, scope: str
) -> None:
    host = new_host(policy(topology_manager_scope=scope), machine())
    assert placed(host, 600 * MI, 600 * MI) == ["0", "1"]
    answer = changed(host, n1="")
    (record,) = by_event(answer, "machine_changed")
    assert fields_of(record)["nodes"] == {
        "1": {
            "cpus": 0,
            "previous_cpus": 1,
            "class": "cpuless",
            "previous_class": "dram",
            "use": "excluded",
            "previous_use": "used",
        }
    }
    found = by_event(answer, "on_excluded_nodes")
    assert {(r.level, fields_of(r)["pod"], fields_of(r)["excluded_nodes"]) for r in found} == {
        ("warning", "pod-p1", "1")
    }
    assert by_event(answer, "overcommitted") == []
    assert host.placed()["p1"]["main"] == "1"
    assert mems(host.create(host.run("p2", memory=600 * MI), memory=600 * MI)) is None
    # The CPUs come back, and the container counts again.
    answer = changed(host, n1="1")
    assert by_event(answer, "on_excluded_nodes") == []
    assert host.free() == [GI - 600 * MI, GI - 600 * MI]


def test_a_node_that_gets_cpus_is_used(new_host: NewHost) -> None:
    host = new_host(policy(), machine())
    (record,) = changed(host, n2="7").records
    assert fields_of(record)["nodes"]["2"]["class"] == "dram"
    assert placed(host, 1500 * MI) == ["2"]


def test_a_machine_whose_last_cpus_vanish_is_used_as_a_whole(new_host: NewHost) -> None:
    host = new_host(policy(), machine())
    answer = changed(host, n0="", n1="")
    assert events_of(answer) == ["machine_changed", "no_node_has_cpus"]
    assert placed(host, 1500 * MI) == ["2"]
    assert events_of(changed(host, n0="", n1="", n2="")) == []


def test_a_change_that_would_exclude_every_node_is_rejected(new_host: NewHost) -> None:
    nodes = MemoryNodes(override={0: NodeClass.CPULESS, 1: NodeClass.CPULESS})
    host = new_host(replace(policy(), memory_nodes=nodes), machine(3, 0))
    (record,) = changed(host, n2="").records or (None,)
    assert record is not None
    assert record.event == "machine_change_rejected"
    assert "leave at least one node dram" in str(fields_of(record)["cause"])
    assert placed(host, 100 * MI) == ["2"]


def test_the_snapshot_keeps_excluded_nodes_and_a_restart_drops_reservations_there(
    new_host: NewHost,
) -> None:
    host = new_host(policy(WithoutCpus.USE), machine())
    assert placed(host, 1500 * MI) == ["2"]
    host.stop(host.newest())
    restored = restore(snapshot(host.engine.state))
    after = new_host(policy(), machine())
    after.engine = Engine(after.engine.context, restored)
    after.pods = host.pods
    (dropped,) = by_event(after.synchronize(), "stale_reservation_dropped")
    assert fields_of(dropped)["nodes"] == "2"
    assert mems(after.create(host.pods["sandbox-p0"], memory=900 * MI)) == "0"


def test_last_resort_nodes_come_after_all_sets_without_them(new_host: NewHost) -> None:
    host = new_host(LAST_RESORT, machine())
    # Two nodes with CPUs rank before one node without.
    assert placed(host, 1500 * MI) == ["0-1"]
    assert placed(new_host(LAST_RESORT, machine()), 600 * MI, 600 * MI, 600 * MI, 3 * GI) == [
        "0",
        "1",
        "2",
        None,
    ]


def test_a_last_resort_is_refused_by_the_policy_as_any_other_node(new_host: NewHost) -> None:
    host = new_host(
        policy(WithoutCpus.LAST_RESORT, topology_manager_policy="restricted"), machine()
    )
    assert placed(host, 900 * MI, 900 * MI, cpus="0") == ["0", None]


def test_best_effort_ignores_hints_before_it_uses_a_last_resort(new_host: NewHost) -> None:
    host = new_host(LAST_RESORT, machine())
    assert placed(host, 900 * MI, 900 * MI, 900 * MI, devices=["0"]) == ["0", "1", "2"]


def test_a_container_keeps_its_last_resort_node_when_it_starts_again(new_host: NewHost) -> None:
    host = new_host(LAST_RESORT, machine())
    assert placed(host, 900 * MI, 900 * MI, 900 * MI) == ["0", "1", "2"]
    host.stop(host.newest())
    host.stop_pod(host.pods["sandbox-p0"])
    assert mems(host.create(host.pods["sandbox-p2"], memory=900 * MI)) == "2"
    # With another request it is placed anew.
    host.stop(host.newest())
    assert mems(host.create(host.pods["sandbox-p2"], memory=800 * MI)) == "0"


def test_a_resize_uses_a_last_resort_only_without_another_node(new_host: NewHost) -> None:
    host = new_host(LAST_RESORT, machine())
    assert placed(host, 600 * MI) == ["0"]
    pod, container = host.pods["sandbox-p0"], host.newest()
    answer = host.handle(UpdateContainer(pod, container, 1500 * MI))
    assert [update.cpuset_mems for update in answer.updates] == ["0-1"]
    answer = host.handle(UpdateContainer(pod, container, 3 * GI))
    assert [update.cpuset_mems for update in answer.updates] == ["0-2"]
    answer = host.handle(UpdateContainer(pod, container, 7 * GI))
    assert answer.refusal is not None


def test_a_pod_as_a_whole_uses_a_last_resort_only_without_another_node(new_host: NewHost) -> None:
    host = new_host(policy(WithoutCpus.LAST_RESORT, topology_manager_scope="pod"), machine())
    assert placed(host, 1500 * MI, 1500 * MI) == ["0-1", "2"]
    assert mems(host.create(host.run("q", memory=GI), "one", 512 * MI)) == "3"


def movable(size_bytes: int = 8 * GI) -> Machine:
    """Two nodes with CPUs, and one whose memory is in ZONE_MOVABLE."""
    nodes = machine(2, 1).nodes
    return Machine((*nodes[:2], replace(nodes[2], is_movable_only=True, memory_bytes=size_bytes)))


@pytest.mark.parametrize("action", [WithoutCpus.LAST_RESORT, WithoutCpus.USE])
def test_a_movable_node_is_never_the_only_one(new_host: NewHost, action: WithoutCpus) -> None:
    host = new_host(policy(action), movable())
    # Two nodes with CPUs hold too little; the closest of them joins the movable one.
    assert placed(host, 4 * GI) == ["0,2"]
    assert placed(new_host(policy(action), movable()), 900 * MI, 900 * MI, 900 * MI) == [
        "0",
        "1",
        None,
    ]


def test_the_record_names_a_movable_node_that_was_passed_over(new_host: NewHost) -> None:
    host = new_host(policy(WithoutCpus.USE), movable())
    placed(host, 100 * MI)
    (record,) = [r for r in host.answers[-1].records if r.event == "admitted"]
    candidates = fields_of(record)["candidates"]
    assert isinstance(candidates, list)
    rules = {each["nodes"]: each["rule"] for each in candidates if isinstance(each, dict)}
    assert rules["2"] == "no_normal_memory"


def test_hints_have_last_resort_nodes_only_if_nothing_else_fits(new_host: NewHost) -> None:
    host = new_host(LAST_RESORT, machine())
    context, accounting = host.engine.context, host.engine.state.accounting

    def affinities(size_bytes: int) -> list[str]:
        container = ManagedContainer("main", ContainerKind.APP, {"memory": size_bytes})
        pod = Pod("a", guaranteed=True, containers=(container,))
        hints = hints_for_container(context, accounting, pod, "main")
        return [str(hint.affinity) for hint in (hints or {}).get("memory", ())]

    assert affinities(1500 * MI) == ["0-1"]
    assert affinities(3 * GI)[0] == "0,2"
    assert affinities(9 * GI) == []


def test_a_node_without_cpus_that_is_plugged_in_is_excluded(new_host: NewHost) -> None:
    host = new_host(policy(), machine(2, 0))
    placed(host, 600 * MI)
    new = NumaNode(5, 8 * GI, is_movable_only=True, memory_tier=22)
    (record,) = host.handle(
        MachineChanged(Machine((*host.engine.context.machine.nodes, new)))
    ).records
    assert fields_of(record)["nodes"] == {
        "5": {
            "memory": 8 * GI,
            "cpus": 0,
            "distances": "",
            "class": "movable",
            "use": "excluded",
            "memory_tier": 22,
        }
    }
    assert host.free() == [GI - 600 * MI, GI]
