"""Room that is set aside, as another placement sees it, and the accounting after it."""

import pytest

from nri_numamem.memorymanager import State, check_accounting, default_state
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.earmarks import Room, set_aside
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.numa import Machine, NodeSet, NumaNode

GI = 1 << 30
PAGES = "hugepages-2Mi"


def _state() -> State:
    nodes = tuple(
        NumaNode(node, 8 * GI, {2 << 20: 512}, distances={o: 10 + 10 * (o != node) for o in (0, 1)})
        for node in (0, 1)
    )
    return default_state(Machine(nodes), {})


def _free(state: State, node: int, resource: str = "memory") -> int:
    return state.machine_state[node].table(resource).free // GI


def test_a_room_on_one_node_is_assigned_as_far_as_it_is_free() -> None:
    state = assign(_state(), "a", "main", NodeSet([0]), {"memory": 5 * GI})
    room = Room(NodeSet([0]), {"memory": 6 * GI, PAGES: GI})
    masked = set_aside(MaskedState(state), {"e": room})
    assert [_free(masked.state, node) for node in (0, 1)] == [0, 7]
    assert [_free(masked.state, node, PAGES) for node in (0, 1)] == [0, 1]
    assert not check_accounting(masked.state)
    after = assign(masked.state, "b", "main", NodeSet([1]), {"memory": GI})
    unmasked = masked.unmask(after)
    assert unmasked == assign(state, "b", "main", NodeSet([1]), {"memory": GI})


def test_rooms_of_several_earmarks_add_up() -> None:
    rooms = {each: Room(NodeSet([0]), {"memory": 3 * GI}) for each in ("e", "f", "g", "h")}
    masked = set_aside(MaskedState(_state()), rooms)
    assert _free(masked.state, 0) == 0
    assert masked.unmask(masked.state) == _state()


@pytest.mark.parametrize("own", [None, NodeSet([1])])
def test_the_nodes_of_a_room_for_a_group_are_absent_but_own_ones(own: NodeSet | None) -> None:
    room = Room(NodeSet([0, 1]), {"memory": 9 * GI})
    masked = set_aside(MaskedState(_state()), {"e": room}, own)
    assert list(masked.state.machine_state) == ([1] if own else [])
    assert masked.unmask(masked.state) == _state()


def test_a_node_of_a_group_is_absent_too() -> None:
    state = assign(_state(), "a", "main", NodeSet([0, 1]), {"memory": 9 * GI})
    masked = set_aside(MaskedState(state), {"e": Room(NodeSet([0]), {"memory": GI})})
    assert list(masked.state.machine_state) == [1]
    assert masked.unmask(masked.state) == state


def test_a_node_that_is_gone_has_no_room() -> None:
    masked = set_aside(MaskedState(_state()), {"e": Room(NodeSet([7]), {"memory": GI})})
    assert masked == MaskedState(_state())
