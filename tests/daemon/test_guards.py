"""Deadline and watchdog of a plugin process in which a fault is injected."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from nri_numamem.daemon.watchdog import STALL_S
from nri_numamem.nri.event_loop import TICK_S
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost

GI = 1 << 30
PATIENT, IMPATIENT = "60", "2"
AFFLICTED = str(Path(__file__).parent / "programs" / "afflicted.py")


@pytest.mark.parametrize("affliction", ["sleeps", "backtracks", "loops"])
def test_a_late_request_gets_an_empty_response_and_has_not_happened(
    simulated_host: SimulatedHost, affliction: str
) -> None:
    with FakeRuntime(request_timeout_s=5) as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(sys.executable, AFFLICTED, PATIENT))
        plugin = runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        late = objects.container(pod, affliction, memory_limit_bytes=GI)
        assert runtime.create_container(pod, late).linux.resources.cpu.mems == ""
        assert simulated_host.accounting(process)["entries"] == {}
        well = objects.container(pod, "server", memory_limit_bytes=GI)
        assert runtime.create_container(pod, well).linux.resources.cpu.mems == "0"
        assert plugin.why_closed == ""
        assert plugin.connection.recorder.violations == []
        assert simulated_host.stop(process) == 0
    (record,) = simulated_host.records("request_timed_out")
    assert record["limit_ms"] == 3000  # 60 % of the runtime's own timeout, not of the default
    assert record["method"] == "CreateContainerRequest"
    assert "afflicted.py" in str(record["exception"])
    assert [r["container"] for r in simulated_host.records("admitted")] == ["server"]


def test_a_synchronize_that_takes_too_long_ends_the_connection(
    simulated_host: SimulatedHost,
) -> None:
    with FakeRuntime(request_timeout_s=10) as runtime:
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        runtime.create_container(pod, objects.container(pod, "sleeps", memory_limit_bytes=GI))
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(sys.executable, AFFLICTED, PATIENT))
        plugin = runtime.accept(30)
        assert runtime.synchronize() == []
        assert plugin.connection.recorder.violations == []
        with pytest.raises(TimeoutError):  # a long pause, not a second later again
            runtime.accept(2.5)
        assert simulated_host.stop(process) == 0
    assert simulated_host.records("synchronize_timed_out")
    (record,) = simulated_host.records("connection_closed_by_plugin")
    assert record["cause"] == "Synchronize took longer than 9000 ms"


def test_a_container_that_could_not_be_recorded_ends_the_connection(
    simulated_host: SimulatedHost,
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(sys.executable, AFFLICTED, PATIENT))
        restored = runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        forgotten = objects.container(pod, "forgotten", memory_limit_bytes=GI)
        assert runtime.create_container(pod, forgotten).linux.resources.cpu.mems == "0"
        simulated_host.wait_record("disconnected")
        restored.close("it ended")
        plugin = runtime.accept(30)
        runtime.synchronize()
        entries = simulated_host.accounting(process)["entries"]
        block = {"numaAffinity": [0], "type": "memory", "size": GI}
        assert entries == {pod.uid: {"forgotten": [block]}}
        assert plugin.why_closed == ""
        assert simulated_host.stop(process) == 0
    (record,) = simulated_host.records("internal_error_after_reply")
    assert record["level"] == "error"
    assert "what a bug" in str(record["exception"])
    assert not simulated_host.records("admitted")
    (ended,) = simulated_host.records("disconnected")
    assert ended["cause"] == "the accounting lacks the contents of a reply"


def test_a_bug_after_an_empty_reply_does_not_end_the_connection(
    simulated_host: SimulatedHost,
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(sys.executable, AFFLICTED, PATIENT))
        plugin = runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        undead = objects.container(pod, "undead", memory_limit_bytes=GI)
        created = runtime.create_container(pod, undead)
        runtime.start_container(created)
        runtime.stop_container(created)
        runtime.stop_pod_sandbox(pod)
        assert simulated_host.accounting(process)["entries"] == {}
        assert plugin.why_closed == ""
        assert simulated_host.stop(process) == 0
    (record,) = simulated_host.records("internal_error")
    assert "what a bug" in str(record["exception"])
    assert not simulated_host.records("container_ended")


def test_a_stuck_loop_ends_the_process(simulated_host: SimulatedHost) -> None:
    """By a process of its own, far before the timer in C."""
    with FakeRuntime(request_timeout_s=30) as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(sys.executable, AFFLICTED, IMPATIENT))
        plugin = runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        hog = objects.container(pod, "hogs", memory_limit_bytes=GI)
        assert runtime.create_container(pod, hog).linux.resources.cpu.mems == ""
        assert "closed" in plugin.why_closed  # by the end of file, long before the timeout
        output, _ = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGABRT
    assert "most recent call first" in output
    assert "afflicted.py" in output


@pytest.mark.parametrize("seconds", [1, 3, 6])
def test_a_stop_of_some_seconds_is_survived(simulated_host: SimulatedHost, seconds: int) -> None:
    assert STALL_S > TICK_S + 6.0
    with FakeRuntime(request_timeout_s=20) as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(sys.executable, AFFLICTED, IMPATIENT))
        plugin = runtime.accept(30)
        runtime.synchronize()
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGCONT)
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        assert runtime.create_container(pod, container).linux.resources.cpu.mems == "0"
        assert plugin.why_closed == ""
        assert simulated_host.stop(process) == 0


def test_pauses_grow_while_the_runtime_disconnects_repeatedly(
    simulated_host: SimulatedHost,
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        for _ in range(4):
            plugin = runtime.accept(30)
            began_s = time.monotonic()
            plugin.close("dropped after Configure")
        runtime.accept(30)
        # After pauses of 0.2, 0.4 and 0.8 s.
        assert time.monotonic() - began_s >= 1.6
        assert simulated_host.stop(process) == 0
    assert len(simulated_host.records("disconnected")) == 4
