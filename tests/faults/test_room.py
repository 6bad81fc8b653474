"""Nodes with room for a refused container."""

from typing import Any

from nri_numamem.engine.queries.dump import accounting_record
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import QosClass, State, default_state
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.numa import Machine, NodeSet, NumaNode
from tests.faults.host import NO_NODES
from tests.faults.node import Container, Node, Pod, RuntimeTraits
from tests.faults.room import single_node_with_room, two_nodes_with_room
from tests.laboratory import objects
from tests.sequences.machine import GI, PAGE_2MI
from tests.sequences.operations import Spec

# Each node has 4 GiB beside its hugepages.
MACHINE = Machine(
    tuple(NumaNode(number, 4 * GI + 64 * PAGE_2MI, {PAGE_2MI: 64}) for number in range(3))
)
EMPTY = default_state(MACHINE, {})
PAGES = "hugepages-2Mi"


class Refused:
    """A container that does not run, on a node whose runtime may hide hugepages."""

    def __init__(self, memory_bytes: int, pages: int, *, hides_hugepages: bool = False) -> None:
        self.node = Node(RuntimeTraits(is_crio=False, hides_hugepages=hides_hugepages))
        spec = Spec("app", memory_bytes, {PAGE_2MI: pages * PAGE_2MI})
        pod = Pod(objects.pod("pod"), QosClass.GUARANTEED, (spec,))
        self.container = Container(spec, pod, self.node.new_message(pod, spec))

    def single(self, state: State, movable: NodeSet = NO_NODES) -> int | None:
        return single_node_with_room(_shown(state), self.container, self.node, movable)

    def two(self, state: State, movable: NodeSet = NO_NODES) -> NodeSet | None:
        return two_nodes_with_room(_shown(state), self.container, self.node, movable)


def _shown(state: State) -> dict[str, Any]:
    return dict(fields_of(accounting_record(state)))


def _with(state: State, name: str, nodes: list[int], request: dict[str, int]) -> State:
    return assign(state, "other", name, NodeSet(nodes), request)


def test_the_first_node_with_all_resources() -> None:
    assert Refused(GI, 2).single(EMPTY) == 0
    full = _with(EMPTY, "a", [0], {"memory": GI, PAGES: 63 * PAGE_2MI})
    assert Refused(GI, 2).single(full) == 1
    assert Refused(GI, 1).single(full) == 0
    assert Refused(GI, 65).single(EMPTY) is None
    assert Refused(5 * GI, 0).single(EMPTY) is None


def test_no_node_of_a_group_and_no_movable_one() -> None:
    grouped = _with(EMPTY, "a", [0, 1], {"memory": 5 * GI})
    assert Refused(GI, 0).single(grouped) == 2
    assert Refused(GI, 0).single(grouped, NodeSet([2])) is None


def test_nothing_is_known_of_hidden_hugepages() -> None:
    assert Refused(GI, 2, hides_hugepages=True).single(EMPTY) is None
    assert Refused(GI, 0, hides_hugepages=True).single(EMPTY) == 0


def test_two_unassigned_nodes_with_half_each() -> None:
    assert Refused(8 * GI, 128).two(EMPTY) == NodeSet([0, 1])
    assert Refused(8 * GI + 1, 0).two(EMPTY) is None
    assert Refused(GI, 129).two(EMPTY) is None
    busy = _with(EMPTY, "a", [1], {"memory": GI})
    assert Refused(GI, 3).two(busy) == NodeSet([0, 2])
    assert Refused(GI, 3).two(busy, NodeSet([0, 2])) is None
    assert Refused(GI, 3).two(busy, NodeSet([0])) == NodeSet([0, 2])


def test_two_nodes_that_are_a_group_already() -> None:
    group = _with(EMPTY, "a", [1, 2], {"memory": 5 * GI})
    assert Refused(2 * GI, 0).two(group) is None  # node 1 is full
    small = _with(EMPTY, "a", [1, 2], {"memory": GI})
    assert Refused(6 * GI, 0).two(small) == NodeSet([1, 2])
    whole = _with(EMPTY, "a", [0, 1, 2], {"memory": 9 * GI})
    assert Refused(1, 0).two(whole) is None
