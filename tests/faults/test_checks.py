"""The judge says no when books and node differ, each time in another way."""

from typing import Any

import pytest

from nri_numamem.engine.books import books_record
from nri_numamem.engine.qos import QosClass
from nri_numamem.memorymanager import Machine, NodeSet, NumaNode, default_state
from nri_numamem.memorymanager.books import assign
from nri_numamem.nri import runtime_objects as objects
from tests.faults.checks import Judge, single_node_with_room
from tests.faults.ground import GI, PAGE_2MI, Kept, allocatable
from tests.faults.node import Container, Habits, Held, Node, Pod, Spec

MACHINE = Machine(tuple(NumaNode(number, 4 * GI, {PAGE_2MI: 64}) for number in range(2)))
AMOUNTS = allocatable(MACHINE, {})


class World:
    """A pod with one container of 1 GiB that runs on node 0, and its books."""

    def __init__(self, *, hides_hugepages: bool = False) -> None:
        self.node = Node(Habits(is_crio=False, hides_hugepages=hides_hugepages))
        self.spec = Spec("app", GI, {PAGE_2MI: 2 * PAGE_2MI})
        self.pod = Pod(objects.pod("pod"), QosClass.GUARANTEED, (self.spec,))
        self.node.pods[self.pod.message.id] = self.pod
        message = self.node.new_message(self.pod, self.spec)
        message.linux.resources.cpu.mems = "0"
        self.container = self.node.add(self.pod, self.spec, message)
        request = {"memory": GI, "hugepages-2Mi": 2 * PAGE_2MI}
        state = default_state(MACHINE, {})
        state = assign(state, self.pod.uid, "app", NodeSet([0]), request)
        self.books: dict[str, Any] = dict(books_record(state).fields)
        self.records: list[dict[str, Any]] = []

    def judge(self) -> Judge:
        return Judge(self.node, self.books, self.records, AMOUNTS)

    def complaints(self) -> list[str]:
        judge = self.judge()
        kept = {self.container.key: Kept("0", GI)}
        return [
            *judge.tables(),
            *judge.room(),
            *judge.excuses(),
            *judge.sums(),
            *judge.running(),
            *judge.unpinned(set()),
            *judge.held(),
            *judge.strangers(set()),
            *judge.kept(kept),
        ]


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_to_complain_about(world: World) -> None:
    assert world.complaints() == []


def test_another_machine(world: World) -> None:
    world.books["machineState"]["0"]["memoryMap"]["memory"]["allocatable"] -= 1
    assert "for pods" in next(world.judge().tables())


def test_a_table_that_does_not_add_up(world: World) -> None:
    world.books["machineState"]["1"]["memoryMap"]["memory"]["free"] -= 1
    assert "does not add up" in next(world.judge().tables())


def test_more_runs_than_there_is_room(world: World) -> None:
    world.books["entries"][world.pod.uid]["app"][0]["size"] = 5 * GI
    assert "there are" in next(world.judge().room())


def test_what_runs_is_not_charged(world: World) -> None:
    world.books["machineState"]["0"]["memoryMap"]["memory"]["reserved"] = 0
    assert "0 are charged" in next(world.judge().room())


def test_too_little_needs_an_excuse(world: World) -> None:
    short = {"event": "adopted", "pod_uid": world.pod.uid, "container": "app"}
    world.records.append({**short, "does_not_fit": {"memory": 1}})
    assert "nothing excuses it" in next(world.judge().excuses())
    world.container.is_excused = True
    assert list(world.judge().excuses()) == []


def test_more_than_the_pods_sum(world: World) -> None:
    world.books["entries"][world.pod.uid]["app"][1]["size"] = 4 * PAGE_2MI
    assert "its limit is" in next(world.judge().sums())


def test_what_runs_is_not_on_the_books(world: World) -> None:
    del world.books["entries"][world.pod.uid]
    assert "not on the books" in next(world.judge().running())


def test_other_nodes_and_other_amounts(world: World) -> None:
    world.container.message.linux.resources.cpu.mems = "1"
    world.container.message.linux.resources.memory.limit.value = 2 * GI
    assert len(list(world.judge().running())) == 2


def test_without_nodes_and_without_a_word(world: World) -> None:
    world.container.message.linux.resources.cpu.mems = ""
    assert "nobody said why" in next(world.judge().unpinned(set()))
    assert list(world.judge().unpinned({world.container.message.id})) == []


def test_a_reservation_that_is_lost_moved_or_smaller(world: World) -> None:
    world.pod.held["app"] = Held("1", 2 * GI)
    assert len(list(world.judge().held())) == 2
    world.pod.held["app"] = Held("0", GI)
    assert list(world.judge().held()) == []
    del world.books["entries"][world.pod.uid]
    assert "was not kept" in next(world.judge().held())


def test_what_is_held_for_nobody(world: World) -> None:
    world.pod.has_ended = True
    assert "its pod is gone" in next(world.judge().strangers(set()))
    assert list(world.judge().strangers({world.pod.uid})) == []
    world.pod.has_ended = False
    world.pod.tried.clear()
    assert "was never created" in next(world.judge().strangers(set()))


def test_another_state_file(world: World) -> None:
    assert "differ" in next(world.judge().kept({}))


def test_a_node_with_room() -> None:
    for hides, free in ((False, 0), (True, None)):
        world = World(hides_hugepages=hides)
        container = Container(world.spec, world.pod, world.container.message)
        assert single_node_with_room(world.books, container, world.node) == free
    world = World()
    for state in world.books["machineState"].values():
        state["memoryMap"]["hugepages-2Mi"]["free"] = 0
    assert single_node_with_room(world.books, world.container, world.node) is None


def test_excuses_spread_over_shared_nodes() -> None:
    world = World()
    others = []
    for number, mems in enumerate(("0-1", "1", "")):
        spec = Spec(f"app-{number}", GI, {})
        message = world.node.new_message(world.pod, spec)
        message.linux.resources.cpu.mems = mems
        others.append(world.node.add(world.pod, spec, message))
    world.node.spread_excuses()
    assert not any(container.is_excused for container in others)
    world.container.is_excused = True
    world.node.spread_excuses()
    assert [container.is_excused for container in others] == [True, True, False]
