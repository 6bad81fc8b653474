"""The supervisor with processes of the test, and with those of the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from nri_numamem.daemon.supervisor import (
    PAUSE_S,
    STARTS_LIMIT,
    KernelProcesses,
    Supervisor,
    SupervisorStatus,
    start,
)


class FakeProcesses:
    """Workers whose exit statuses a test lists; `ends` is when the runtime exits."""

    def __init__(self, *exits: int | None, runtime_ends_s: float = 1e9) -> None:
        self.now_s = 0.0
        self.exits = list(exits)
        self.runtime_ends_s = runtime_ends_s
        self.pauses: list[float] = []

    def monotonic_s(self) -> float:
        return self.now_s

    def wait_for_exit_before(self, _process: int, _other: int) -> bool:
        return self.now_s < self.runtime_ends_s

    def exits_within(self, _process: int, seconds: float) -> bool:
        self.pauses.append(seconds)
        self.now_s += seconds
        return self.now_s >= self.runtime_ends_s

    def run(self, worker: Callable[[], int], _runtime: int) -> int | None:
        worker()
        return self.exits.pop(0) if self.exits else 0


class RecordingWorker:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    def restart(self, why: str, crash: str) -> int:
        self.calls.append(("restart", why, crash))
        return 0

    def abandon(self, why: str, crash: str) -> int:
        self.calls.append(("abandon", why, crash))
        return 0


@pytest.fixture
def status() -> Iterator[SupervisorStatus]:
    found = SupervisorStatus()
    found.running("text")
    yield found
    found.close()


def supervise(status: SupervisorStatus, processes: FakeProcesses) -> list[tuple[str, str, str]]:
    worker = RecordingWorker()
    supervised = Supervisor(status, processes, lambda: worker, runtime=1, process=2)
    assert supervised.run() == 0
    return worker.calls


def test_workers_are_restarted_after_growing_pauses_and_then_abandoned(
    status: SupervisorStatus,
) -> None:
    os.write(status.crash_descriptor, b"traceback")
    processes = FakeProcesses(1, -9, 1, 1, 1)
    assert supervise(status, processes) == [
        ("restart", "it stalled or crashed", "traceback"),
        ("restart", "exit status 1", ""),
        ("restart", "signal 9", ""),
        ("restart", "exit status 1", ""),
        ("restart", "exit status 1", ""),
        ("abandon", "exit status 1", ""),
    ]
    assert processes.pauses == [PAUSE_S * 2**n for n in range(STARTS_LIMIT)]


def test_a_worker_that_ends_on_purpose_is_not_restarted(status: SupervisorStatus) -> None:
    (call,) = supervise(status, FakeProcesses(0))
    assert call == ("restart", "it was killed, or exited without a traceback", "")
    status.over()
    assert supervise(status, FakeProcesses()) == []


def test_the_supervisor_ends_with_the_runtime(status: SupervisorStatus) -> None:
    assert supervise(status, FakeProcesses(runtime_ends_s=0.0)) == []
    assert supervise(status, FakeProcesses(runtime_ends_s=0.5)) == []
    assert len(supervise(status, FakeProcesses(None))) == 1


def test_processes_of_the_kernel() -> None:
    processes = KernelProcesses()
    runtime = os.pidfd_open(os.getpid())
    assert not processes.exits_within(runtime, 0.01)
    assert processes.run(lambda: 3, runtime) == 3

    def kill() -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    assert processes.run(kill, runtime) == -signal.SIGTERM
    os.close(runtime)

    def pause() -> int:
        signal.pause()
        return 0

    with subprocess.Popen(["sleep", "60"]) as sleeping:
        ending = os.pidfd_open(sleeping.pid)
        sleeping.kill()
        assert processes.run(pause, ending) is None
        os.close(ending)
    assert processes.monotonic_s() > 0


def test_the_status_is_shared() -> None:
    status = SupervisorStatus()
    stands = [status.should_restart]
    status.running("long text")
    status.running("text: ä")
    stands.append(status.should_restart)
    assert status.configuration() == "text: ä"
    status.over()
    stands.append(status.should_restart)
    assert stands == [False, True, False]
    os.write(status.crash_descriptor, b"x" * 10_000 + b"end")
    assert status.take_crash().endswith("xend")
    assert status.take_crash() == ""
    os.write(status.crash_descriptor, b"again")
    assert status.take_crash() == "again"


def test_an_invalid_descriptor_is_passed_to_the_worker() -> None:
    def never(_status: SupervisorStatus, _runtime_pid: int) -> object:
        raise AssertionError("nothing is to be started")

    assert start({"NRI_PLUGIN_SOCKET": "three"}, never) is None  # type: ignore[arg-type]
