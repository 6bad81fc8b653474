"""`simulate` as a command: the documented example, the pictures, bad files."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_numamem.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
CASES_FOLDER = ROOT / "tests" / "cases"
Document = dict[str, Any]


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def run(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Document:
    assert main(["simulate", "--output", "json", *options, str(path)]) == 0
    shown, error = capsys.readouterr()
    assert error == ""
    document: Document = json.loads(shown)
    return document


def documented(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", (ROOT / "docs/simulate.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_documented_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scenario.yaml").write_text(documented("yaml"))
    monkeypatch.chdir(tmp_path)
    command, _, expected = documented("console").partition("\n")
    assert main(command.removeprefix("$ nri-numamem ").split()) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("columns", [80, 120])
def test_cases_can_be_shown(
    columns: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    path = tmp_path / "scenario.json"
    for name in ("memory-policies", "placement"):
        for case in json.loads((CASES_FOLDER / f"{name}.json").read_text()):
            steps = [step for step in case["scenario"]["steps"] if "remove" not in step]
            path.write_text(json.dumps({**case["scenario"], "steps": steps}))
            assert main(["simulate", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "rejected" in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= columns


def pod(uid: str, memory: str) -> Document:
    resources = {"limits": {"cpu": 1, "memory": memory}}
    return {
        "metadata": {"uid": uid},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"steps: [{admit: {pod: x}}]")))
    assert main(["simulate", "-"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("nri-numamem: standard input:1: steps[0].admit.pod: no pod has the uid")


MACHINE = "machine:\n  nodes:\n  - {id: 0, memory: 4Gi}\n  - {id: 1, memory: 4Gi}\n"
POD = """pods:
- metadata: {uid: a}
  spec:
    containers:
    - name: c
      resources: {limits: {cpu: 1, memory: 1Gi}}
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f"{MACHINE}{POD}steps:\n- stop: {{pod: a, container: x}}\n",
            "12: steps[0].stop.container: pod 'a' has no container 'x'",
        ),
        (
            f"{MACHINE}{POD}steps:\n- remove:\n    pod: z\n",
            "13: steps[0].remove.pod: no pod has the uid 'z'",
        ),
        (
            "machine: {nodes: [{id: 0, memory: 4Gi, distances: {\n  0: 10,\n  7: 20}}]}\n",
            "3: machine.nodes[0].distances.7: the machine has no NUMA node 7",
        ),
        (
            f"{MACHINE}{POD}".replace(
                "limits: {cpu: 1", "requests: {memory: 2Gi}, limits: {cpu: 1"
            ),
            "10: pods[0].spec.containers[0].resources.requests.memory: 2Gi is above the limit 1Gi",
        ),
        (
            f"{MACHINE}pods:\n- metadata: {{uid: a}}\n  spec: {{}}\n",
            "7: pods[0].spec.containers: no containers",
        ),
    ],
    ids=["container", "pod", "distance", "request", "no containers"],
)
def test_an_error_names_file_and_line(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    assert main(["simulate", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nri-numamem: {path}:{problem}")
    assert error.count("\n") == 1


@pytest.mark.parametrize("text", ["a: [", "[]", "steps: 5", '{"steps": [{"admit": {}}]}'])
def test_bad_files_give_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    assert main(["simulate", "--output", "json", str(path)]) == 2
    shown, error = capsys.readouterr()
    assert shown == ""
    assert error.startswith(f"nri-numamem: {path}:")
    assert error.count("\n") == 1


ALPHA = CASES_FOLDER / "state" / "alpha-1.21-two-nodes.json"


def test_starting_from_a_kubelets_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.json"
    uid = "fa9bdd38-6df9-4cf9-aa67-8c4814da37a8"
    steps = [
        {"admit": {"pod": "a"}},
        {"remove": {"pod": uid}},
        {"admit": {"pod": "b"}},
    ]
    path.write_text(json.dumps({"pods": [pod("a", "9Gi"), pod("b", "9Gi")], "steps": steps}))
    got = run(path, capsys, "--state", str(ALPHA))
    assert got["steps"][0]["cpusetMems"] == {"c": "0-1"}
    assert got["steps"][2]["cpusetMems"] == {"c": "0-1"}
    assert list(got["entries"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"checksum": 5}, "the checkpoint is corrupted: its checksum is 5, its content gives"),
        (
            {"podEntries": {"p": {}}, "checksum": 0},
            "the checkpoint is corrupted: its checksum is 0, its content gives ",
        ),
        ({"machineState": 5}, "machineState: 5 instead of an object"),
    ],
)
def test_states_that_cannot_be_used(
    change: Document, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = tmp_path / "s.json", tmp_path / "state"
    path.write_text("{}")
    v1 = json.loads((CASES_FOLDER / "state" / "v1-one-node.json").read_text())
    state.write_text(json.dumps({**v1, **change}))
    assert main(["simulate", "--state", str(state), str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"nri-numamem: {state}: {problem}")


def test_states_with_pod_level_assignments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = tmp_path / "s.json", tmp_path / "state"
    path.write_text("{}")
    block = {"numaAffinity": [0], "type": "memory", "size": 512}
    v1 = json.loads((CASES_FOLDER / "state" / "v1-one-node.json").read_text())
    pods = {"podEntries": {"pod": {"memoryBlocks": [block]}}, "checksum": 1278640530}
    state.write_text(json.dumps({**v1, **pods}))
    assert main(["simulate", "--state", str(state), str(path)]) == 2
    assert "podEntries: pod pod holds memory as a whole" in capsys.readouterr().err


def test_refusals_and_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(documented("yaml"))
    assert main(["simulate", "--summary", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "  1. Admit pod default/database: restore on 0, postgres on 0",
        "  2. Admit pod default/analytics: spark on 2-3",
        "  3. Admit pod default/cache: redis rejected",
        "  4. Remove pod default/analytics: done",
        "  5. Admit pod default/cache: redis on 2-3",
    ]
    assert main(["simulate", "--summary", "--fail-on-refusal", str(path)]) == 1
    path.write_text(f"{MACHINE}{POD}steps:\n- admit: {{pod: a}}\n")
    assert main(["simulate", "--fail-on-refusal", str(path)]) == 0


def test_a_summary_of_other_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    one = "{pod: a, container: c"
    steps = (
        "retry: {}",
        "retry: {pod: a}",
        f"resize: {one}, memory: 99Gi}}",
    )
    path = tmp_path / "scenario.yaml"
    listed = "".join(f"- {step}\n" for step in ("admit: {pod: a}", *steps))
    path.write_text(f"{MACHINE}{POD.replace('1Gi', '3Gi')}steps:\n{listed}")
    assert main(["simulate", "--summary", str(path)]) == 0
    assert [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "c on 0",
        "nothing to retry",
        "nothing to retry",
        "rejected",
    ]


def test_yaml_is_the_same_document_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(documented("yaml"))
    expected = run(path, capsys)
    assert main(["simulate", "--output", "yaml", str(path)]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == expected
