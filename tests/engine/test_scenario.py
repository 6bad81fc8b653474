"""Whole scenarios: what is refused in a document, and what comes of each kind of step."""

from typing import Any

import pytest

from nri_numamem.engine.scenario import Outcome, ScenarioError, play, scenario_from_document
from nri_numamem.engine.scenario_state import WrittenState
from nri_numamem.memorymanager import NodeSet, NodeState, Table

GI = 1 << 30

Document = dict[str, Any]


def pod(uid: str, memory: str = "1Gi", *, containers: int = 1, init: str = "") -> Document:
    def container(name: str, amount: str) -> Document:
        return {"name": name, "resources": {"limits": {"cpu": 1, "memory": amount}}}

    spec: Document = {"containers": [container(f"c{i}", memory) for i in range(containers)]}
    if init:
        spec["initContainers"] = [container("init", init)]
    return {"metadata": {"uid": uid}, "spec": spec}


def scenario(*steps: Document, **parts: Document | list[Document]) -> Document:
    """Two nodes of 11Gi, of which 1Gi each is reserved."""
    reserved = [{"numaNode": n, "limits": {"memory": "1Gi"}} for n in (0, 1)]
    document = {
        "machine": {"nodes": [{"id": n, "memory": "11Gi"} for n in (0, 1)]},
        "steps": list(steps),
        **parts,
    }
    settings = document.get("settings", {})
    assert isinstance(settings, dict)
    return {**document, "settings": {"reservedMemory": reserved, **settings}}


def outcomes(document: Document, state: WrittenState | None = None) -> list[Outcome]:
    return list(play(scenario_from_document(document, state)))


def documents(document: Document) -> list[Document]:
    return [dict(outcome.document) for outcome in outcomes(document)]


def test_admissions_and_removals() -> None:
    steps = [
        {"admit": {"pod": "a"}},
        {"admit": {"pod": "b"}},
        {"remove": {"pod": "a", "container": "c0"}},
        {"remove": {"pod": "nobody", "container": "x"}},
        {"admit": {"pod": "b"}},
    ]
    got = outcomes(scenario(*steps, pods=[pod("a", "5Gi"), pod("b", "15Gi")]))
    shown = [outcome.document for outcome in got]
    assert shown[0] == {"ok": True, "cpusetMems": {"c0": "0"}}
    assert shown[1]["ok"] is False
    assert shown[2:] == [{"ok": True}, {"ok": True}, {"ok": True, "cpusetMems": {"c0": "0-1"}}]
    assert got[1].books == got[0].books
    assert got[1].rejection is not None
    assert shown[1]["error"] == {
        "reason": got[1].rejection.reason,
        "message": got[1].rejection.message,
    }
    assert list(got[-1].books.assignments) == ["b"]


def test_a_pod_is_admitted_whole_or_not_at_all() -> None:
    got = outcomes(scenario({"admit": {"pod": "a"}}, pods=[pod("a", "9Gi", containers=3)]))
    assert got[0].document["ok"] is False
    assert got[0].books.assignments == {}


def test_pods_that_run_unpinned_where_nothing_fits() -> None:
    settings = {"whenUnsatisfiable": "RunUnpinned"}
    pods = [pod("a", "9Gi", containers=3)]
    (one,) = outcomes(scenario({"admit": {"pod": "a"}}, settings=settings, pods=pods))
    assert one.document == {"ok": True, "cpusetMems": {"c0": "0", "c1": "1", "c2": None}}
    assert list(one.unpinned or {}) == ["c2"]
    settings |= {"topologyManagerScope": "pod", "topologyManagerPolicy": "restricted"}
    (one,) = outcomes(scenario({"admit": {"pod": "a"}}, settings=settings, pods=pods))
    assert one.document == {"ok": True, "cpusetMems": {"c0": None, "c1": None, "c2": None}}
    assert one.books.assignments == {}


def test_the_scope_decides_what_is_aligned() -> None:
    step, pods = {"admit": {"pod": "a"}}, [pod("a", "6Gi", containers=2)]
    assert documents(scenario(step, pods=pods))[0]["cpusetMems"] == {"c0": "0", "c1": "1"}
    settings = {"topologyManagerScope": "pod"}
    (got,) = documents(scenario(step, settings=settings, pods=pods))
    assert got["cpusetMems"] == {"c0": "0-1", "c1": "0-1"}


def test_a_manager_that_is_off_does_nothing() -> None:
    steps: list[Document] = [
        {"admit": {"pod": "a"}},
        {"hints": {"pod": "a", "container": "c0"}},
        {"allocate": {"pod": "a", "container": "c0", "hint": {"affinity": [1]}}},
        {"remove": {"pod": "old", "container": "c"}},
    ]
    state = {"entries": {"old": {"c": [{"numaAffinity": [0], "type": "memory", "size": 5}]}}}
    settings = {"memoryManagerPolicy": "None"}
    got = outcomes(scenario(*steps, settings=settings, state=state, pods=[pod("a", "99Gi")]))
    assert [outcome.document for outcome in got] == [
        {"ok": True, "cpusetMems": {"c0": None}},
        {"ok": True, "hints": None},
        {"ok": True, "cpusetMems": {"c0": None}},
        {"ok": True},
    ]
    assert list(got[-1].books.assignments) == ["old"]


