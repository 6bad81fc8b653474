"""The supervisor on a virtual clock, with processes of the test."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_numamem.daemon import supervisor
from nri_numamem.daemon.liveness import SAMPLE_S, STUCK_S, Activity
from nri_numamem.daemon.processes import Process, Processes
from nri_numamem.daemon.supervisor import (
    CRASHED,
    DISCONNECTED,
    KILLED,
    NICE,
    PAUSE_MAX_S,
    PAUSE_S,
    RETRY_S,
    Ending,
    Supervisor,
    raise_weight,
    start,
    watch,
)
from nri_numamem.daemon.supervisor_status import SupervisorStatus
from nri_numamem.nri.event_loop import TICK_S

RUNTIME, FIRST = Process(1, 1), Process(2, 2)


class FakeProcesses(Processes):
    """Workers whose exit statuses a test lists, each after a time; `runtime_ends_s` as it says."""

    def __init__(self, *exits: int, runtime_ends_s: float = 1e9, first_ends_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.exits = list(exits)
        self.ends_s = {RUNTIME: runtime_ends_s, FIRST: first_ends_s}
        self.statuses: dict[Process, int] = {}
        self.pauses: list[float] = []
        self.killed: list[Process] = []

    def monotonic_s(self) -> float:
        return self.now_s

    def exits_within(self, process: Process, seconds: float) -> bool:
        self.pauses.append(seconds)
        return self.first_exit((process,), seconds) is not None

    def first_exit(self, processes: tuple[Process, ...], seconds: float) -> Process | None:
        end_s = self.now_s + seconds
        self.now_s = max(self.now_s, min(end_s, *(self.ends_s[one] for one in processes), end_s))
        return next((one for one in processes if self.ends_s[one] <= self.now_s), None)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def activity(self, process: Process) -> Activity:
        if self.ends_s[process] <= self.now_s:
            raise ProcessLookupError
        return Activity("S", 0.0, 0.0)

    def start(self, run: Callable[[], int]) -> Process:
        run()
        process = Process(10 + len(self.statuses), 0)
        self.statuses[process] = self.exits.pop(0) if self.exits else 0
        self.ends_s[process] = self.now_s
        return process

    def abort(self, process: Process) -> None:
        self.killed.append(process)
        self.ends_s[process] = self.now_s

    def kill(self, process: Process) -> None:
        self.killed.append(process)

    def reap(self, process: Process) -> int:
        return self.statuses[process]


class RecordingWorker:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.endings: list[Ending] = []

    def restart(self, ending: Ending) -> int:
        self.calls.append((ending.why, ending.crash))
        self.endings.append(ending)
        return 0


@pytest.fixture
def status() -> Iterator[SupervisorStatus]:
    found = SupervisorStatus()
    found.running("text")
    yield found
    found.close()


def supervise(status: SupervisorStatus, processes: FakeProcesses) -> list[tuple[str, str]]:
    worker = RecordingWorker()
    supervised = Supervisor(status, processes, lambda: worker, runtime=RUNTIME, process=FIRST)
    assert supervised.run() == 0
    return worker.calls


def test_workers_are_restarted_after_growing_pauses_for_ever(status: SupervisorStatus) -> None:
    os.write(status.crash_descriptor, b"traceback")
    processes = FakeProcesses(1, -9, *[1] * 97)
    assert supervise(status, processes) == [
        (CRASHED, "traceback"),
        ("exit status 1", ""),
        ("signal 9", ""),
        *[("exit status 1", "")] * 97,
    ]
    assert processes.pauses[:8] == [PAUSE_S * 2**number for number in range(6)] + [PAUSE_MAX_S] * 2
    assert set(processes.pauses[8:]) == {PAUSE_MAX_S}


def test_a_worker_gets_the_time_of_the_end_before_it(status: SupervisorStatus) -> None:
    worker = RecordingWorker()
    processes = FakeProcesses(1, first_ends_s=7.0)
    Supervisor(status, processes, lambda: worker, runtime=RUNTIME, process=FIRST).run()
    assert [ending.at_s for ending in worker.endings] == [7.0, 7.0 + PAUSE_S]


def test_pauses_start_anew_after_ten_quiet_minutes(status: SupervisorStatus) -> None:
    processes = FakeProcesses(1, 1, 0)
    begun = processes.start

    def start_and_live(run: Callable[[], int]) -> Process:
        process = begun(run)
        if len(processes.statuses) == 2:
            processes.ends_s[process] = processes.now_s + 600
            status.beat(0)
        return process

    processes.start = start_and_live  # type: ignore[method-assign]
    supervise(status, processes)
    assert processes.pauses == [PAUSE_S, 2 * PAUSE_S, PAUSE_S]


class Exhausted(FakeProcesses):
    """Starts fail until a time, and so does everything else from `breaks_s` until then."""

    def __init__(self, *exits: int, until_s: float, breaks_s: float = 1e9) -> None:
        super().__init__(*exits)
        self._until_s, self._breaks_s = until_s, breaks_s
        self.attempts = 0

    def start(self, run: Callable[[], int]) -> Process:
        self.attempts += 1
        if self.now_s < self._until_s:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return super().start(run)

    def first_exit(self, processes: tuple[Process, ...], seconds: float) -> Process | None:
        if self._breaks_s <= self.now_s < self._until_s:
            raise MemoryError
        return super().first_exit(processes, seconds)


def test_a_start_that_fails_is_tried_again_until_it_succeeds(status: SupervisorStatus) -> None:
    worker = RecordingWorker()
    processes = Exhausted(-9, 1, until_s=3600.0)
    Supervisor(status, processes, lambda: worker, runtime=RUNTIME, process=FIRST).run()
    first, second, *_ = worker.endings
    assert first.why == KILLED
    assert first.failed_starts == pytest.approx(3600.0 / RETRY_S, abs=2)
    assert first.start_error == "[Errno 11] Resource temporarily unavailable"
    assert (second.why, second.failed_starts, second.start_error) == ("signal 9", 0, "")


def test_no_error_ends_the_supervisor_while_the_runtime_lives(status: SupervisorStatus) -> None:
    worker = RecordingWorker()
    processes = Exhausted(0, until_s=60.0, breaks_s=0.0)
    Supervisor(status, processes, lambda: worker, runtime=RUNTIME, process=FIRST).run()
    assert len(worker.endings) == 1
    assert processes.now_s >= 60.0
    processes = Exhausted(until_s=1e9)
    processes.ends_s[RUNTIME] = 600.0
    assert supervise(status, processes) == []
    assert 600.0 <= processes.now_s < 600.0 + 2 * RETRY_S


def test_a_healthy_plugin_outlives_errors_of_its_watcher(status: SupervisorStatus) -> None:
    plugin = VirtualPlugin(status, "S", stops_s=1e9)
    healthy, count = plugin.activity, itertools.count()

    def activity(process: Process) -> Activity:
        if next(count) % 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return healthy(process)

    plugin.activity = activity  # type: ignore[method-assign]
    assert watch(plugin, status, FIRST, (RUNTIME, FIRST)) is RUNTIME
    assert plugin.killed == []


def test_a_worker_that_ends_on_purpose_is_not_restarted(status: SupervisorStatus) -> None:
    (call,) = supervise(status, FakeProcesses(0))
    assert call == (KILLED, "")
    status.over()
    assert supervise(status, FakeProcesses()) == []


def test_a_plugin_that_was_never_configured_is_started_for_its_record_only() -> None:
    status = SupervisorStatus()
    assert supervise(status, FakeProcesses(0)) == [(KILLED, "")]
    assert supervise(status, FakeProcesses(runtime_ends_s=0.5)) == []
    status.over()  # its configuration was rejected
    assert supervise(status, FakeProcesses()) == []
    status.close()


def test_a_runtime_that_closed_the_connection_but_lives_gets_a_worker(
    status: SupervisorStatus,
) -> None:
    status.disconnected()
    assert supervise(status, FakeProcesses(1)) == [(DISCONNECTED, ""), ("exit status 1", "")]


def test_the_supervisor_ends_with_the_runtime(status: SupervisorStatus) -> None:
    assert supervise(status, FakeProcesses(runtime_ends_s=0.0)) == []
    assert supervise(status, FakeProcesses(runtime_ends_s=0.5)) == []
    processes = FakeProcesses(runtime_ends_s=PAUSE_S + 1)
    begun = processes.start

    def start_and_live(run: Callable[[], int]) -> Process:
        process = begun(run)
        processes.ends_s[process] = float("inf")
        return process

    processes.start = start_and_live  # type: ignore[method-assign]
    assert len(supervise(status, processes)) == 1
    assert len(processes.killed) == 1


class VirtualPlugin(FakeProcesses):
    """A first worker whose event loop ticks, except from `stops_s` to `goes_on_s`.

    Meanwhile its threads are in `state` and run for the share `ran` of the time.
    """

    def __init__(
        self,
        status: SupervisorStatus,
        state: str,
        ran: float = 0.0,
        *,
        stops_s: float = 20.0,
        seconds: float = 1e9,
    ) -> None:
        super().__init__(runtime_ends_s=200.0, first_ends_s=1e9)
        self._status = status
        self._state, self._ran = state, ran
        self._stops_s, self._goes_on_s = stops_s, stops_s + seconds

    @property
    def _is_away(self) -> bool:
        return self._stops_s <= self.now_s < self._goes_on_s

    def activity(self, process: Process) -> Activity:
        super().activity(process)
        loop_s = min(self.now_s, self._stops_s) + max(0.0, self.now_s - self._goes_on_s)
        self._status.beat(1 + int(loop_s / TICK_S))
        away_s = max(0.0, min(self.now_s, self._goes_on_s) - self._stops_s)
        return Activity(self._state if self._is_away else "S", self._ran * away_s, 0.0)


@pytest.mark.parametrize("seconds", [1.0, 3.0, 6.0, 60.0])
@pytest.mark.parametrize("stops_s", [20.0, 20.3, 21.0, 21.9])
@pytest.mark.parametrize(("state", "ran"), [("?", 0.0), ("R", 0.0), ("R", 0.05)])
def test_a_plugin_that_is_stopped_or_starved_is_left_running(
    status: SupervisorStatus, seconds: float, stops_s: float, state: str, ran: float
) -> None:
    plugin = VirtualPlugin(status, state, ran, stops_s=stops_s, seconds=seconds)
    assert supervise(status, plugin) == []
    assert plugin.killed == []
    assert plugin.now_s == 200.0


@pytest.mark.parametrize(("state", "ran"), [("S", 0.0), ("R", 1.0)], ids=["deadlock", "loop"])
@pytest.mark.parametrize("stops_s", [20.0, 20.7, 21.9])
def test_a_plugin_that_is_stuck_is_ended_soon(
    status: SupervisorStatus, state: str, ran: float, stops_s: float
) -> None:
    plugin = VirtualPlugin(status, state, ran, stops_s=stops_s)
    ended = watch(plugin, status, FIRST, (RUNTIME, FIRST))
    assert ended is FIRST
    assert plugin.killed == [FIRST]
    assert STUCK_S <= plugin.now_s - stops_s + TICK_S <= STUCK_S + 3 * SAMPLE_S


def test_an_invalid_descriptor_is_passed_to_the_worker() -> None:
    def never(_status: SupervisorStatus, _runtime_pid: int) -> object:
        raise AssertionError("nothing is to be started")

    assert start({"NRI_PLUGIN_SOCKET": "three"}, never) is None  # type: ignore[arg-type]


def start_supervisor() -> None:
    start({"NRI_PLUGIN_SOCKET": "3"}, lambda *_: RecordingWorker())


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_a_fork_that_fails_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(os, "closerange", lambda _low, _high: None)
    for start_one in (start_supervisor, supervisor.start_observer):
        before = open_files()
        with pytest.raises(BlockingIOError):
            start_one()
        assert open_files() == before


def test_a_kernel_without_pidfds_has_no_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    def pidfd_open(_pid: int) -> int:
        raise OSError("Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    monkeypatch.setattr(os, "closerange", lambda _low, _high: None)
    for start_one in (start_supervisor, supervisor.start_observer):
        with pytest.raises(OSError, match="Function not implemented"):
            start_one()


@pytest.mark.parametrize(("before", "after"), [(0, NICE), (19, NICE), (-20, -20)])
def test_the_weight_is_raised_and_never_lowered(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    nice = [before]
    monkeypatch.setattr(os, "getpriority", lambda _which, _who: nice[-1])
    monkeypatch.setattr(os, "setpriority", lambda _which, _who, value: nice.append(value))
    raise_weight()
    assert nice[-1] == after


def test_a_weight_that_cannot_be_raised_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    raise_weight()
