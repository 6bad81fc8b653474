"""``nri-numamem reset`` after the plugin ended, on a runtime that applies its updates."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.engine.core.reason import Reasons
from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.observe.state_file import read_state
from tests.cli.documented import documented_entry, documented_keys
from tests.cli.pinned_container import PinnedContainer
from tests.cli.screen_files import check_screen
from tests.laboratory import api_pb2 as api
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost

SCREENS = Path(__file__).parent / "screens"


@pytest.fixture
def stand(
    simulated_host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PinnedContainer]:
    monkeypatch.setenv("COLUMNS", "120")
    with FakeRuntime() as runtime:
        yield PinnedContainer(simulated_host, runtime)


@pytest.fixture
def ended(stand: PinnedContainer) -> PinnedContainer:
    assert stand.host.stop(stand.process) == 0
    return stand


def test_a_pinned_container_gets_all_nodes_back(
    ended: PinnedContainer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended.reset() == 0
    assert "0 > 0-1" in (shown := capsys.readouterr().out)
    assert "has all nodes of its pod now" in shown
    assert ended.runtime.store.containers[ended.container.id].linux.resources.cpu.mems == "0-1"
    assert ended.run() == 0, "a second run finds nothing to do"
    assert "has all nodes of its pod already" in capsys.readouterr().out


def adopted(ended: PinnedContainer, event: str) -> None:
    """Change the reason in the state file, and remove the history."""
    ended.remove_history()
    state = ended.host.state_file
    written = read_state(state)
    reasons = {key: replace(reason, event=event) for key, reason in written.reasons.pinned.items()}
    state.write_bytes(snapshot(written.with_reasons(Reasons(reasons))))


@pytest.mark.parametrize(
    ("event", "status", "remark"),
    [
        ("adopted", 1, "set by the plugin or by something else; see --adopted"),
        ("cpuset_mems_conflict", 0, "something else set these nodes; see --adopted"),
    ],
)
def test_a_container_that_the_plugin_found_with_nodes(
    ended: PinnedContainer,
    event: str,
    status: int,
    remark: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    adopted(ended, event)
    assert ended.run() == status
    shown = capsys.readouterr().out
    assert "default/db" in shown
    assert f"left as it is: {remark}" in shown
    assert ended.reset("--adopted") == 0
    assert "0 > 0-1" in capsys.readouterr().out


@pytest.mark.parametrize("text", [None, "{}", "{"])
def test_without_a_state_file_the_history_shows_what_the_plugin_pinned(
    ended: PinnedContainer, text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    ended.host.state_file.unlink()
    if text is not None:
        ended.host.state_file.write_text(text)
    assert ended.reset() == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The history shows what the plugin pinned." in shown
    assert "default/db server 0 > 0-1 has all nodes of its pod now" in shown


def test_without_state_and_history_nothing_is_changed(
    ended: PinnedContainer, capsys: pytest.CaptureFixture[str]
) -> None:
    ended.host.state_file.unlink()
    ended.remove_history()
    assert ended.run() == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "no state file" in shown
    assert "left as it is: set by the plugin or by something else; see --adopted" in shown
    assert ended.reset("--adopted", "--output=json") == 0
    (found,) = json.loads(capsys.readouterr().out)["containers"]
    assert (found["outcome"], found["assigned"], found["podNodes"]) == ("done", "0", "0-1")


def test_a_dry_run_changes_nothing(
    stand: PinnedContainer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while the plugin runs."""
    assert stand.host.stop(stand.process) == 0
    assert stand.run("--dry-run", "--output=json") == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == documented_keys("reset")
    (found,) = document["containers"]
    assert list(found) == documented_entry("reset", "containers")
    assert (found["outcome"], found["assigned"], found["podNodes"]) == ("pinned", "0", "0-1")
    assert (stand.directory / "cpuset.mems").read_text() == "0\n"


def test_it_is_refused_while_the_plugin_runs(
    stand: PinnedContainer, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.host.wait_record("admitted")
    assert stand.run() == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nri-numamem: the plugin runs: pid {stand.process.pid}, since ")
    assert "remove it from /opt/nri/plugins" in error
    assert error.count("\n") == 1


def test_other_nodes_than_the_plugins_are_left(
    ended: PinnedContainer, capsys: pytest.CaptureFixture[str]
) -> None:
    ended.write("1")
    assert ended.run() == 0
    assert "left as it is: not the plugin's nodes" in capsys.readouterr().out


def test_a_runtime_that_does_not_apply_it(
    ended: PinnedContainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nri_numamem.cli.reset.sender.WAIT_S", 1.0)
    assert ended.reset(applies=False) == 1
    assert "the runtime did not apply the update" in capsys.readouterr().out


def test_a_container_that_the_runtime_does_not_report(
    ended: PinnedContainer, capsys: pytest.CaptureFixture[str]
) -> None:
    ended.runtime.store.containers[ended.container.id].state = api.CONTAINER_STOPPED
    assert ended.reset("--output=json") == 1
    (found,) = json.loads(capsys.readouterr().out)["containers"]
    assert found["outcome"] == "unknown"


def test_a_state_file_that_cannot_be_read(
    ended: PinnedContainer, capsys: pytest.CaptureFixture[str]
) -> None:
    ended.host.state_file.unlink()
    ended.host.state_file.mkdir()
    assert ended.run() == 2
    error = f"nri-numamem: {ended.host.state_file}: Is a directory; run as root\n"
    assert capsys.readouterr().err == error


@pytest.mark.parametrize("columns", [80, 120])
def test_the_screen(
    ended: PinnedContainer,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As tests/cli/test_environments; UPDATE_SCREENS=1 writes the files."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert ended.run("--dry-run") == 0
    shown = capsys.readouterr().out
    check_screen(shown, SCREENS / f"reset-{columns}.txt")
    assert max(map(len, shown.splitlines())) <= columns


def test_the_state_file_with_the_former_name(ended: PinnedContainer) -> None:
    ended.remove_history()
    state = ended.host.state_file
    state.rename(state.with_name("memory_manager_state"))
    assert ended.reset() == 0
    assert ended.runtime.store.containers[ended.container.id].linux.resources.cpu.mems == "0-1"