def test_allocation_by_a_hint() -> None:
    hints: list[Document] = [
        {"affinity": [1], "preferred": True},
        {"affinity": None, "preferred": True},
    ]
    steps = [
        {"allocate": {"pod": u, "container": "c0", "hint": h}}
        for u, h in zip("ab", hints, strict=True)
    ]
    got = documents(scenario(*steps, pods=[pod("a", "5Gi"), pod("b", "15Gi")]))
    assert got[0] == {"ok": True, "cpusetMems": {"c0": "1"}}
    assert got[1]["ok"] is False


def test_an_init_containers_memory_is_used_again() -> None:
    step = {"admit": {"pod": "a"}}
    (got,) = outcomes(scenario(step, pods=[pod("a", "8Gi", init="9Gi")]))
    assert got.document["cpusetMems"] == {"init": "0", "c0": "0"}
    assert got.books.machine_state[0].table("memory").reserved == 9 * GI


def test_hints() -> None:
    steps = [{"hints": {"pod": uid, "container": "c0"}} for uid in ("a", "b", "c")]
    pods = [pod("a"), pod("b", "99Gi"), pod("c")]
    del pods[2]["spec"]["containers"][0]["resources"]["limits"]["cpu"]
    got = documents(scenario(*steps, pods=pods))
    sets = [([0], True), ([1], True), ([0, 1], False)]
    assert got == [
        {"ok": True, "hints": {"memory": [{"affinity": a, "preferred": p} for a, p in sets]}},
        {"ok": True, "hints": {}},
        {"ok": True, "hints": None},
    ]


def test_hints_on_machines_with_too_many_sets_to_list() -> None:
    nodes = [{"id": node_id, "memory": "2Gi"} for node_id in range(0, 80, 2)]
    steps = [{"hints": {"pod": uid, "container": "c0"}} for uid in ("a", "b", "c")]
    pods = [pod("a", "3Gi"), pod("b", "99Gi"), pod("c")]
    del pods[2]["spec"]["containers"][0]["resources"]["limits"]["cpu"]
    document = scenario(*steps, machine={"nodes": nodes}, pods=pods)
    document["settings"] = {}
    got = documents(document)
    assert got[0]["hints"] == {"memory": [{"affinity": [0, 2], "preferred": True}]}
    assert [one["hints"] for one in got[1:]] == [{}, None]


def test_a_merge_needs_no_machine() -> None:
    merge = {
        "policy": "restricted",
        "numaNodes": [0, 1],
        "distances": [[10, 11], [11, 10]],
        "preferClosestNUMANodes": False,
        "providers": [{"cpu": [{"affinity": [0], "preferred": True}]}, {"memory": None}, None],
    }
    assert documents({"steps": [{"merge": merge}, {"merge": merge | {"policy": "none"}}]}) == [
        {"ok": True, "hint": {"affinity": [0], "preferred": True}, "admit": True},
        {"ok": True, "hint": {"affinity": None, "preferred": False}, "admit": True},
    ]


def test_no_steps_and_no_machine() -> None:
    assert documents({}) == []


TABLE = {"total": "8Gi", "allocatable": 8 * GI, "free": 8 * GI}
NODE = {"numberOfAssignments": None, "memoryMap": {"memory": TABLE}}


def test_books_are_taken_as_they_are() -> None:
    document: Document = {"state": {"machineState": {"3": NODE}}, "pods": [pod("a")]}
    (got,) = outcomes({**document, "steps": [{"admit": {"pod": "a"}}]})
    assert got.document["cpusetMems"] == {"c0": "3"}
    both = scenario({"admit": {"pod": "a"}}, **document)
    assert documents(both) == [got.document]


def test_books_from_elsewhere_stand_in_for_the_state() -> None:
    node = NodeState(0, {"memory": Table(GI, 0, GI, 0, GI)}, NodeSet([5]))
    document = {"pods": [pod("a")], "steps": [{"admit": {"pod": "a"}}]}
    (got,) = outcomes(document, WrittenState({5: node}))
    assert got.document["cpusetMems"] == {"c0": "5"}
    with pytest.raises(ScenarioError, match="state: the state is given twice"):
        scenario_from_document({**document, "state": {}}, WrittenState({5: node}))


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        (None, (), "scenario: None where a mapping belongs"),
        ({"machines": 1}, ("machines",), "machines: unknown key; did you mean machine?"),
        ({"settings": []}, ("settings",), "settings: a list where a mapping belongs"),
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
            {"pods": [pod("a")], "steps": [{"admit": {"pod": "a"}}]},
            ("machine",),
            "machine: missing; describe its nodes",
        ),
    ],
)
def test_what_cannot_be_played(document: object, path: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ScenarioError) as failed:
        scenario_from_document(document)
    assert str(failed.value).startswith(problem)
    assert failed.value.path == path
    assert len(str(failed.value).splitlines()) == 1
