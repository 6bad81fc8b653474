"""The state at the start of a scenario."""

import pytest

from nri_numamem.config.values import SettingsError
from nri_numamem.memorymanager import Block, NodeState, Table, default_state
from nri_numamem.numa import Machine, NodeSet, NumaNode
from nri_numamem.scenario.state import WrittenState, read_state

GI = 1 << 30
PATH = ("state",)
BLOCK = {"numaAffinity": [0, 1], "type": "memory", "size": "3Gi"}
ENTRIES = {"u": {"c": [BLOCK]}}
EMPTY = default_state(Machine((NumaNode(0, 2 * GI), NumaNode(1, 2 * GI))), {0: {}, 1: {}})


def test_no_state() -> None:
    assert read_state(PATH, None) == WrittenState(None, {})
    assert read_state(PATH, None).machine() == Machine(())


def test_entries_are_charged_to_the_empty_machine() -> None:
    state = read_state(PATH, {"entries": ENTRIES})
    assert state.entries == {"u": {"c": (Block(NodeSet([0, 1]), "memory", 3 * GI),)}}
    accounting = state.replayed(PATH, EMPTY)
    free = [node.table("memory").free for node in accounting.machine_state.values()]
    assert free == [0, GI]
    assert [node.cells for node in accounting.machine_state.values()] == [NodeSet([0, 1])] * 2


def test_a_machine_state_is_used_as_it_is() -> None:
    node = {"memoryMap": {"memory": {"total": "4Gi", "free": 5}}, "numberOfAssignments": 2}
    state = read_state(PATH, {"machineState": {"3": node}})
    table = Table(4 * GI, 0, 0, 0, 5)
    assert state.machine_state == {3: NodeState(2, {"memory": table}, NodeSet([3]))}
    assert state.accounting().machine_state == state.machine_state
    assert state.machine() == Machine((NumaNode(3, 4 * GI),))


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (
            {"u": {"c": [BLOCK | {"size": "9Gi"}]}},
            f"state.entries.u.c[0]: {5 * GI} of {9 * GI} bytes of memory do not fit",
        ),
        (
            {"u": {"c": [BLOCK | {"numaAffinity": [7]}]}},
            "state.entries.u.c[0]: the machine has no NUMA node 7",
        ),
    ],
)
def test_entries_need_room(entries: object, problem: str) -> None:
    state = read_state(PATH, {"entries": entries})
    with pytest.raises(SettingsError) as failed:
        state.replayed(PATH, EMPTY)
    assert str(failed.value).startswith(problem)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"entries": {"u": {"c": [BLOCK | {"type": "cpu"}]}}}, "unknown resource"),
        ({"machineState": {"0": {"memoryMap": {"cpu": {}}}}}, "unknown resource"),
        ({"machineState": {"0": {"numberOfAssignments": -1}}}, "numberOfAssignments"),
        ({"machineState": {"x": {}}}, "state.machineState.x"),
    ],
)
def test_invalid_states(document: object, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        read_state(PATH, document)
