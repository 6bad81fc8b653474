"""`export` as a command: the object on standard output, lines on standard error, exit status."""

import json
import os
from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.main import main
from tests.cli.export.export_host import ExportHost


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> ExportHost:
    host = ExportHost(tmp_path)
    host.run_pod("a")
    host.save()
    return host


def test_both_formats_have_the_same_object(
    host: ExportHost, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--dry-run", "--node-name", "worker-1", *host.arguments()]
    with host.running():
        assert main(arguments) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert main([*arguments, "-o", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert yaml.safe_load(shown.out) == document
        assert main(arguments) == 0
        assert capsys.readouterr().out == shown.out
    assert document["metadata"]["name"] == "worker-1"
    assert [zone["name"] for zone in document["zones"]] == [f"node-{node}" for node in range(4)]
    available = [zone["resources"][0]["available"] for zone in document["zones"]]
    assert available == ["500m", "1", "1", "1"]


def test_the_default_name_is_the_kubelets(
    host: ExportHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uname = os.uname()
    named = os.uname_result((uname.sysname, "Worker-7.Example", *uname[2:]))
    monkeypatch.setattr("os.uname", lambda: named)
    assert main(["export", "--dry-run", *host.arguments()]) == 0
    assert "name: worker-7.example\n" in capsys.readouterr().out


def test_missing_inputs_are_lines(host: ExportHost, capsys: pytest.CaptureFixture[str]) -> None:
    (host.kubelet / "config.yaml").unlink()
    assert main(["export", "--dry-run", "--node-name", "w", *host.arguments()]) == 0
    lines = capsys.readouterr().err.splitlines()
    starts = ["nri-numamem: no plugin runs: ", "nri-numamem: no reserved CPUs: "]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts


def test_without_a_state_there_is_no_object(
    host: ExportHost, capsys: pytest.CaptureFixture[str]
) -> None:
    host.state_file.unlink()
    assert main(["export", "--dry-run", "--node-name", "w", *host.arguments()]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"nri-numamem: {host.state_file} does not exist; start the plugin")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "export writes to no API server; add --dry-run to print the object"),
        (
            ["--dry-run", "--node-name", "Worker_1"],
            (
                "--node-name: 'Worker_1' is no name of a Node; give the name that "
                "`kubectl get nodes` shows"
            ),
        ),
        (
            ["--dry-run", "--node-name", "w", "--reserved-cpus", "x"],
            (
                "--reserved-cpus: 'x' is not a list of CPUs such as 0-1,3; give a list such as "
                "0-1,64-65"
            ),
        ),
    ],
)
def test_wrong_command_lines(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *arguments]) == 2
    assert capsys.readouterr().err == f"nri-numamem: {line}\n"


def test_reserved_cpus_can_be_named(host: ExportHost, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dry-run", "--node-name", "w", "--reserved-cpus", "1-2", "-o", "json"]
    assert main(["export", *arguments, *host.arguments()]) == 0
    zones = json.loads(capsys.readouterr().out)["zones"]
    assert [zone["resources"][0]["allocatable"] for zone in zones] == ["1", "0", "0", "1"]
