import pytest

from nri_numamem.config.values import SettingsError
from nri_numamem.memorymanager import Block, NodeState, QosClass, State, Table, default_state
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode
from nri_numamem.scenario.scenario import read_state
from nri_numamem.scenario.values import read_machine, read_pods

GI = 1 << 30
MI = 1 << 20


def test_a_machine() -> None:
    document = {
        "nodes": [
            {
                "id": "8",
                "memory": 5,
                "hugepages": {"1Gi": 4, 2 * MI: 0},
                "cpus": 7,
                "distances": {0: 20, "8": 10},
            },
            {"id": 0, "memory": "1.5Gi", "cpus": "0-2, 9"},
        ]
    }
    assert read_machine(("machine",), document) == Machine(
        (
            NumaNode(0, GI * 3 // 2, {}, CpuSet([0, 1, 2, 9])),
            NumaNode(8, 5, {2 * MI: 0, GI: 4}, CpuSet([7]), {0: 20, 8: 10}),
        )
    )


def test_nodes_without_cpus() -> None:
    document = {
        "nodes": [
            {"id": 0, "memory": 1, "cpus": "0", "memoryTier": 4},
            {"id": 1, "memory": 1, "cpus": ""},
            {"id": 2, "memory": 1, "movableOnly": True, "memoryTier": 22},
        ]
    }
    assert read_machine(("machine",), document) == Machine(
        (
            NumaNode(0, 1, cpus=CpuSet([0]), memory_tier=4),
            NumaNode(1, 1),
            NumaNode(2, 1, is_movable_only=True, memory_tier=22),
        )
    )


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ({}, "machine.nodes[0].id: missing; write a whole number from 0 to 1023"),
        ({"id": 1024}, "machine.nodes[0].id: 1024 is out of range"),
        ({"id": 0}, "machine.nodes[0].memory: missing; write an amount such as 64Gi"),
        ({"id": 0, "memory": "x"}, "machine.nodes[0].memory: 'x' is not a quantity"),
        ({"hugepages": {"3Mi": 1}}, "machine.nodes[0].hugepages.3Mi: 'hugepages-3Mi' does not"),
        ({"hugepages": {"2Mi": -1}}, "machine.nodes[0].hugepages.2Mi: -1 is out of range"),
        (
            {"hugepages": {"1Gi": 1, "1024Mi": 1}},
            "machine.nodes[0].hugepages.1024Mi: this page size",
        ),
        ({"hugepages": {2048: 1, "2048": 1}}, "machine.nodes[0].hugepages: a key is given as a"),
        ({"hugepages": []}, "machine.nodes[0].hugepages: a list instead of a mapping"),
        ({"cpus": "0-x"}, "machine.nodes[0].cpus: '0-x' is not a list of CPUs"),
        ({"cpus": [1]}, "machine.nodes[0].cpus: a list is not a list of CPUs"),
        ({"distances": {"a": 1}}, "machine.nodes[0].distances.a: not the id of a NUMA node"),
        ({"distances": {"1": 1, "01": 1}}, "machine.nodes[0].distances.01: not the id"),
        ({"movableOnly": 1}, "machine.nodes[0].movableOnly: 1 is not a boolean"),
        ({"memoryTier": -1}, "machine.nodes[0].memoryTier: -1 is out of range"),
        (
            {"distances": {"0": 10, "5": 20}},
            "machine.nodes[0].distances.5: the machine has no NUMA node 5; give distances to its",
        ),
        ({"distances": {"0": 256}}, "machine.nodes[0].distances.0: 256 is out of range"),
    ],
)
def test_invalid_machines(node: dict[str, object], problem: str) -> None:
    filled = node if "id" in node or not node else {"id": 0, "memory": 1, **node}
    with pytest.raises(SettingsError) as failed:
        read_machine(("machine",), {"nodes": [filled]})
    assert str(failed.value).startswith(problem)


def test_nodes_of_a_machine() -> None:
    with pytest.raises(SettingsError, match=r"machine\.nodes: no NUMA node; write"):
        read_machine(("machine",), {})
    twice = {"nodes": [{"id": 1, "memory": 0}] * 2}
    with pytest.raises(SettingsError, match=r"machine\.nodes\[1\]\.id: 1 is given twice"):
        read_machine(("machine",), twice)


def test_pods() -> None:
    limits = {"limits": {"cpu": 1, "memory": "1Gi"}}
    pods = read_pods(
        ("pods",),
        [
            {
                "metadata": {"uid": "a", "name": "db", "namespace": "prod"},
                "spec": {"containers": [{"name": "c", "resources": limits}]},
            },
            {"metadata": {"uid": "b"}, "spec": {"containers": [{"name": "c"}]}},
        ],
    )
    assert [(p.name, p.namespace, p.qos) for p in pods.values()] == [
        ("db", "prod", QosClass.GUARANTEED),
        ("b", "default", QosClass.BEST_EFFORT),
    ]
    assert pods["a"].pod.container("c").requests == {"memory": GI}


def test_a_pod_keeps_the_annotations_of_the_domain() -> None:
    annotations = {"memory-policy.numamem.io": "bind", "other.example": "x"}
    (pod,) = read_pods(("pods",), _annotated(annotations)).values()
    assert pod.annotations == {"memory-policy.numamem.io": "bind"}


SPEC = {"containers": [{"name": "c"}]}


