"""``nri-numamem reset`` after the plugin ended, on a runtime that applies its updates."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from nri_numamem.engine.reason import Reasons
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.snapshot import snapshot
from nri_numamem.observe.state_file import read_state
from tests.cli.documented import documented_entry, documented_keys
from tests.cli.screen_files import check_screen
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost

GI = 1 << 30
SCREENS = Path(__file__).parent / "screens"


class Stand:
    """A runtime with one pinned container, whose plugin has ended."""

    def __init__(self, host: SimulatedHost, runtime: FakeRuntime) -> None:
        self.host = host
        self.runtime = runtime
        runtime.listen(host.socket)
        self.process = host.start()
        runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        self.container = runtime.create_container(
            pod, objects.container(pod, "server", memory_limit_bytes=GI)
        )
        runtime.start_container(self.container)
        self.directory = host.roots.cgroup / self.container.linux.cgroups_path.lstrip("/")
        self.directory.mkdir(parents=True)
        (self.directory.parent / "cpuset.mems.effective").write_text("0-1\n")
        self.write(self.container.linux.resources.cpu.mems)

    def write(self, mems: str) -> None:
        (self.directory / "cpuset.mems").write_text(f"{mems}\n")

    def reset(self, *arguments: str, applies: bool = True) -> int:
        """Run the command against the runtime; return its exit status."""
        assert self.runtime.plugin is not None
        self.runtime.plugin.connection.close()

        def serve() -> None:
            self.runtime.accept()
            for update in self.runtime.synchronize():
                if applies:
                    self.write(update.linux.resources.cpu.mems)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            return self.run(*arguments)
        finally:
            thread.join(20)

    def run(self, *arguments: str) -> int:
        """Run the command without a runtime that serves it."""
        return main(
            [
                "reset",
                f"--socket={self.host.socket}",
                f"--state-file={self.host.state_file}",
                f"--cgroup-root={self.host.roots.cgroup}",
                *arguments,
            ]
        )


@pytest.fixture
def stand(simulated_host: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.setenv("COLUMNS", "120")
    with FakeRuntime() as runtime:
        yield Stand(simulated_host, runtime)


@pytest.fixture
def ended(stand: Stand) -> Stand:
    assert stand.host.stop(stand.process) == 0
    return stand


def test_a_pinned_container_gets_all_nodes_back(
    ended: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended.reset() == 0
    assert "0 > 0-1" in (shown := capsys.readouterr().out)
    assert "has all nodes of its pod now" in shown
    assert ended.runtime.store.containers[ended.container.id].linux.resources.cpu.mems == "0-1"
    assert ended.run() == 0, "a second run finds nothing to do"
    assert "has all nodes of its pod already" in capsys.readouterr().out


def test_a_container_that_was_pinned_before_the_plugin(
    ended: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ended.host.state_file
    written = read_state(state)
    reasons = {
        key: replace(reason, event=EventName.ADOPTED)
        for key, reason in written.reasons.pinned.items()
    }
    state.write_bytes(snapshot(written.with_reasons(Reasons(reasons))))
    assert ended.run() == 0
    shown = capsys.readouterr().out
    assert "default/db" in shown
    assert "left as it is: it had these nodes before the plugin; see --adopted" in shown
    assert ended.reset("--adopted") == 0
    assert "0 > 0-1" in capsys.readouterr().out


def test_a_dry_run_changes_nothing(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
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
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.host.wait_record("admitted")
    assert stand.run() == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nri-numamem: the plugin runs: pid {stand.process.pid}, since ")
    assert "remove it from /opt/nri/plugins" in error
    assert error.count("\n") == 1


def test_other_nodes_than_the_plugins_are_left(
    ended: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    ended.write("1")
    assert ended.run() == 0
    assert "left as it is: not the plugin's nodes" in capsys.readouterr().out


def test_a_runtime_that_does_not_apply_it(
    ended: Stand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nri_numamem.cli.reset.sender.WAIT_S", 1.0)
    assert ended.reset(applies=False) == 1
    assert "the runtime did not apply the update" in capsys.readouterr().out


def test_a_container_that_the_runtime_does_not_report(
    ended: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    ended.runtime.store.containers[ended.container.id].state = api.CONTAINER_STOPPED
    assert ended.reset("--output=json") == 1
    (found,) = json.loads(capsys.readouterr().out)["containers"]
    assert found["outcome"] == "unknown"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "no such file; without it nothing says what the plugin pinned"),
        ("{}", "missing, or not of type int"),
    ],
)
def test_a_state_file_that_cannot_be_used(
    tmp_path: Path, text: str | None, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state"
    if text is not None:
        path.write_text(text)
    assert main(["reset", f"--state-file={path}", "--dry-run"]) == 2
    shown = capsys.readouterr().err
    assert error in shown
    assert shown.startswith(f"nri-numamem: {path}: ")


@pytest.mark.parametrize("columns", [80, 120])
def test_the_screen(
    ended: Stand,
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
