"""The plugin while no process id is free: no process, no thread can be started."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.launched_processes import (
    SUPERVISOR,
    end_supervisors,
    launching_runtime,
    processes_with,
)
from tests.pids_limit import InjectedLimit, PidsLimit, cgroup_limit
from tests.processes import children
from tests.simulated_host import WAIT_S, SimulatedHost, wait_for

pytestmark = pytest.mark.slow

MI = 1 << 20
LIMITED = str(Path(__file__).parent / "programs" / "limited.py")

# Several times as long as a plugin without a heartbeat lives in limited.py.
LONG_S = 6.0


@pytest.fixture(params=["cgroup", "injected"])
def pids(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PidsLimit]:
    """Both limits, and only the second one where no cgroup can be made."""
    injected = InjectedLimit(tmp_path / "no-pids")
    if request.param == "injected":
        yield injected
        return
    with cgroup_limit() as limit:
        yield limit or injected


class Launched:
    """The program as a runtime launches it."""

    def __init__(self, root: Path, pids: PidsLimit) -> None:
        self.socket, self.program, self._log = root / "nri.sock", root / "program", root / "log"
        self.config = f"logFile: {self._log}\nlogFormat: json\nstateFile: {root / 'state'}\n"
        words = shlex.join([sys.executable, LIMITED, *pids.arguments, str(self.socket)])
        self.program.write_text(f"#!/bin/sh\nexec {words}\n")
        self.program.chmod(0o755)

    def launch(self, runtime: FakeRuntime) -> int:
        """Return the pid of the plugin, which serves the runtime."""
        runtime.listen(self.socket)
        plugin = runtime.launch(self.program, "10-nri-numamem", self.config)
        runtime.synchronize()
        assert plugin.process is not None
        return plugin.process.pid

    def supervisors(self) -> list[int]:
        found = processes_with(str(self.socket))
        return [pid for pid, name in found.items() if name == SUPERVISOR]

    def wait_record(self, event: str) -> dict[str, Any]:
        wait_for(lambda: bool(self.records(event)), f"a record {event!r}")
        return self.records(event)[0]

    def records(self, event: str) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines(keepends=True) if self._log.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [record for record in found if record["event"] == event]

    def end(self) -> None:
        end_supervisors(str(self.socket))
        wait_for(lambda: not processes_with(str(self.socket)))


@pytest.fixture
def launched(tmp_path: Path, pids: PidsLimit) -> Iterator[Launched]:
    found = Launched(tmp_path, pids)
    yield found
    found.end()


def create(runtime: FakeRuntime, name: str) -> str:
    pod = runtime.run_pod_sandbox(objects.pod(name, memory_limit_bytes=MI))
    container = objects.container(pod, "server", memory_limit_bytes=MI)
    return runtime.create_container(pod, container).linux.resources.cpu.mems


def serves(runtime: FakeRuntime, seconds: float) -> None:
    """Create containers for this time, each of which must get a node."""
    end_s, number = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        number += 1
        assert create(runtime, f"pod-{number}") != ""
        time.sleep(0.1)
    assert runtime.plugin is not None
    assert runtime.plugin.why_closed == ""


def test_a_service_lives_on(simulated_host: SimulatedHost, pids: PidsLimit) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(sys.executable, LIMITED, *pids.arguments, "none"))
        runtime.accept(WAIT_S)
        runtime.synchronize()
        pids.exhaust(process.pid, *children(process.pid))
        serves(runtime, LONG_S)
        pids.free()
        assert simulated_host.stop(process) == 0
    assert not simulated_host.records("job_failed")


def test_a_service_starts_and_records_that_nothing_watches_it(
    simulated_host: SimulatedHost, pids: PidsLimit
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        pids.exhaust()
        process = simulated_host.start(command=(sys.executable, LIMITED, *pids.arguments, "none"))
        runtime.accept(WAIT_S)
        runtime.synchronize()
        serves(runtime, 1.0)
        assert pids.refusals() > 1
        pids.free()
        assert create(runtime, "last") != ""  # its record starts the thread of the log
        record = simulated_host.wait_record("supervisor_unavailable")
        assert simulated_host.stop(process) == 0
    assert "temporarily unavailable" in record["error"]
    assert simulated_host.records("admitted")


def test_a_launched_plugin_lives_on(launched: Launched, pids: PidsLimit) -> None:
    with launching_runtime() as runtime:
        pid = launched.launch(runtime)
        pids.exhaust(pid, *launched.supervisors())
        serves(runtime, LONG_S)
        pids.free()
    assert not launched.records("job_failed")


def test_a_launched_plugin_comes_back_when_ids_are_free_again(
    launched: Launched, pids: PidsLimit
) -> None:
    with launching_runtime() as runtime:
        pid = launched.launch(runtime)
        supervisors = launched.supervisors()
        pids.exhaust(pid, *supervisors)
        os.kill(pid, signal.SIGKILL)
        killed = runtime.plugin
        assert killed is not None
        assert killed.process is not None
        assert killed.process.wait(WAIT_S) == -signal.SIGKILL
        killed.close("it was killed")
        before = pids.refusals()
        wait_for(lambda: pids.refusals() >= before + 5, "five attempts to start a process")
        assert set(processes_with(str(launched.socket))) == set(supervisors)
        pids.free()
        runtime.accept(WAIT_S)
        runtime.synchronize()
        serves(runtime, 1.0)
        failed = launched.wait_record("restart_failed")
        died = launched.wait_record("restarting_after_crash")
        assert launched.supervisors() == supervisors
    assert "attempts failed: [Errno 11] Resource temporarily unavailable" in failed["cause"]
    assert died["cause"] == "it was killed, or exited without a traceback"


def test_a_launched_plugin_starts_and_records_that_nothing_watches_it(
    launched: Launched, pids: PidsLimit
) -> None:
    pids.exhaust()
    with launching_runtime() as runtime:
        launched.launch(runtime)
        assert launched.supervisors() == []
        serves(runtime, 1.0)
        pids.free()
        assert create(runtime, "last") != ""
        record = launched.wait_record("supervisor_unavailable")
    assert "temporarily unavailable" in record["error"]
