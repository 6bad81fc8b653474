import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.cli.main import main
from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager import Block, State
from nri_numamem.numa import NodeSet
from nri_numamem.observe.log.journal import encode_journal
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import WAIT_S, SimulatedHost

FOLDER = Path(__file__).parent.parent / "cases" / "state"
ALPHA = FOLDER / "alpha-1.21-two-nodes.json"
V1 = FOLDER / "v1-one-node.json"


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", str(ALPHA)]) == 0
    shown, error = capsys.readouterr()
    assert error == ""
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert "  policy    static" in lines
    assert "  checksum  4142013182, correct" in lines
    assert any(line.split()[:2] == ["0", "0-1"] for line in lines)
    last = lines[-1].split()
    assert last == ["fa9bdd38-6df9-4cf9-aa67-8c4814da37a8", "guaranteed", "0-1", "memory", "150Gi"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", "--output", "json", str(V1)]) == 0
    document = json.loads(capsys.readouterr().out)
    written = json.loads(V1.read_text())
    for key in ("policyName", "machineState", "entries", "checksum"):
        assert document[key] == written[key]
    assert document["verified"] is True
    assert document["format"] == "V1 (up to 1.35)"


def test_a_damaged_file_is_shown_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memory_manager_state"
    path.write_text(ALPHA.read_text().replace("161061273600", "161061273601"))
    assert main(["state", "show", str(path)]) == 1
    shown, error = capsys.readouterr()
    assert "4142013182, but the content gives" in shown
    assert "guaranteed" in shown
    assert error.startswith(f"nri-numamem: {path}: the checkpoint is corrupted: its checksum is ")
    assert error.count("\n") == 1


def test_a_truncated_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "memory_manager_state"
    path.write_bytes(ALPHA.read_bytes()[:200])
    assert main(["state", "show", str(path)]) == 1
    shown, error = capsys.readouterr()
    assert shown == ""
    assert error.startswith(f"nri-numamem: {path}: invalid JSON at line 1 column ")
    assert error.count("\n") == 1


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_an_empty_state_and_pod_level_assignments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memory_manager_state"
    path.write_text('{"policyName":"None","machineState":{},"checksum":0}')
    assert main(["state", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "No assignments" in shown
    assert "none: the kubelet accepts such a file" in shown
    block = {"numaAffinity": [0], "type": "memory", "size": 512}
    document = {
        **json.loads(V1.read_text()),
        "podEntries": {"pod": {"memoryBlocks": [block]}},
        "checksum": 1278640530,
    }
    path.write_text(json.dumps(document))
    assert main(["state", "show", str(path)]) == 0
    assert "(whole pod)" in capsys.readouterr().out
    assert main(["state", "show", "--output", "json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["podEntries"] == document["podEntries"]


def test_a_simulations_state_becomes_a_state_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Round trip: simulate prints a state, export converts it, show verifies it."""
    case = json.loads((FOLDER.parent / "placement.json").read_text())[0]
    scenario, accounting = tmp_path / "scenario.json", tmp_path / "state.json"
    scenario.write_text(json.dumps(case["scenario"]))
    assert main(["simulate", "--output", "json", str(scenario)]) == 0
    accounting.write_text(capsys.readouterr().out)
    assert main(["state", "export", str(accounting)]) == 0
    exported = tmp_path / "memory_manager_state"
    exported.write_text(capsys.readouterr().out)
    assert not exported.read_text().endswith("\n")
    assert main(["state", "show", "--output", "json", str(exported)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["verified"] is True
    assert shown["policyName"] == "Static"
    assert shown["entries"] == case["expect"]["entries"]
    assert shown["machineState"] == json.loads(accounting.read_text())["machineState"]


def test_the_log_of_a_plugin_becomes_a_state_file(
    simulated_host: SimulatedHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(WAIT_S)
        for number in range(40):
            pod = runtime.run_pod_sandbox(objects.pod(f"p{number}", memory_limit_bytes=1 << 20))
            container = objects.container(pod, "c", memory_limit_bytes=1 << 20)
            runtime.create_container(pod, container)
            if not number:
                simulated_host.accounting(process)
        dump = simulated_host.accounting(process)
        assert simulated_host.stop(process) == 0
    exported = tmp_path / "memory_manager_state"

    def export(log: Path) -> dict[str, Any]:
        assert main(["state", "export", str(log)]) == 0
        exported.write_text(capsys.readouterr().out)
        assert main(["state", "show", "--output", "json", str(exported)]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    shown = export(simulated_host.log)
    assert shown["verified"] is True
    assert len(shown["entries"]) == 40
    assert shown["entries"] == dump["entries"]
    # What journalctl -o export prints of the same record.
    journal = tmp_path / "journal.export"
    journal.write_bytes(b"__CURSOR=1\n" + encode_journal(dump) + b"\n")
    assert export(journal) == shown


def test_a_dump_without_its_fields_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "journal.json"
    path.write_text('{"NRI_NUMAMEM_EVENT":"state_dump","NRI_NUMAMEM_MACHINESTATE":null}')
    assert main(["state", "export", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"nri-numamem: {path}: the journal's field NRI_NUMAMEM_MACHINESTATE is left out; "
        "use journalctl -o export, or -o json --all\n"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"event": "admitted"}', "no machineState and entries"),
        ("[]", "no machineState and entries"),
        ('{"machineState": {"x": {}}, "entries": {}}', "state.machineState"),
    ],
)
def test_only_a_state_can_be_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    assert main(["state", "export", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nri-numamem: {path}: {problem}")
    assert error.count("\n") == 1


def test_control_characters_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memory_manager_state"
    text = V1.read_text().replace('"static"', json.dumps("\x1b[2J"))
    uid = next(iter(json.loads(text)["entries"]))
    path.write_text(text.replace(uid, "uid\\u001b]0;\\u009b"))
    assert main(["state", "show", str(path)]) == 1
    shown = capsys.readouterr().out
    assert shown.replace("\n", "").isprintable()
    assert "\\u001b[2J" in shown
    assert "uid\\u001b]0;\\u009b" in shown


OWN = EngineState(State({}, {"uid-a": {"app": (Block(NodeSet([0, 1]), "memory", 3 << 30),)}}))


def own_file(path: Path) -> Path:
    """Write a state file of the plugin."""
    key = ("uid-a", "app")
    path.write_bytes(snapshot(replace(OWN, holders={key: Holder("c", "s", key)})))
    return path


def test_the_plugins_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own_file(tmp_path / "nri_numamem_state")
    assert main(["state", "show", "nri_numamem_state"]) == 0
    shown, error = capsys.readouterr()
    assert error == ""
    lines = shown.splitlines()
    assert lines[0].startswith("nri_numamem_state: state of the plugin ")
    assert lines[-1].split() == ["uid-a", "app", "0-1", "memory", "3Gi"]


def test_the_plugins_own_file_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own_file(tmp_path / "nri_numamem_state")
    assert main(["state", "show", "--output", "json", str(path)]) == 0
    document = json.loads(capsys.readouterr().out)
    block = {"numaAffinity": [0, 1], "type": "memory", "size": 3 << 30}
    entries = {"uid-a": {"app": [block]}}
    assert document == {"version": 1, "format": "nri-numamem", "entries": entries}


def test_a_damaged_file_of_the_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own_file(tmp_path / "nri_numamem_state")
    path.write_text(path.read_text().replace("uid-a", "uid-b"))
    assert main(["state", "show", str(path)]) == 1
    shown, error = capsys.readouterr()
    problem = "crc32: the payload is not the one that was written"
    assert (shown, error) == ("", f"nri-numamem: {path}: {problem}\n")
