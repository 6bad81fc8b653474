"""CPUs follow memory: which containers get CPUs, when these change, and what a restart knows."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Adjustment, Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation
from nri_numamem.memorymanager.burstable import BurstableFacts, BurstablePods, Evidence
from nri_numamem.numa import (
    CpuFollowing,
    CpuSet,
    Machine,
    MemoryNodes,
    NodeSet,
    Strategy,
    WithoutCpus,
)
from tests.engine.conftest import GI, MI, Answer, Host, four_nodes
from tests.engine.operations import count_operations

RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
PREFER, REQUIRE, OFF = CpuFollowing.PREFER, CpuFollowing.REQUIRE, CpuFollowing.OFF
CPU = 1024


def policy_with(following: CpuFollowing, **more: object) -> Policy:
    made = Policy(reserved_memory=RESERVED, cpu_following=following)
    return replace(made, **more)  # type: ignore[arg-type]


def new_host(
    following: CpuFollowing = PREFER, machine: Machine | None = None, **more: object
) -> Host:
    made = policy_with(following, **more)
    return Host(Engine(new_context(machine or four_nodes(), made)))


def create(
    host: Host, uid: str = "a", memory: int = 200, cpus: int | None = 1, **more: object
) -> Answer:
    """Create a container of a new pod, with MiB of memory and a request for CPUs."""
    shares = None if cpus is None else cpus * CPU
    pod = host.run(uid)
    return host.create(pod, memory=memory * MI, cpu_shares=shares, **more)  # type: ignore[arg-type]


def placed(answer: Answer) -> tuple[str, str]:
    assert answer.adjustment is not None
    return answer.adjustment.cpuset_mems, answer.adjustment.cpuset_cpus


def names(answer: Answer) -> list[str]:
    return [record.event for record in answer.records]


@pytest.mark.parametrize("following", [PREFER, REQUIRE])
def test_a_pinned_container_gets_the_cpus_of_its_nodes(following: CpuFollowing) -> None:
    answer = create(new_host(following))
    assert answer.adjustment == Adjustment("0", cpuset_cpus="0-3")
    assert names(answer) == ["admitted", "cpus_set"]
    assert fields_of(answer.records[-1]) == {
        "pod": "pod-a",
        "namespace": "ns",
        "container": "main",
        "pod_uid": "a",
        "container_id": "sandbox-a-main-0",
        "nodes": "0",
        "cpus": "0-3",
    }


def test_on_several_nodes_it_gets_the_cpus_of_all() -> None:
    assert placed(create(new_host(), memory=1200)) == ("0-1", "0-7")


def test_switched_off_nothing_is_set() -> None:
    host = new_host(OFF)
    answer = create(host)
    assert answer.adjustment == Adjustment("0")
    assert names(answer) == ["admitted"]
    assert b"cpus" not in snapshot(host.engine.state)


def test_a_container_that_is_not_pinned_gets_no_cpus() -> None:
    host = new_host()
    burstable = host.create(host.run("b", "burstable/"))
    assert burstable.adjustment is None
    assert names(burstable) == ["not_managed"]
    preset = create(host, "p", mems="1")
    assert preset.adjustment is None
    host = new_host(when_unsatisfiable="RunUnpinned")
    assert create(host, memory=9000).adjustment is None
    refused = create(new_host(), memory=9000)
    assert refused.refusal is not None
    assert names(refused) == ["rejected"]


def test_a_container_that_has_cpus_is_left_as_it_is() -> None:
    host = new_host(REQUIRE)
    answer = host.create(host.run("a"), cpus="4-5", cpu_shares=2 * CPU)
    assert answer.adjustment == Adjustment("1")
    assert names(answer) == ["admitted", "cpus_not_set"]
    assert fields_of(answer.records[-1])["cause"] == "it has a cpuset.cpus already"


def test_prefer_gives_no_cpus_where_requests_exceed_them() -> None:
    host = new_host(PREFER, topology_manager_policy="none")
    assert placed(create(host, "a", cpus=3)) == ("0", "0-3")
    large = create(host, "b", memory=1200, cpus=9)
    assert placed(large) == ("2-3", "")
    assert names(large) == ["admitted", "cpus_not_set"]
    cause = fields_of(large.records[-1])["cause"]
    assert cause == "9 CPUs are requested on its NUMA nodes, which have 8"


def test_prefer_counts_the_requests_of_other_containers() -> None:
    host = Host(
        Engine(
            new_context(
                Machine(four_nodes().nodes[:1]),
                Policy(reserved_memory=RESERVED[:1], cpu_following=PREFER),
            )
        )
    )
    assert placed(create(host, "a", cpus=3)) == ("0", "0-3")
    answer = create(host, "b", cpus=2)
    assert placed(answer) == ("0", "")
    cause = fields_of(answer.records[-1])["cause"]
    assert cause == "5 CPUs are requested on its NUMA nodes, which have 4"
    host.stop_pod(host.pods["sandbox-a"])
    assert placed(create(host, "c", cpus=2)) == ("0", "0-3")


def test_require_gives_the_cpus_of_the_nodes_in_any_case() -> None:
    answer = create(new_host(REQUIRE), cpus=9)
    assert placed(answer) == ("0", "0-3")
    assert names(answer) == ["admitted", "cpus_set"]
    cause = fields_of(answer.records[-1])["cause"]
    assert cause == "9 CPUs are requested on its NUMA nodes, which have 4"


@pytest.mark.parametrize(
    ("following", "cpus", "event"),
    [(PREFER, "", "cpus_not_set"), (REQUIRE, "0-3", "cpus_set")],
)
def test_a_cpu_limit_above_the_cpus_of_the_nodes(
    following: CpuFollowing, cpus: str, event: str
) -> None:
    host = new_host(following)
    pod = host.run("a")
    container = events.Container(
        "c", pod.sandbox_id, "main", 200 * MI, cpu_shares=CPU, cpu_limit_millicores=4500
    )
    answer = host.handle(events.CreateContainer(pod, container))
    assert placed(answer) == ("0", cpus)
    assert answer.records[-1].event == event
    assert fields_of(answer.records[-1])["cause"] == (
        "its CPU limit is 4.5 CPUs, and its NUMA nodes have 4"
    )


def test_reserved_and_isolated_cpus_are_left_out() -> None:
    host = new_host(reserved_cpus=CpuSet({0, 4}))
    isolated = events.HostCpus(CpuSet({1}))
    assert host.handle(isolated).records == ()
    assert placed(create(host)) == ("0", "2-3")
    none = new_host(REQUIRE, reserved_cpus=CpuSet(range(16)))
    answer = create(none)
    assert placed(answer) == ("0", "")
    cause = fields_of(answer.records[-1])["cause"]
    assert cause == "all CPUs of the machine are reserved or isolated"


def cpuless() -> Machine:
    """Node 2 has no CPUs, and is closest to node 3."""
    nodes = four_nodes().nodes
    return Machine((*nodes[:2], replace(nodes[2], cpus=CpuSet()), nodes[3]))


def test_memory_without_cpus_gets_the_nearest_cpus_and_counts_as_aligned() -> None:
    host = new_host(
        REQUIRE,
        machine=cpuless(),
        memory_nodes=MemoryNodes(WithoutCpus.USE),
    )
    for uid in "abd":
        create(host, uid, memory=800)
    answer = create(host, "c", memory=800)
    assert placed(answer) == ("2", "12-15")
    synchronized = host.synchronize()
    assert "misaligned" not in names(synchronized)
    assert host.engine.state.holders["c", "main"].cpus == CpuSet(range(12, 16))


def test_a_resize_to_more_nodes_widens_the_cpus() -> None:
    host = new_host()
    create(host, memory=600)
    answer = host.resize(host.newest(), 1200 * MI)
    assert answer.updates == (Update("sandbox-a-main-0", "0-1", "0-7"),)
    assert names(answer) == ["resized", "cpus_set"]
    assert fields_of(answer.records[-1])["previous_cpus"] == "0-3"
    assert fields_of(answer.records[-1])["cpus"] == "0-7"
    assert host.engine.state.holders["a", "main"].cpus == CpuSet(range(8))


def test_a_resize_gives_no_cpus_to_a_container_without() -> None:
    host = new_host()
    create(host, memory=600, cpus=5)
    answer = host.resize(host.newest(), 1200 * MI)
    assert answer.updates == (Update("sandbox-a-main-0", "0-1"),)
    assert names(answer) == ["resized"]


def test_a_restarted_container_is_decided_anew() -> None:
    host = new_host()
    pod = host.run("a")
    host.create(pod, cpu_shares=4 * CPU)
    host.stop(host.newest())
    assert placed(host.create(pod, cpu_shares=4 * CPU)) == ("0", "0-3")


@pytest.mark.parametrize("with_snapshot", [True, False])
@pytest.mark.parametrize("shares", [1, 4])
def test_a_restart_of_the_plugin_changes_nothing(shares: int, with_snapshot: bool) -> None:
    host = new_host()
    create(host, memory=600, cpus=shares)
    state = restore(snapshot(host.engine.state)) if with_snapshot else None
    host.engine = Engine(host.engine.context, state)
    answer = host.synchronize()
    assert answer.updates == ()
    assert "misaligned" not in names(answer)
    assert host.engine.state.holders["a", "main"].cpus == CpuSet(range(4))
    assert host.resize(host.newest(), 1200 * MI).updates[0].cpuset_cpus == "0-7"


def test_cpus_of_another_provider_stay_as_they_are() -> None:
    host = new_host(REQUIRE)
    host.create(host.run("a"), memory=600 * MI, cpus="4-5", cpu_shares=2 * CPU)
    host.engine = Engine(host.engine.context)
    assert host.synchronize().updates == ()
    assert host.engine.state.holders["a", "main"].cpus == CpuSet()
    assert host.resize(host.newest(), 1200 * MI).updates[0].cpuset_cpus == ""


def test_a_runtime_that_forgets_updates_gets_the_cpus_again() -> None:
    host = new_host()
    create(host, memory=600)
    created = host.newest()
    host.resize(created, 1200 * MI)
    shown = replace(
        created,
        memory_limit_bytes=1200 * MI,
        cgroup_mems=host.engine.state.blocks(("a", "main"))[0].numa_affinity,  # type: ignore[index]
    )
    host.containers[shown.container_id] = shown
    host.engine = Engine(host.engine.context, restore(snapshot(host.engine.state)))
    answer = host.synchronize(keeps_updates=False)
    assert answer.updates == (Update(shown.container_id, "0-1", "0-7"),)
    assert host.engine.state.holders["a", "main"].cpus == CpuSet(range(8))


def test_a_container_that_ran_unpinned_gets_nodes_and_cpus() -> None:
    host = new_host()
    pod = host.run("a")
    container = events.Container("c", pod.sandbox_id, "main", 200 * MI, cpu_shares=CPU)
    host.containers["c"] = container
    answer = host.synchronize()
    assert answer.updates == (Update("c", "0", "0-3"),)
    assert "cpus_set" in names(answer)
    assert host.engine.state.holders["a", "main"].cpus == CpuSet(range(4))


def test_a_container_that_is_pinned_without_cpus_stays_so() -> None:
    host = new_host(OFF)
    create(host)
    host.engine = Engine(new_context(four_nodes(), policy_with(REQUIRE)))
    assert host.synchronize().updates == ()
    assert host.engine.state.holders["a", "main"].cpus == CpuSet()


def test_other_cpus_of_the_nodes_arrive_with_a_later_reply() -> None:
    host = new_host()
    create(host)
    nodes = four_nodes().nodes
    more = Machine((replace(nodes[0], cpus=CpuSet([0, 1, 2, 3, 16])), *nodes[1:]))
    assert host.handle(events.MachineChanged(more)).updates == ()
    answer = create(host, "b", memory=100)
    assert answer.updates == (Update("sandbox-a-main-0", "", "0-3,16"),)
    assert [fields_of(r)["cpus"] for r in answer.records if r.event == "cpus_set"] == [
        "0-3,16",
        "0-3,16",
    ]
    assert create(host, "c", memory=100).updates == ()
    assert host.engine.state.cpusets.other_cpus == frozenset()


def test_cpus_that_changed_while_the_plugin_was_away() -> None:
    host = new_host()
    create(host)
    saved = restore(snapshot(host.engine.state))
    nodes = four_nodes().nodes
    fewer = Machine((replace(nodes[0], cpus=CpuSet([0, 1])), *nodes[1:]))
    host.engine = Engine(new_context(fewer, policy_with(PREFER)), saved)
    assert host.synchronize().updates == ()
    assert create(host, "b").updates == (Update("sandbox-a-main-0", "", "0-1"),)


def test_a_container_that_ends_before_its_cpus_changed_gets_no_update() -> None:
    host = new_host()
    create(host)
    host.handle(events.HostCpus(CpuSet({0})))
    assert host.stop(host.newest()).updates == ()
    assert host.engine.state.cpusets.other_cpus == frozenset()
    assert create(host, "b").updates == ()


def test_no_cpus_left_beside_the_nodes_of_a_container_that_runs() -> None:
    host = new_host()
    create(host, memory=600)
    host.handle(events.HostCpus(CpuSet(range(16))))
    assert host.resize(host.newest(), 1200 * MI).updates == (Update("sandbox-a-main-0", "0-1"),)
    assert host.engine.state.holders["a", "main"].cpus == CpuSet(range(4))


def test_the_static_cpu_manager_of_the_kubelet_switches_it_off() -> None:
    host = new_host(REQUIRE)
    create(host)
    static = events.HostCpus(kubelet_policy="static")
    assert [r.event for r in host.handle(static).records] == ["cpus_left_to_kubelet"]
    assert host.handle(static).records == ()
    assert placed(create(host, "b")) == ("0", "")
    none = events.HostCpus(kubelet_policy="none")
    assert [r.event for r in host.handle(none).records] == ["cpus_follow_memory"]
    assert placed(create(host, "c")) == ("0", "0-3")


def test_a_change_of_the_machine_keeps_what_is_known_of_the_cpus() -> None:
    host = new_host()
    host.handle(events.HostCpus(CpuSet({0}), "none"))
    nodes = four_nodes().nodes
    host.handle(
        events.MachineChanged(Machine((replace(nodes[0], memory_bytes=2 * GI), *nodes[1:])))
    )
    assert placed(create(host)) == ("0", "1-3")


def test_the_configuration_of_the_kubelet_switches_it_off() -> None:
    host = new_host(REQUIRE, has_static_cpus=True)
    found = [record.event for record in host.engine.context.start_records("1")]
    assert "cpus_left_to_kubelet" in found
    assert placed(create(host)) == ("0", "")
    off = new_host(OFF, has_static_cpus=True)
    found = [record.event for record in off.engine.context.start_records("1")]
    assert "cpus_left_to_kubelet" not in found


def test_of_equal_nodes_one_with_room_for_the_cpu_request_wins() -> None:
    host = new_host()
    assert placed(create(host, "a", cpus=3)) == ("0", "0-3")
    assert placed(create(host, "b", cpus=1)) == ("0", "0-3")
    assert placed(create(host, "c", cpus=1)) == ("1", "4-7")
    assert placed(create(host, "d", cpus=4)) == ("2", "8-11")


def test_the_cpu_request_never_leads_to_a_rejection() -> None:
    host = new_host(REQUIRE)
    for uid in "abcd":
        create(host, uid, cpus=4)
    assert placed(create(host, "e", cpus=4)) == ("0", "0-3")
    assert placed(create(host, "f", memory=700, cpus=4)) == ("1", "4-7")


def test_a_closer_set_wins_over_one_with_room() -> None:
    host = new_host(topology_manager_policy="best-effort")
    for uid in "ab":
        create(host, uid, memory=1200, cpus=8)
    host.stop_pod(host.pods["sandbox-b"])
    assert placed(create(host, "c", memory=1200, cpus=1)) == ("2-3", "8-15")


def test_a_node_with_room_wins_before_the_strategy() -> None:
    host = new_host(placement_strategy=Strategy.PACK)
    assert placed(create(host, "a", cpus=3)) == ("0", "0-3")
    assert placed(create(host, "b", cpus=1)) == ("0", "0-3")
    assert placed(create(host, "c", cpus=2)) == ("1", "4-7")
    assert placed(create(host, "d", cpus=1)) == ("1", "4-7")


def test_reserved_cpus_are_no_room() -> None:
    host = new_host(reserved_cpus=CpuSet({0, 1}))
    assert placed(create(host, "a", cpus=3)) == ("1", "4-7")


def test_switched_off_the_cpu_request_has_no_effect() -> None:
    host = new_host(OFF)
    for uid in "abc":
        assert placed(create(host, uid, cpus=4)) == ("0", "")


def test_a_container_of_a_burstable_pod_that_loses_its_nodes_gets_all_cpus() -> None:
    host = new_host(burstable_pods=BurstablePods((Evidence.MEMORY_RESERVATION,)))
    pod = host.run("a", "burstable/")
    container = events.Container(
        "c", pod.sandbox_id, "main", 200 * MI, burstable=BurstableFacts(200 * MI)
    )
    assert placed(host.handle(events.CreateContainer(pod, container))) == ("0", "0-3")
    answer = host.handle(events.UpdateContainer(pod, container, 300 * MI))
    assert answer.updates == (Update("c", "0-3", "0-15"),)
    assert fields_of(answer.records[-1])["previous_cpus"] == "0-3"


def test_a_runtime_that_forgets_updates_gets_no_cpus_that_were_never_set() -> None:
    host = new_host(OFF)
    create(host, memory=600)
    created = host.newest()
    host.resize(created, 1200 * MI)
    nodes = NodeSet({0, 1})
    shown = replace(created, memory_limit_bytes=1200 * MI, cgroup_mems=nodes)
    host.containers[shown.container_id] = shown
    state = restore(snapshot(host.engine.state))
    host.engine = Engine(new_context(four_nodes(), policy_with(REQUIRE)), state)
    answer = host.synchronize(keeps_updates=False)
    assert answer.updates == (Update(shown.container_id, "0-1"),)
    assert host.engine.state.holders["a", "main"].cpus == CpuSet()


def test_other_containers_of_a_synchronize_are_left_as_they_are() -> None:
    host = new_host(REQUIRE)
    host.create(host.run("b", "burstable/"), cpus="0-3")
    create(host, "a")
    shown = host.newest()
    host.containers[shown.container_id] = replace(shown, cpuset_cpus="x")
    host.engine = Engine(host.engine.context)
    assert host.synchronize().updates == ()
    assert host.engine.state.holders["a", "main"].cpus == CpuSet()


def test_nodes_that_are_sent_again_come_with_their_cpus() -> None:
    host = new_host()
    create(host)
    shown = host.newest()
    use = events.CgroupUse(NodeSet(range(4)), {0: MI})
    for _ in range(2):
        read = events.CpusetRead(shown.container_id, NodeSet(), use)
        host.handle(events.CpusetsRead((read,)))
    answer = create(host, "b", memory=100)
    assert answer.updates == (Update(shown.container_id, "0", "0-3"),)
    changed = [record for record in answer.records if "previous_cpus" in fields_of(record)]
    assert changed == []


def unpinned(count: int, cpus: int = 4) -> Host:
    """Return a host with pods of one container that no plugin has seen."""
    host = new_host()
    for number in range(count):
        pod = host.run(f"p{number:04}")
        container = events.Container(
            pod.uid, pod.sandbox_id, "main", MI, cpu_shares=cpus * CPU, creation_order=number
        )
        host.containers[pod.uid] = container
    host.engine = Engine(host.engine.context)
    return host


def test_containers_that_ran_unpinned_go_where_the_cpus_suffice() -> None:
    host = unpinned(4)
    host.synchronize()
    assert [one["main"] for one in host.placed().values()] == ["0", "1", "2", "3"]
    assert [str(one.cpus) for one in host.engine.state.holders.values()] == [
        "0-3",
        "4-7",
        "8-11",
        "12-15",
    ]


def test_a_synchronize_takes_time_in_proportion_to_the_containers() -> None:
    counts = [count_operations(unpinned(count, 1).synchronize) for count in (20, 40, 80)]
    assert counts[2] - counts[1] < 2.2 * (counts[1] - counts[0])
