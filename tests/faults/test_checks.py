"""AccountingCheck finds every kind of difference between accounting and node."""

from typing import Any

import pytest

from nri_numamem.engine.queries.dump import accounting_record
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import QosClass, default_state
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode
from tests.faults.checks import AccountingCheck, joined, most_charged
from tests.faults.host import StateEntry, allocatable
from tests.faults.node import Node, Pod, Reservation, RuntimeTraits
from tests.laboratory import objects
from tests.sequences.machine import GI, PAGE_2MI
from tests.sequences.operations import Spec

MACHINE = Machine(tuple(NumaNode(number, 4 * GI, {PAGE_2MI: 64}) for number in range(2)))
AMOUNTS = allocatable(MACHINE, {})


class World:
    """A pod with one container of 1 GiB that runs on node 0, and its accounting."""

    def __init__(self, *, hides_hugepages: bool = False) -> None:
        self.node = Node(RuntimeTraits(is_crio=False, hides_hugepages=hides_hugepages))
        self.spec = Spec("app", GI, {PAGE_2MI: 2 * PAGE_2MI})
        self.pod = Pod(objects.pod("pod"), QosClass.GUARANTEED, (self.spec,))
        self.node.pods[self.pod.message.id] = self.pod
        message = self.node.new_message(self.pod, self.spec)
        message.linux.resources.cpu.mems = "0"
        self.container = self.node.add(self.pod, self.spec, message)
        request = {"memory": GI, "hugepages-2Mi": 2 * PAGE_2MI}
        state = default_state(MACHINE, {})
        state = assign(state, self.pod.uid, "app", NodeSet([0]), request)
        self.accounting: dict[str, Any] = dict(fields_of(accounting_record(state)))
        self.records: list[dict[str, Any]] = []

    def check(self) -> AccountingCheck:
        return AccountingCheck(self.node, self.accounting, self.records, AMOUNTS)

    def problems(self) -> list[str]:
        check = self.check()
        entries = {self.container.key: StateEntry("0", GI, self.pod.message.id)}
        return [
            *check.tables(),
            *check.capacity(),
            *check.free(),
            *check.shortfalls(),
            *check.pod_limits(),
            *check.running(),
            *check.unpinned(set()),
            *check.reservations(),
            *check.unknown_entries(set()),
            *check.state_file(entries),
        ]


@pytest.fixture
def world() -> World:
    return World()


def test_a_correct_accounting_has_no_problems(world: World) -> None:
    assert world.problems() == []


def test_another_machine(world: World) -> None:
    world.accounting["machineState"]["0"]["memoryMap"]["memory"]["allocatable"] -= 1
    assert "allocatable is" in next(world.check().tables())


def test_a_table_that_does_not_add_up(world: World) -> None:
    world.accounting["machineState"]["1"]["memoryMap"]["memory"]["free"] -= 1
    assert "does not add up" in next(world.check().tables())


def test_more_runs_than_there_is_room(world: World) -> None:
    world.accounting["entries"][world.pod.uid]["app"][0]["size"] = 5 * GI
    assert "the capacity is" in next(world.check().capacity())


def test_memory_is_free_that_containers_hold(world: World) -> None:
    table = world.accounting["machineState"]["0"]["memoryMap"]["memory"]
    table["free"] += 1
    table["reserved"] -= 1
    (problem,) = world.check().free()
    assert f"nodes 0: {3 * GI + 1 - 64 * PAGE_2MI}" in problem


def test_what_fits_on_nodes_that_overlap() -> None:
    held = [(NodeSet([0]), 6), (NodeSet([0, 1]), 8), (NodeSet([2]), 9)]
    assert joined([nodes for nodes, _ in held], NodeSet(range(3))) == [
        NodeSet([0, 1]),
        NodeSet([2]),
    ]
    assert most_charged(held[:2], {0: 8, 1: 8}) == 14
    assert most_charged([(NodeSet([0]), 6), (NodeSet([0]), 6)], {0: 8, 1: 8}) == 8


def test_memory_of_a_running_container_is_not_reserved(world: World) -> None:
    world.accounting["machineState"]["0"]["memoryMap"]["memory"]["reserved"] = 0
    assert "0 are reserved" in next(world.check().capacity())


def test_a_shortfall_needs_an_exemption(world: World) -> None:
    short = {"event": "adopted", "pod_uid": world.pod.uid, "container": "app"}
    world.records.append({**short, "shortfall_bytes": {"memory": 1}})
    assert "is not exempt" in next(world.check().shortfalls())
    world.container.is_exempt = True
    assert list(world.check().shortfalls()) == []


def test_more_than_the_pods_sum(world: World) -> None:
    world.accounting["entries"][world.pod.uid]["app"][1]["size"] = 4 * PAGE_2MI
    assert "its limit is" in next(world.check().pod_limits())


def test_a_running_container_without_an_assignment(world: World) -> None:
    del world.accounting["entries"][world.pod.uid]
    assert "not recorded" in next(world.check().running())