def test_a_pod_keeps_all_its_labels() -> None:
    labels = {"app": "web", "other.example/x": ""}
    metadata = {"uid": "a", "labels": labels}
    (pod,) = read_pods(("pods",), [{"metadata": metadata, "spec": SPEC}]).values()
    assert (pod.labels, pod.annotations) == (labels, {})
    (pod,) = read_pods(("pods",), [{"metadata": {"uid": "a"}, "spec": SPEC}]).values()
    assert pod.labels == {}


def _annotated(annotations: object) -> list[object]:
    return [{"metadata": {"uid": "a", "annotations": annotations}, "spec": SPEC}]


@pytest.mark.parametrize(
    ("pods", "problem"),
    [
        (_annotated(1), "pods[0].metadata.annotations: 1 instead of a mapping"),
        (
            _annotated({"a.numamem.io": True}),
            "pods[0].metadata.annotations.a.numamem.io: True is not a text; write it in quotes",
        ),
        (
            [{"metadata": {"uid": "a", "labels": {"app": 5}}, "spec": SPEC}],
            "pods[0].metadata.labels.app: 5 is not a text; write it in quotes",
        ),
        ("x", "pods: 'x' instead of a list"),
        ([1], "pods[0]: 1 instead of a mapping"),
        ([{}], "pods[0].metadata.uid: expected a text that is not empty; correct it there"),
        (
            [{"metadata": {"uid": "a"}, "spec": {"containers": [{"name": ""}]}}],
            "pods[0].spec.containers[0].name: expected a text",
        ),
        (
            [{"metadata": {"uid": "a"}, "spec": {"containers": [{"name": "c"}]}}] * 2,
            "pods[1].metadata.uid: another pod has the uid 'a'; give each its own",
        ),
    ],
)
def test_invalid_pods(pods: object, problem: str) -> None:
    with pytest.raises(SettingsError) as failed:
        read_pods(("pods",), pods)
    assert str(failed.value).startswith(problem)


def entry(size: object = "1Gi", nodes: object = (0,), resource: object = "memory") -> object:
    affinity = list(nodes) if isinstance(nodes, tuple) else nodes
    return {"entries": {"u": {"c": [{"numaAffinity": affinity, "type": resource, "size": size}]}}}


def test_written_accounting() -> None:
    table = {"total": 4 * GI, "systemReserved": 0, "allocatable": "4Gi", "reserved": GI}
    machine_state = {
        1: {"numberOfAssignments": 2, "memoryMap": {"memory": table}, "cells": []},
        "0": {"memoryMap": {"memory": {"free": 2**64 - 1}}},
    }
    document = {"machineState": machine_state, "entries": {"u": {"c": None}}, "checksum": 1}
    written = read_state(("state",), document)
    assert written.machine_state == {
        1: NodeState(2, {"memory": Table(4 * GI, 0, 4 * GI, GI, 0)}, NodeSet()),
        0: NodeState(0, {"memory": Table(0, 0, 0, 0, 2**64 - 1)}, NodeSet([0])),
    }
    assert written.entries == {"u": {"c": ()}}
    assert list(written.accounting().machine_state) == [0, 1]
    nothing = read_state(("state",), None)
    assert nothing.machine_state is None
    assert nothing.accounting() == State({})


def accounting() -> State:
    nodes = tuple(NumaNode(node_id, 4 * GI, {2 * MI: 1}) for node_id in (0, 1))
    return default_state(Machine(nodes), {})


def test_assignments_are_replayed_on_empty_accounting() -> None:
    written = read_state(("state",), entry("5Gi", (0, 1)))
    replayed = written.replayed(("state",), accounting())
    assert [n.number_of_assignments for n in replayed.machine_state.values()] == [1, 1]
    assert {n.cells for n in replayed.machine_state.values()} == {NodeSet([0, 1])}
    assert [n.table("memory").free for n in replayed.machine_state.values()] == [
        0,
        3 * GI - 4 * MI,
    ]
    assert replayed.assignments == {"u": {"c": (Block(NodeSet([0, 1]), "memory", 5 * GI),)}}
    empty = read_state(("state",), None)
    assert empty.replayed(("state",), accounting()) == accounting()


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (entry(nodes=(7,)), "state.entries.u.c[0]: the machine has no NUMA node 7"),
        (entry("9Gi"), "state.entries.u.c[0]: 5370806272 of 9663676416 bytes of memory do not fit"),
        (entry(1, (0,), "hugepages-1Gi"), "state.entries.u.c[0]: 1 of 1 bytes of hugepages-1Gi"),
        (entry(nodes="0"), "state.entries.u.c[0].numaAffinity: '0' instead of a list"),
        (entry(resource="cpu"), "state.entries.u.c[0].type: unknown resource 'cpu'; use memory"),
        (entry(resource=None), "state.entries.u.c[0].type: missing"),
        (entry(size="-1"), "state.entries.u.c[0].size: '-1' is negative"),
        ({"machine": {}}, "state.machine: unknown key; did you mean machineState?"),
        ({"machineState": {"0": 1}}, "state.machineState.0: 1 instead of a mapping"),
        (
            {"machineState": {"0": {"memoryMap": {"cpu": {}}}}},
            "state.machineState.0.memoryMap.cpu: unknown resource 'cpu'",
        ),
        (
            {"machineState": {"0": {"memoryMap": {"memory": {"free": -1}}}}},
            "state.machineState.0.memoryMap.memory.free: -1 is negative",
        ),
    ],
)
def test_invalid_accounting(document: object, problem: str) -> None:
    with pytest.raises(SettingsError) as failed:
        read_state(("state",), document).replayed(("state",), accounting())
    assert str(failed.value).startswith(problem)
