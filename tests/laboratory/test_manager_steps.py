"""Calls of the managers as steps of a scenario, and the cases that consist of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.scenario.player import Player
from tests.laboratory.manager_steps import case_document, play_case
from tests.scenario.documents import Document, pod, scenario

ROOT = Path(__file__).resolve().parents[2]
CASES = [
    pytest.param(case, id=f"{path.stem}-{number}")
    for path in sorted((ROOT / "tests" / "cases").glob("*.json"))
    for number, case in enumerate(json.loads(path.read_text()))
]


def documents(document: Document) -> list[Any]:
    return [dict(result) for result in play_case(document)[0]]


def admit(uid: str) -> Document:
    return {"admit": {"pod": uid}}


def remove(uid: str, name: str) -> Document:
    return {"remove": {"pod": uid, "container": name}}


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


@pytest.mark.parametrize("kind", ["init", "c0"])
def test_an_allocated_container_runs(kind: str) -> None:
    hint = {"affinity": [1], "preferred": True}
    steps: list[Document] = [
        {"allocate": {"pod": "a", "container": kind, "hint": hint}},
        {"stop": {"pod": "a", "container": kind}},
        admit("a"),
    ]
    described = pod("a", "3Gi", init="4Gi") if kind == "init" else pod("a", "3Gi")
    got = documents(scenario(*steps, pods=[described]))
    assert got[0]["cpusetMems"] == {kind: "1"}
    assert got[2]["cpusetMems"][kind] == "1"


def test_a_container_can_be_removed_alone() -> None:
    steps = [admit("a"), remove("a", "c0"), remove("a", "c0"), remove("a", "c1"), admit("a")]
    document = scenario(*steps, pods=[pod("a", "6Gi", containers=2)])
    players: list[Player] = [play_case({**document, "steps": steps[:n]})[1] for n in range(6)]
    held = [sorted(map(str, player.accounting.assignments.get("a", {}))) for player in players]
    assert held == [[], ["c0", "c1"], ["c1"], ["c1"], [], ["c0", "c1"]]


def test_a_manager_that_is_off_does_nothing() -> None:
    steps: list[Document] = [
        {"hints": {"pod": "a", "container": "c0"}},
        {"allocate": {"pod": "a", "container": "c0", "hint": {"affinity": [1]}}},
        remove("old", "c"),
    ]
    state = {"entries": {"old": {"c": [{"numaAffinity": [0], "type": "memory", "size": 5}]}}}
    settings = {"memoryManagerPolicy": "None"}
    document = scenario(*steps, settings=settings, state=state, pods=[pod("a", "99Gi")])
    assert documents(document) == [
        {"ok": True, "hints": None},
        {"ok": True, "cpusetMems": {"c0": None}},
        {"ok": True},
    ]
    assert list(play_case(document)[1].accounting.assignments) == ["old"]


def test_other_pods_are_not_allocated() -> None:
    described = pod("a", "3Gi")
    del described["spec"]["containers"][0]["resources"]["limits"]["cpu"]
    step = {"allocate": {"pod": "a", "container": "c0", "hint": {"affinity": [1]}}}
    (got,) = documents(scenario(step, pods=[described]))
    assert got["cpusetMems"] == {"c0": None}


@pytest.mark.parametrize(
    ("settings", "hints"),
    [
        ({}, [[0, 1]]),
        ({"memoryNodes": {"withoutCpus": "lastResort"}}, [[0, 1]]),
        ({"memoryNodes": {"withoutCpus": "use"}}, [[2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]),
    ],
)
def test_hints_with_nodes_without_cpus(settings: Document, hints: list[list[int]]) -> None:
    nodes: list[Document] = [{"id": n, "memory": "11Gi", "cpus": str(n)} for n in (0, 1)]
    nodes.append({"id": 2, "memory": "40Gi"})
    step = {"hints": {"pod": "a", "container": "c0"}}
    pods = [pod("a", "15Gi")]
    (got,) = documents(scenario(step, machine={"nodes": nodes}, pods=pods, settings=settings))
    assert [hint["affinity"] for hint in got["hints"]["memory"]] == hints


def blocks(entries: Document) -> dict[tuple[str, str], object]:
    """Blocks have no order, and containers without entries are as good as absent."""
    return {
        (uid, name): sorted((b["type"], tuple(b["numaAffinity"]), b["size"]) for b in held)
        for uid, containers in entries.items()
        for name, held in containers.items()
    }


def nodes(machine: Document) -> Document:
    """Bytes are compared as sums over a node's group: their split depends on history."""
    out: Document = {}
    for node_id, node in machine.items():
        group = [machine[str(member)]["memoryMap"] for member in node["cells"]]
        out[node_id] = {"count": node["numberOfAssignments"], "cells": sorted(node["cells"])}
        for resource, table in node["memoryMap"].items():
            sums = [sum(m[resource][key] for m in group if resource in m) for key in _SUMMED]
            out[node_id][resource] = sums + [table[key] for key in _FIXED]
    return out


_SUMMED = ("free", "reserved")
_FIXED = ("total", "systemReserved", "allocatable")


@pytest.mark.parametrize("case", CASES)
def test_case(case: Document) -> None:
    got: Any = case_document(case["scenario"])
    expect = case["expect"]
    for step, want in zip(got["steps"], expect["steps"], strict=True):
        assert step["ok"] == want["ok"]
        assert step["ok"] or step["error"]["message"]
        assert (step.get("hints") or {}) == (want.get("hints") or {})
        for key in want.keys() & {"hint", "admit", "cpusetMems", "memoryPolicies"}:
            assert step[key] == want[key]
    if "entries" in expect:
        assert blocks(got["entries"]) == blocks(expect["entries"])
    if "machineState" in expect:
        assert nodes(got["machineState"]) == nodes(expect["machineState"])


def test_there_are_cases() -> None:
    assert len(CASES) > 80


@pytest.mark.slow
def test_a_case_as_a_command(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(CASES[-1].values[0]["scenario"]))  # type: ignore[index]
    done = subprocess.run(
        [sys.executable, "-m", "tests.scenario_cases", path],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(json.loads(done.stdout)) == {"steps", "machineState", "entries"}
