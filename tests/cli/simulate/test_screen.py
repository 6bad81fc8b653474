"""Scenarios as pictures for people."""

import json
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.cli.main import main

Document = dict[str, Any]


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def pod(uid: str, memory: str) -> Document:
    resources = {"limits": {"cpu": 1, "memory": memory}}
    return {
        "metadata": {"uid": uid},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def show(document: Document, capsys: pytest.CaptureFixture[str], path: Path) -> str:
    path.write_text(json.dumps(document))
    assert main(["simulate", str(path)]) == 0
    return capsys.readouterr().out


def test_many_nodes_stay_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "machine": {"nodes": [{"id": node_id, "memory": "64Gi"} for node_id in range(64)]},
        "pods": [pod("a", "100Gi"), pod("b", "9999Gi")],
        "steps": [{"admit": {"pod": "a"}}, {"admit": {"pod": "b"}}],
    }
    lines = show(document, capsys, tmp_path / "s.json").splitlines()
    assert len(lines) < 40
    assert any(line.split()[0] == "0-63" for line in lines if line.strip())
    assert any(line.split()[0] == "2-63" for line in lines if line.strip())


def test_equal_parts_on_several_nodes_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [pod("a", "1Gi"), pod("b", "6Gi"), pod("c", "3Gi")]
    for each in pods:
        each["metadata"]["annotations"] = {"memory-policy.numamem.io": "interleave:2"}
    document = {
        "machine": {"nodes": [{"id": node_id, "memory": "4Gi"} for node_id in range(3)]},
        "settings": {"memoryPolicy": {"modes": ["interleave"], "maxNodes": 2}},
        "pods": pods,
        "steps": [{"admit": {"pod": uid}} for uid in "abc"],
    }
    lines = show(document, capsys, tmp_path / "s.json").splitlines()
    placed = "  result    c: cpuset.mems 0-1, memory policy interleave:2 on nodes 0-1"
    assert lines.count(placed) == 2
    text = " ".join(" ".join(lines).split())
    assert "requested memory 3Gi in equal parts on 2 NUMA nodes, memory 1.5Gi each; " in text
    assert "short for its part" in text
    assert "room for its part" in text


def test_memory_policies_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    annotation = "memory-policy.numamem.io"
    pods = [pod("a", "6Gi"), pod("b", "1Gi"), pod("c", "1Gi"), pod("d", "0")]
    for each, text in zip(pods, ("interleave", "bind", "local", "interleave"), strict=True):
        each["metadata"]["annotations"] = {annotation: text}
    document = {
        "machine": {"nodes": [{"id": node_id, "memory": "4Gi"} for node_id in range(3)]},
        "settings": {"memoryPolicy": {"modes": ["interleave", "local"]}},
        "pods": pods,
        "steps": [{"admit": {"pod": uid}} for uid in "abcd"],
    }
    path = tmp_path / "s.json"
    lines = show(document, capsys, path).splitlines()
    for text in (
        "  result    c: cpuset.mems 0-1, memory policy interleave on nodes 0-1",
        "  result    c: cpuset.mems 2",
        "  warning   c: without the memory policy bind: memoryPolicy.modes allows only",
        "  result    c: cpuset.mems 2, memory policy local",
        "  result    c: not managed, memory policy interleave on nodes 0-2",
    ):
        assert text in lines
    assert main(["simulate", "--summary", str(path)]) == 0
    summary = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert summary == [
        "c on 0-1 (interleave)",
        "c on 2",
        "c on 2 (local)",
        "c not managed (interleave)",
    ]


