"""Deadline and watchdog of a plugin process in which a fault is injected."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.launched_processes import SUPERVISOR
from tests.processes import children
from tests.simulated_host import PLUGIN, SimulatedHost

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
    simulated_host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeRuntime(request_timeout_s=10) as runtime:
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        runtime.create_container(pod, objects.container(pod, "sleeps", memory_limit_bytes=GI))
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(sys.executable, AFFLICTED, PATIENT))
        plugin = runtime.accept(30)
        sent_s, call = [], plugin.connection.call

        def recorded(service: str, method: str, payload: bytes, timeout_s: float) -> bytes:
            sent_s.append(timeout_s)
            return call(service, method, payload, timeout_s)

        monkeypatch.setattr(plugin.connection, "call", recorded)
        assert runtime.synchronize() == []
        assert plugin.connection.recorder.violations == []
        with pytest.raises(TimeoutError):  # a long pause, not a second later again
            runtime.accept(2.5)
        assert simulated_host.stop(process) == 0
    assert simulated_host.records("synchronize_timed_out")
    (record,) = simulated_host.records("connection_closed_by_plugin")
    # The call carries the time that is left when it is sent: 10 s, or slightly less.
    assert record["cause"] == f"Synchronize took longer than {round(900 * sent_s[0])} ms"
    assert 9 < sent_s[0] <= 10


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


# The plugin is process 1, as in a container.
IN_A_CONTAINER = (
    *("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"),
)


def has_user_namespaces() -> bool:
    return not subprocess.run(
        [*IN_A_CONTAINER, "true"], capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize("affliction", ["hogs", "deadlocked"])
@pytest.mark.parametrize(
    ("prefix", "status"), [((), -signal.SIGABRT), (IN_A_CONTAINER, 128 + signal.SIGABRT)]
)
def test_a_stuck_loop_ends_the_process(
    simulated_host: SimulatedHost, affliction: str, prefix: tuple[str, ...], status: int
) -> None:
    """By another process, and with the traceback of each thread."""
    if prefix and not has_user_namespaces():
        pytest.skip("needs user namespaces")
    with FakeRuntime(request_timeout_s=30) as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(*prefix, sys.executable, AFFLICTED, IMPATIENT))
        plugin = runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        runtime.create_container(pod, objects.container(pod, affliction, memory_limit_bytes=GI))
        runtime.stop_pod_sandbox(pod)
        assert "closed" in plugin.why_closed  # by the end of file, long before the timeout
        output, _ = process.communicate(timeout=30)
    assert process.returncode == status
    assert "most recent call first" in output
    assert "afflicted.py" in output
    assert "writer.py" in output  # the thread of the log


def test_process_1_passes_signals_on_and_exits_with_the_plugin(
    simulated_host: SimulatedHost,
) -> None:
    if not has_user_namespaces():
        pytest.skip("needs user namespaces")
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start(command=(*IN_A_CONTAINER, *PLUGIN))
        runtime.accept(30)
        runtime.synchronize()
        (first,) = children(process.pid)
        (plugin,) = children(first)
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in (first, plugin)]
        os.kill(first, signal.SIGUSR1)
        simulated_host.wait_record("state_dump")
        os.kill(first, signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert names[0] == SUPERVISOR != names[1]
    assert simulated_host.records("stopped")


@pytest.mark.parametrize("seconds", [1, 3, 6])
def test_a_stop_of_some_seconds_is_survived(simulated_host: SimulatedHost, seconds: int) -> None:
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
