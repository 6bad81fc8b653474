"""A scenario document: what is read, and what is wrong where."""

import pytest

from nri_numamem.config.values import SettingsError
from nri_numamem.memorymanager import Block, NodeState, Table, default_state
from nri_numamem.numa import Machine, NodeSet, NumaNode
from nri_numamem.scenario.scenario import (
    ScenarioError,
    WrittenState,
    read_state,
    scenario_from_document,
)
from tests.scenario.documents import GI, Document, outcomes, pod, scenario

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


def test_accounting_of_another_file_replaces_the_state() -> None:
    node = NodeState(0, {"memory": Table(GI, 0, GI, 0, GI)}, NodeSet([5]))
    document = {"pods": [pod("a")], "steps": [{"admit": {"pod": "a"}}]}
    (got,) = outcomes(document, WrittenState({5: node}))
    assert got.document["cpusetMems"] == {"c0": "5"}
    with pytest.raises(ScenarioError, match="state: the state is given twice"):
        scenario_from_document({**document, "state": {}}, WrittenState({5: node}))


ALL_NODES = {"name": "a", "nodes": "0-1", "namespaces": ["x"], "exclusive": "all"}
ALL_CPULESS: Document = {"memoryNodes": {"override": {"0-2": "cpuless"}}}
TABLE = {"total": GI, "systemReserved": 0, "allocatable": GI, "reserved": 0, "free": GI}
NODE_0: Document = {"0": {"memoryMap": {"memory": TABLE}}}


def mixed_machine() -> Document:
    """Two nodes with CPUs, and a larger one without."""
    nodes = [
        {"id": 0, "memory": "11Gi", "cpus": "0"},
        {"id": 1, "memory": "11Gi", "cpus": "1"},
        {"id": 2, "memory": "40Gi"},
    ]
    return {"nodes": nodes}


@pytest.mark.parametrize(
    ("settings", "mems"),
    [
        ({}, "0-1"),
        ({"memoryNodes": {"withoutCpus": "lastResort"}}, "0-1"),
        ({"memoryNodes": {"withoutCpus": "use"}}, "2"),
        ({"memoryNodes": {"override": {"2": "dram"}}}, "2"),
    ],
)
def test_nodes_without_cpus(settings: Document, mems: str) -> None:
    step = {"admit": {"pod": "a"}}
    document = scenario(step, machine=mixed_machine(), pods=[pod("a", "15Gi")], settings=settings)
    (admitted,) = outcomes(document)
    assert admitted.document["cpusetMems"] == {"c0": mems}


def test_a_request_that_needs_a_last_resort() -> None:
    settings = {"memoryNodes": {"withoutCpus": "lastResort"}}
    step = {"admit": {"pod": "a"}}
    document = scenario(step, machine=mixed_machine(), pods=[pod("a", "30Gi")], settings=settings)
    (admitted,) = outcomes(document)
    assert admitted.document["cpusetMems"] == {"c0": "2"}


def test_a_written_state_loses_the_excluded_nodes() -> None:
    tables = {str(n): {"memoryMap": {"memory": TABLE}} for n in range(3)}
    document = scenario(
        {"admit": {"pod": "a"}},
        {"admit": {"pod": "b"}},
        {"admit": {"pod": "c"}},
        machine=mixed_machine(),
        state={"machineState": tables},
        pods=[pod("a"), pod("b"), pod("c")],
    )
    got = outcomes(document)
    assert list(got[-1].accounting.machine_state) == [0, 1]
    assert [found.rejection is None for found in got] == [True, True, False]


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        (None, (), "scenario: None instead of a mapping"),
        ({"machines": 1}, ("machines",), "machines: unknown key; did you mean machine?"),
        ({"settings": []}, ("settings",), "settings: a list instead of a mapping"),
        (
            {"settings": {"topologyManagerScope": "x"}},
            ("settings", "topologyManagerScope"),
            "settings.topologyManagerScope: unknown value 'x'",
        ),
        (
            {"settings": {"kubeletConfigFile": "/etc/kubelet.yaml"}},
            ("settings", "kubeletConfigFile"),
            "settings.kubeletConfigFile: a scenario reads no other file; write that file's keys",
        ),
        (
            scenario(settings={"reservedMemory": [{"numaNode": 7, "limits": {"memory": 1}}]}),
            ("settings",),
            "settings.reservedMemory[0]: the reserved memory configuration references",
        ),
        (
            scenario(settings={"partitions": [ALL_NODES]}),
            ("settings",),
            "settings.partitions: the exclusive ones have all NUMA nodes of this machine (0-1)",
        ),
        (
            scenario(settings={"partitions": [ALL_NODES]}, state={"machineState": NODE_0}),
            ("settings",),
            "settings.partitions: the exclusive ones have all NUMA nodes of this machine (0-1)",
        ),
        (
            scenario(settings=ALL_CPULESS, machine=mixed_machine()),
            ("settings",),
            "settings.memoryNodes.override: it excludes every NUMA node of this machine (0-2)",
        ),
        (
            scenario(settings=ALL_CPULESS, machine=mixed_machine(), state={"machineState": NODE_0}),
            ("settings",),
            "settings.memoryNodes.override: it excludes every NUMA node of this machine (0-2)",
        ),
        (
            {"pods": [pod("a")], "steps": [{"admit": {"pod": "a"}}]},
            ("machine",),
            "machine: missing; describe its nodes",
        ),
    ],
)
def test_documents_that_cannot_be_played(
    document: object, path: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ScenarioError) as failed:
        scenario_from_document(document)
    assert str(failed.value).startswith(problem)
    assert failed.value.path == path
    assert len(str(failed.value).splitlines()) == 1
