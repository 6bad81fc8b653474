"""The running instance and its state file: one fault each."""

import json

import pytest

from nri_numamem.cli.doctor.findings import Verdict
from nri_numamem.cli.main import main
from tests.cli.doctor.host_files import CONFIG, EMPTY_STATE, STATE, Change, HostFiles, expect_fault


def damage_the_state(files: HostFiles) -> None:
    files.write(STATE, EMPTY_STATE.decode()[:-9])


def disable_the_lock(files: HostFiles) -> None:
    files.write(CONFIG, 'stateFile: ""\n')


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (damage_the_state, "state_file", Verdict.WARN, "memory_manager_state: "),
        (disable_the_lock, "instance", Verdict.WARN, "stateFile is empty"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_host_with_one_fault(
    good_host: HostFiles, change: Change, check: str, verdict: Verdict, text: str
) -> None:
    expect_fault(good_host, change, check, verdict, text)


def test_no_instance_runs(host_files: HostFiles, capsys: pytest.CaptureFixture[str]) -> None:
    finding = host_files.findings()["instance"]
    assert finding.verdict is Verdict.FAIL
    assert "the plugin does not run" in finding.text
    assert main(["doctor", "--root", str(host_files.root), "--output", "json"]) == 2
    listed = json.loads(capsys.readouterr().out)["findings"]
    assert [entry["verdict"] for entry in listed].count("fail") == 1