def test_strategies_and_cpus_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [pod(uid, "1Gi") for uid in "ab"]
    pods[1]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = 5
    nodes = [{"id": n, "memory": "4Gi", "cpus": f"{4 * n}-{4 * n + 3}"} for n in (0, 1)]
    document = {
        "machine": {"nodes": nodes},
        "settings": {"placementStrategy": "spread", "cpuFollowsMemory": "require"},
        "pods": pods,
        "steps": [{"admit": {"pod": uid}} for uid in "ab"],
    }
    path = tmp_path / "s.json"
    lines = show(document, capsys, path).splitlines()
    for text in (
        "  result    c: cpuset.mems 0, cpuset.cpus 0-3",
        "  strategy  c: spread, by placementStrategy: most free memory of the equal nodes",
        "  result    c: cpuset.mems 1, cpuset.cpus 4-7",
        "  warning   c: these CPUs may not suffice: 5 CPUs are requested on its NUMA",
    ):
        assert text in lines
    assert main(["simulate", "--summary", str(path)]) == 0
    summary = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert summary == ["c on 0 (CPUs 0-3)", "c on 1 (CPUs 4-7)"]
    document["settings"] = {
        "placementStrategy": "pack",
        "cpuFollowsMemory": "prefer",
        "topologyManagerScope": "pod",
    }
    text = " ".join(show(document, capsys, path).split())
    assert "strategy the pod: pack, by placementStrategy: least free memory of the" in text
    assert "warning c: without cpuset.cpus: 6 CPUs are requested on its NUMA nodes" in text


def test_containers_that_a_partition_confines_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [pod("a", "1Gi"), pod("b", "0"), pod("c", "0")]
    pods[1]["metadata"]["labels"] = {"app": "web"}
    web = {"name": "web", "nodes": "1-2", "selector": {"app": "web"}, "confine": True}
    document = {
        "machine": {"nodes": [{"id": node_id, "memory": "4Gi"} for node_id in range(4)]},
        "settings": {"partitions": [web]},
        "pods": pods,
        "steps": [{"admit": {"pod": uid}} for uid in "abc"],
    }
    path = tmp_path / "s.json"
    lines = show(document, capsys, path).splitlines()
    assert [line for line in lines if line.startswith("  result ")] == [
        "  result    c: cpuset.mems 0",
        "  result    c: not managed, confined to nodes 1-2 by partition web",
        "  result    c: not managed",
    ]
    assert main(["simulate", "--summary", str(path)]) == 0
    summary = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    confined = "c not managed, confined to nodes 1-2 by partition web"
    assert summary == ["c on 0", confined, "c not managed"]
    assert main(["simulate", "--output", "json", str(path)]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step.get("confined") for step in steps] == [
        None,
        {"c": {"partition": "web", "nodes": "1-2"}},
        None,
    ]


def test_removals_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "machine": {"nodes": [{"id": node_id, "memory": "4Gi"} for node_id in range(6)]},
        "pods": [pod("a", "1Gi"), pod("e", "0")],
        "steps": [
            {"admit": {"pod": "a"}},
            {"remove": {"pod": "a"}},
            {"remove": {"pod": "a"}},
            {"admit": {"pod": "e"}},
        ],
    }
    shown = show(document, capsys, tmp_path / "s.json")
    for text in (
        "2. Remove pod default/a",
        "released  c: memory 1Gi on nodes 0",
        "released  nothing",
        "c: not managed",
    ):
        assert text in shown


def test_pods_that_run_unpinned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "machine": {"nodes": [{"id": 0, "memory": "4Gi"}]},
        "settings": {"whenUnsatisfiable": "RunUnpinned"},
        "pods": [pod("a", "9Gi")],
        "steps": [{"admit": {"pod": "a"}}],
    }
    shown = show(document, capsys, tmp_path / "s.json")
    assert "c: not managed" in shown
    assert "reason    UnexpectedAdmissionError: " in shown
    document["settings"] = {"memoryManagerPolicy": "None"}
    assert "memoryManagerPolicy None" in show(document, capsys, tmp_path / "s.json")


