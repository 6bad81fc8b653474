"""The worker after a crash, in a virtual world."""

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.daemon import restarted
from nri_numamem.daemon.external import DEFAULT_SOCKET
from nri_numamem.daemon.restarted import Restarted
from nri_numamem.daemon.supervisor import CRASHED, DISCONNECTED, KILLED, Ending
from nri_numamem.daemon.supervisor_status import SupervisorStatus
from nri_numamem.engine.engine import Engine
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import Machine, NumaNode
from nri_numamem.observe.log import loggers as logs
from tests.laboratory.fake_sysfs import overlay_of, write_overlay
from tests.virtual.runtime import VirtualRuntime
from tests.virtual.system import Machinery
from tests.virtual.world import World

ENVIRONMENT = {"NRI_PLUGIN_NAME": "10-numamem", "NRI_PLUGIN_IDX": "10"}


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SupervisorStatus]:
    nodes = tuple(NumaNode(node, 1 << 32) for node in range(2))
    write_overlay(overlay_of(Machine(nodes)), tmp_path)
    roots = HostRoots(tmp_path / "sys", tmp_path / "proc", tmp_path / "cgroup")
    monkeypatch.setattr(restarted, "HostRoots", lambda: roots)
    found = SupervisorStatus()
    found.running(f"logFile: {tmp_path}/log\nlogFormat: json\nstateFile: {tmp_path}/state\n")
    yield found
    found.close()
    logs.configure()


def restart(
    machinery: Machinery, status: SupervisorStatus, why: str = "signal 9", traceback: str = ""
) -> int:
    """Run a worker until it is stopped after 60 s."""
    return restart_after(machinery, status, Ending(why, traceback, machinery.world.now_s - 1.25))


def restart_after(machinery: Machinery, status: SupervisorStatus, ending: Ending) -> int:
    worker = Restarted(ENVIRONMENT, status, 4711, machinery.system())
    machinery.world.after(60, machinery.signals.stop)
    return machinery.world.run(lambda: worker.restart(ending))


def log(root: Path) -> str:
    return (root / "log").read_text()


def named(root: Path, event: str) -> list[dict[str, object]]:
    records = [json.loads(line) for line in log(root).splitlines()]
    return [record for record in records if record["event"] == event]


def test_a_worker_serves_an_external_connection(status: SupervisorStatus, tmp_path: Path) -> None:
    machinery = Machinery(World())
    runtime = VirtualRuntime(machinery, DEFAULT_SOCKET)
    runtime.start()
    beats: list[int] = []
    machinery.world.after(30, lambda: beats.append(status.beats))
    assert restart(machinery, status, traceback="traceback") == 0
    assert runtime.registrations == [("numamem", "10")]
    assert runtime.newest.is_synchronized
    assert beats[0] >= 15
    assert status.beats == 0
    text = log(tmp_path)
    for event in ("restarting_after_crash", "away_ms", "traceback", "synchronized", "stopped"):
        assert event in text


def test_a_worker_connects_again_while_the_runtime_lives(status: SupervisorStatus) -> None:
    machinery = Machinery(World())
    runtime = VirtualRuntime(machinery, DEFAULT_SOCKET)
    machinery.world.after(5, runtime.start)
    machinery.world.after(20, lambda: runtime.send_raw(b"\xff" * 64))
    machinery.world.after(30, lambda: runtime.plugin.close("a request timed out"))
    assert restart(machinery, status) == 0
    assert [one.is_synchronized for one in runtime.served] == [True] * 3


def test_a_worker_connects_to_no_other_process(status: SupervisorStatus, tmp_path: Path) -> None:
    machinery = Machinery(World())
    runtime = VirtualRuntime(machinery, DEFAULT_SOCKET)
    runtime.start()
    machinery.network.runtime_pid = 1
    assert restart(machinery, status) == 0
    assert log(tmp_path).count("process 1 listens there, not 4711") == 1
    assert runtime.registrations == []


@pytest.mark.parametrize(
    ("why", "crash", "expected"),
    [
        (CRASHED, "Traceback", "crashed"),
        (KILLED, "", "killed"),
        ("signal 9", "", "killed"),
        ("exit status 1", "", "failed"),
        (DISCONNECTED, "", "disconnected"),
    ],
)
def test_starts_are_counted_by_cause(
    status: SupervisorStatus, why: str, crash: str, expected: str
) -> None:
    assert restart(Machinery(World()), status, why, crash) == 0
    assert {cause: count for cause, count in status.starts.items() if count} == {expected: 1}


def test_a_disconnection_is_no_crash(status: SupervisorStatus, tmp_path: Path) -> None:
    assert restart(Machinery(World()), status, DISCONNECTED) == 0
    (record,) = named(tmp_path, "restarting_after_disconnect")
    assert record["away_ms"] == 1250
    assert "restarting_after_crash" not in log(tmp_path)


def test_a_worker_that_cannot_start_is_started_again(
    status: SupervisorStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> Engine:
        raise UsageError("no such machine")

    monkeypatch.setattr(restarted, "build_engine", fail)
    assert restart(Machinery(World()), status) == 1
    assert "restart_failed" in log(tmp_path)
    assert "no such machine" in log(tmp_path)


def test_a_worker_waits_for_an_instance_that_took_over(
    status: SupervisorStatus, tmp_path: Path
) -> None:
    """A service that was in standby when the launched plugin crashed."""
    machinery = Machinery(World())
    runtime = VirtualRuntime(machinery, DEFAULT_SOCKET)
    runtime.start()
    with (tmp_path / "state.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        machinery.world.after(30, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
        assert restart(machinery, status) == 0
    assert [record["waited_s"] for record in named(tmp_path, "taken_over")] == [30]
    assert len(runtime.registrations) == 1


def test_starts_that_failed_are_recorded(status: SupervisorStatus, tmp_path: Path) -> None:
    machinery = Machinery(World())
    ending = Ending(
        KILLED, "", machinery.world.now_s - 40.0, 39, "[Errno 12] Cannot allocate memory"
    )
    assert restart_after(machinery, status, ending) == 0
    (record,) = named(tmp_path, "restart_failed")
    assert record["cause"] == (
        "no process could be started, 39 attempts failed: [Errno 12] Cannot allocate memory"
    )
    (record,) = named(tmp_path, "restarting_after_crash")
    assert record["away_ms"] == 40_000


def test_without_a_configuration_it_only_records_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LOG_FILE", tmp_path / "log")
    monkeypatch.setattr(logs, "JOURNAL_SOCKET", tmp_path / "none")
    machinery = Machinery(World())
    status = SupervisorStatus()
    assert restart_after(machinery, status, Ending(CRASHED, "a traceback")) == 0
    status.close()
    logs.configure()
    (record,) = named(tmp_path, "not_registered")
    assert record["cause"] == "it was stuck or crashed, before it had its configuration"
    assert record["exception"] == "a traceback"
    assert len(log(tmp_path).splitlines()) == 1