def test_other_nodes_and_other_amounts(world: World) -> None:
    world.container.message.linux.resources.cpu.mems = "1"
    world.container.message.linux.resources.memory.limit.value = 2 * GI
    assert len(list(world.check().running())) == 2


def test_an_unpinned_container_needs_a_reason(world: World) -> None:
    world.container.message.linux.resources.cpu.mems = ""
    assert "without a reason" in next(world.check().unpinned(set()))
    assert list(world.check().unpinned({world.container.message.id})) == []


def test_cpus_that_are_not_beside_the_memory(world: World) -> None:
    machine = Machine(tuple(NumaNode(n, GI, cpus=CpuSet([n])) for n in range(2)))
    for cpus in ("", "0"):
        world.container.message.linux.resources.cpu.cpus = cpus
        assert list(world.check().cpus(machine)) == []
    world.container.message.linux.resources.cpu.cpus = "1"
    assert "is on 0 with the CPUs 1" in next(world.check().cpus(machine))


def test_a_container_on_an_excluded_node(world: World) -> None:
    assert "are excluded" in next(world.check().excluded(NodeSet([0, 1])))
    assert list(world.check().excluded(NodeSet([1]))) == []


def test_a_reservation_that_is_lost_moved_or_smaller(world: World) -> None:
    world.pod.reservations["app"] = Reservation("1", 2 * GI)
    assert len(list(world.check().reservations())) == 2
    world.pod.reservations["app"] = Reservation("0", GI)
    assert list(world.check().reservations()) == []
    del world.accounting["entries"][world.pod.uid]
    assert "is missing" in next(world.check().reservations())


def test_the_reservation_of_a_container_whose_end_was_lost_may_be_wider(world: World) -> None:
    reservation = Reservation("0", GI, is_end_lost=True)
    assert reservation.may_be_on(NodeSet([0, 1]))
    assert not reservation.may_be_on(NodeSet([1]))
    assert not Reservation("0", GI).may_be_on(NodeSet([0, 1]))
    world.accounting["entries"][world.pod.uid]["app"][0]["numaAffinity"] = [0, 1]
    world.node.end(world.container, is_recorded=True)
    assert "is on 0-1" in next(world.check().reservations())
    world.node.end(world.container, is_recorded=True, is_end_lost=True)
    assert list(world.check().reservations()) == []


def test_an_assignment_of_an_ended_or_unknown_container(world: World) -> None:
    world.pod.has_ended = True
    assert "its pod has ended" in next(world.check().unknown_entries(set()))
    assert list(world.check().unknown_entries({world.pod.uid})) == []
    world.pod.has_ended = False
    world.pod.attempted_names.clear()
    assert "was never created" in next(world.check().unknown_entries(set()))


def test_another_state_file(world: World) -> None:
    assert "differ" in next(world.check().state_file({}))


def test_exemptions_spread_over_shared_nodes() -> None:
    world = World()
    others = []
    for number, mems in enumerate(("0-1", "1", "")):
        spec = Spec(f"app-{number}", GI, {})
        message = world.node.new_message(world.pod, spec)
        message.linux.resources.cpu.mems = mems
        others.append(world.node.add(world.pod, spec, message))
    world.node.spread_exemptions()
    assert not any(container.is_exempt for container in others)
    world.container.is_exempt = True
    world.node.spread_exemptions()
    assert [container.is_exempt for container in others] == [True, True, False]


def test_a_pinned_container_of_a_burstable_pod_must_be_recorded() -> None:
    world = World()
    world.pod.qos = QosClass.BURSTABLE
    assert any("its pod has ended" in text for text in world.check().unknown_entries(set()))
    world.node.pins_burstable = True
    assert list(world.check().unknown_entries(set())) == []
    world.accounting["entries"] = {}
    (problem,) = world.check().running()
    assert "runs on 0 and is not recorded" in problem
    world.container.message.linux.resources.cpu.mems = "0-1"
    assert list(world.check().running()) == []
    world.pod.qos = QosClass.GUARANTEED
    (problem,) = world.check().running()
    assert "runs on 0-1 and is not recorded" in problem
    world.pod.qos = QosClass.BURSTABLE
    world.container.message.linux.resources.cpu.mems = "0"
    assert list(world.check().excluded(NodeSet([0]))) != []
    world.container.is_unpinned = True
    assert list(world.check().running()) == []
    assert list(world.check().excluded(NodeSet([0]))) == []


def test_only_burstable_containers_have_a_reservation_of_memory() -> None:
    node = Node(RuntimeTraits(is_crio=False, hides_hugepages=True), pins_burstable=True)
    for qos in (QosClass.GUARANTEED, QosClass.BURSTABLE):
        spec = Spec("app", GI, {}, memory_low_bytes=GI // 2)
        pod = Pod(objects.pod("pod", qos=qos), qos, (spec,))
        unified = node.new_message(pod, spec).linux.resources.unified
        reserved = {"memory.low": str(GI // 2)} if qos is QosClass.BURSTABLE else {}
        assert dict(unified) == reserved