def test_a_refusal_without_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "state": {"machineState": {}},
        "pods": [pod("a", "1Gi")],
        "steps": [{"admit": {"pod": "a"}}],
    }
    shown = show(document, capsys, tmp_path / "s.json")
    assert "rejected" in shown
    assert shown.endswith("which is unexpected\n")
    assert "why it was passed over" not in shown


def test_resizes_and_stops_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = {"pod": "a", "container": "c"}
    document = {
        "machine": {"nodes": [{"id": node_id, "memory": "4Gi"} for node_id in range(2)]},
        "pods": [pod("a", "1Gi")],
        "steps": [
            {"admit": {"pod": "a"}},
            {"resize": one | {"memory": "2Gi"}},
            {"resize": one | {"memory": "99Gi"}},
            {"stop": one},
        ],
    }
    shown = show(document, capsys, tmp_path / "s.json")
    for text in (
        "2. Resize container c of pod default/a",
        "request   memory 2Gi",
        "result    c: cpuset.mems 0",
        "rejected  ResizeRejected: ",
        "4. Stop container c of pod default/a",
        "kept      memory 2Gi on nodes 0",
    ):
        assert text in shown


def test_memory_away_from_cpus_and_devices_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [{"id": n, "memory": "4Gi", "cpus": f"{n}"} for n in range(3)]
    away = {"pod": "a", "cpus": {"c": "0"}, "devices": {"c": [[1], [2]]}}
    document = {
        "machine": {"nodes": nodes},
        "pods": [pod("a", "1Gi")],
        "steps": [{"admit": away}],
    }
    shown = show(document, capsys, tmp_path / "s.json")
    assert "warning   c: its memory is on no node of its devices on 1 and 2" in shown


def test_nodes_before_a_refused_container_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The limit of the pod fits, but d needs two nodes, and c is alone on one of them.
    described = pod("a", "2Gi")
    described["spec"]["containers"].append({**pod("", "5Gi")["spec"]["containers"][0], "name": "d"})
    document = {
        "machine": {"nodes": [{"id": node_id, "memory": "4Gi"} for node_id in range(2)]},
        "pods": [described],
        "steps": [
            {"retry": {"pod": "a"}},
            {"admit": {"pod": "a"}},
            {"retry": {}},
            {"remove": {"pod": "a"}},
            {"retry": {"pod": "a"}},
        ],
    }
    shown = show(document, capsys, tmp_path / "s.json")
    for text in (
        "1. Retry the refused containers of pod default/a",
        "result    no container was refused before",
        "2. Admit pod default/a",
        "result    c: cpuset.mems 0",
        "rejected  d: UnexpectedAdmissionError: ",
        "then      the kubelet creates d again; the others keep running",
        "3. Retry the refused containers of all pods",
        "pod       default/a",
    ):
        assert text in shown
    assert shown.count("rejected  ") == 2
    assert shown.count("then      ") == 2
    *_, last = shown.split("5. Retry the refused containers of pod default/a")
    assert "result    c: cpuset.mems 0" not in last


def test_excluded_and_last_resort_nodes_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        {"id": 0, "memory": "4Gi", "cpus": "0"},
        {"id": 1, "memory": "4Gi"},
        {"id": 2, "memory": "4Gi", "cpus": "", "movableOnly": True},
    ]
    document: Document = {"machine": {"nodes": nodes}, "pods": [pod("a", "6Gi")]}
    document["steps"] = [{"admit": {"pod": "a"}}]
    lines = show(document, capsys, tmp_path / "s.json").splitlines()
    assert "  nodes     1-2 excluded by memoryNodes: cpuless, movable" in lines
    assert any(line.startswith("  rejected") for line in lines)
    document["settings"] = {"memoryNodes": {"withoutCpus": "lastResort"}}
    lines = show(document, capsys, tmp_path / "s.json").splitlines()
    assert "  nodes     1-2 last resort by memoryNodes: cpuless, movable" in lines
    assert "  result    c: cpuset.mems 0-1" in lines
