"""The program as a runtime launches it: three variables, descriptor 3, nothing else."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.plugin import PluginUnavailable
from tests.laboratory.runtime import FakeRuntime
from tests.laboratory.version import RuntimeVersion
from tests.launched_processes import end_supervisors, launching_runtime
from tests.simulated_host import WAIT_S, wait_for

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("nri-numamem")
MI = 1 << 20

OLD = RuntimeVersion("containerd", "v1.7.6", (0, 3, 0))
MIDDLE = RuntimeVersion("containerd", "v1.7.25", (0, 6, 1))
NEW = RuntimeVersion("containerd", "v2.3.4", (0, 12, 0))


# The program, but the engine is not built at once: a line of Python for each attempt.
TROUBLED = """#!{python}
import sys, time
from pathlib import Path
from nri_numamem.daemon import liveness, supervisor, launched, restarted
from nri_numamem.cli import main
from nri_numamem.observe.log import writer
writer.FLUSH_S = 30.0  # what is left then would go to /dev/null
build, troubles = launched.build_engine, {troubles!r}
def troubled(settings, roots):
    exec(troubles.pop(0) if troubles else "")
    return build(settings, roots)
launched.build_engine = troubled
supervisor.PAUSE_S, liveness.SAMPLE_S, liveness.STUCK_S = 0.05, 0.3, 6.0
restarted.DEFAULT_SOCKET = Path({socket!r})
sys.argv = ["nri-numamem"]
sys.exit(main.main())
"""
SLOW, BUG = "time.sleep(60)", "1 / 0"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log" / "plugin.log"


@pytest.fixture(autouse=True)
def no_process_remains(tmp_path: Path) -> Iterator[None]:
    """End what the supervisors would start again: the runtime is a part of this process."""
    yield
    for mark in (str(tmp_path / "program"), str(PROGRAM)):
        end_supervisors(mark)


def records(log: Path) -> list[dict[str, object]]:
    text = log.read_text() if log.exists() else ""  # a thread writes it after the reply
    return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == "\n"]


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW], ids=lambda v: v.nri_version_text)
def test_serves_its_connection_and_ends_with_it(log: Path, version: RuntimeVersion) -> None:
    config = f"logFile: {log}\nlogFormat: json\nstateFile: {log.with_name('state')}\n"
    with launching_runtime(version) as runtime:
        plugin = runtime.launch(PROGRAM, "10-nri-numamem", config)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=MI))
        container = objects.container(pod, "server", memory_limit_bytes=MI)
        created = runtime.create_container(pod, container)
        assert created.linux.resources.cpu.mems != ""
        assert plugin.why_closed == ""
        assert plugin.process is not None
        stdio = {str(Path(f"/proc/{plugin.process.pid}/fd/{fd}").readlink()) for fd in range(3)}
        assert stdio == {"/dev/null"}
        plugin.connection.close()
        assert plugin.process.wait(WAIT_S) == 0
    events = [record["event"] for record in records(log)]
    assert events[0] == "machine"
    assert "admitted" in events
    assert events[-1] == "plugin_exited"


def test_a_broken_configuration_is_refused_where_the_runtime_survives_it() -> None:
    with launching_runtime(NEW) as runtime, pytest.raises(PluginUnavailable, match="logLevle"):
        runtime.launch(PROGRAM, "10-nri-numamem", "logLevle: debug\n")


def test_a_broken_configuration_does_not_end_an_old_runtime() -> None:
    with launching_runtime(MIDDLE) as runtime:
        plugin = runtime.launch(PROGRAM, "10-nri-numamem", "logLevle: debug\n")
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=MI))
        container = objects.container(pod, "server", memory_limit_bytes=MI)
        assert runtime.create_container(pod, container).linux.resources.cpu.mems == ""
        assert plugin.why_closed == ""


@pytest.mark.parametrize(
    "environment",
    [
        {"NRI_PLUGIN_SOCKET": "three", "NRI_PLUGIN_NAME": "x"},
        {"NRI_PLUGIN_SOCKET": "3"},
        {"NRI_PLUGIN_SOCKET": "3", "NRI_PLUGIN_NAME": "x", "NRI_PLUGIN_IDX": "10"},
    ],
    ids=["no number", "no name", "no socket"],
)
def test_a_broken_environment_is_logged_and_ends_the_process(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [PROGRAM], env=environment, capture_output=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_a_second_instance_is_refused_where_the_runtime_survives_it(log: Path) -> None:
    config = f"logFile: {log}\nlogFormat: json\nstateFile: {log.with_name('state')}\n"
    with launching_runtime(NEW) as first, launching_runtime(NEW) as second:
        pid = launched_pid(first, config)
        with pytest.raises(PluginUnavailable, match=rf"pid {pid}, .*launched by the runtime"):
            second.launch(PROGRAM, "20-nri-numamem", config)


def test_a_second_instance_does_not_end_an_old_runtime(log: Path) -> None:
    config = f"logFile: {log}\nlogFormat: json\nstateFile: {log.with_name('state')}\n"
    with launching_runtime(NEW) as first, launching_runtime(MIDDLE) as second:
        pid = launched_pid(first, config)
        second.launch(PROGRAM, "20-nri-numamem", config)
        pod = second.run_pod_sandbox(objects.pod("db", memory_limit_bytes=MI))
        container = objects.container(pod, "server", memory_limit_bytes=MI)
        assert second.create_container(pod, container).linux.resources.cpu.mems == ""
        wait_for(lambda: "configuration_failed_inactive" in events_of(log))
    (record,) = [r for r in records(log) if str(r["event"]).startswith("configuration_failed")]
    assert f"pid {pid}, " in str(record["error"])


def launched_pid(runtime: FakeRuntime, config: str) -> int:
    plugin = runtime.launch(PROGRAM, "10-nri-numamem", config)
    assert plugin.process is not None
    return plugin.process.pid


def write_troubled(root: Path, *troubles: str) -> Path:
    """Write the program that fails so; return its path."""
    path = root / "program"
    socket = str(root / "nri.sock")
    text = TROUBLED.format(python=sys.executable, troubles=list(troubles), socket=socket)
    path.write_text(text)
    path.chmod(0o755)
    return path


def config_of(log: Path) -> str:
    return f"logFile: {log}\nlogFormat: json\nstateFile: {log.with_name('state')}\n"


def events_of(log: Path) -> list[object]:
    return [record["event"] for record in records(log)]


def running_pod(runtime: FakeRuntime, memory_limit_bytes: int = MI) -> str:
    """Give the runtime a container that runs already; return its pod's uid."""
    pod = objects.pod("was there", memory_limit_bytes=memory_limit_bytes)
    runtime.store.pods[pod.id] = pod
    container = objects.container(pod, "server", memory_limit_bytes=memory_limit_bytes)
    container.state = api.CONTAINER_RUNNING
    runtime.store.add_container(container)
    return pod.uid


def mems_of_a_new_one(runtime: FakeRuntime) -> str:
    pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=MI))
    container = objects.container(pod, "server", memory_limit_bytes=MI)
    return runtime.create_container(pod, container).linux.resources.cpu.mems


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW], ids=lambda v: v.nri_version_text)
@pytest.mark.parametrize("trouble", [SLOW, BUG], ids=["slow", "bug"])
def test_a_configuration_that_was_not_applied_is_applied_after_the_reply(
    tmp_path: Path, log: Path, version: RuntimeVersion, trouble: str
) -> None:
    """The Synchronize that follows finds the engine, so the accounting is complete."""
    with launching_runtime(version) as runtime:
        running_pod(runtime)
        plugin = runtime.launch(write_troubled(tmp_path, trouble), "10-nri-numamem", config_of(log))
        updates = runtime.synchronize()
        synchronizes = version.synchronizes_launched
        assert len(updates) == synchronizes
        assert mems_of_a_new_one(runtime) != ""
        assert plugin.why_closed == ""
        wait_for(lambda: "admitted" in events_of(log))
    assert ("synchronized" in events_of(log)) is synchronizes
    failed = "internal_error" if trouble == BUG else "request_timed_out"
    (record,) = [r for r in records(log) if str(r["event"]).startswith(failed)]
    assert record["method"] == "ConfigureRequest"
    assert [r["level"] for r in records(log)].count("error") == 1


@pytest.mark.parametrize("version", [MIDDLE, NEW], ids=lambda v: v.nri_version_text)
def test_a_configuration_that_fails_again_is_applied_by_another_process(
    tmp_path: Path, log: Path, version: RuntimeVersion
) -> None:
    """The runtime synchronizes the new process, so its accounting is current."""
    with launching_runtime(version) as runtime:
        running_pod(runtime)
        runtime.listen(tmp_path / "nri.sock")
        program = write_troubled(tmp_path, BUG, BUG)
        first = runtime.launch(program, "10-nri-numamem", config_of(log))
        assert first.process is not None
        assert first.process.wait(WAIT_S) == 1
        first.close("it ended")
        runtime.accept(WAIT_S)
        assert len(runtime.synchronize()) == 1
        assert mems_of_a_new_one(runtime) != ""
        wait_for(lambda: "restarting_after_crash" in events_of(log))
    ending = next(r for r in records(log) if r["event"] == "configuration_failed_exiting")
    assert "ZeroDivisionError" in str(ending["exception"])
    ended = next(r for r in records(log) if r["event"] == "plugin_exited")
    assert ended["cause"] == "the configuration was not applied"


def test_a_configuration_that_hangs_is_applied_by_another_process(
    tmp_path: Path, log: Path
) -> None:
    """The deadline ends the first attempt, the supervisor the second."""
    with launching_runtime(NEW) as runtime:
        runtime.listen(tmp_path / "nri.sock")
        first = runtime.launch(
            write_troubled(tmp_path, SLOW, SLOW), "10-nri-numamem", config_of(log)
        )
        assert first.process is not None
        assert first.process.wait(WAIT_S) == -signal.SIGABRT
        first.close("it ended")
        runtime.accept(WAIT_S)
        runtime.synchronize()
        assert mems_of_a_new_one(runtime) != ""
        wait_for(lambda: "restarting_after_crash" in events_of(log))
    (died,) = [r for r in records(log) if r["event"] == "restarting_after_crash"]
    assert died["cause"] == "it was stuck or crashed"
    assert "troubled" in str(died["exception"])


def test_a_refusal_that_comes_too_late_changes_nothing(tmp_path: Path, log: Path) -> None:
    config = config_of(log)
    refused = "raise launched.UsageError('no such machine')"
    with launching_runtime(NEW) as runtime:
        program = write_troubled(tmp_path, SLOW, refused)
        plugin = runtime.launch(program, "10-nri-numamem", config)
        runtime.synchronize()
        assert mems_of_a_new_one(runtime) == ""
        assert plugin.process is not None
        assert plugin.why_closed == ""
        wait_for(lambda: "configuration_failed_inactive" in events_of(log))
        plugin.process.kill()
        # Another process could do no better.
        wait_for(lambda: not supervisors_of(program))
    (record,) = [r for r in records(log) if str(r["event"]).startswith("configuration_failed")]
    assert record["error"] == "no such machine"
    assert "restarting_after_crash" not in events_of(log)


def test_an_old_runtime_synchronizes_the_plugin_over_its_socket(tmp_path: Path, log: Path) -> None:
    with launching_runtime(MIDDLE) as runtime:
        uid = running_pod(runtime)
        runtime.listen(tmp_path / "nri.sock")
        first = runtime.launch(write_troubled(tmp_path), "10-nri-numamem", config_of(log))
        second = runtime.accept(WAIT_S)
        first.close("it closed its end")
        assert (second.idx, second.name) == ("10", "nri-numamem")
        (update,) = runtime.synchronize()
        assert update.linux.resources.cpu.mems != ""
        assert mems_of_a_new_one(runtime) != ""
        second.connection.close()
        assert first.process is not None
        assert first.process.wait(WAIT_S) == 0
    (pinned,) = [r for r in records(log) if r["event"] == "pinned_while_running"]
    assert pinned["pod_uid"] == uid
    # The second configuration, which is empty, is not applied.
    assert events_of(log).count("machine") == 1
    assert "restarting_after_crash" not in events_of(log)


def test_a_runtime_that_may_deadlock_is_not_connected_to(tmp_path: Path, log: Path) -> None:
    with launching_runtime(OLD) as runtime:
        runtime.listen(tmp_path / "nri.sock")
        plugin = runtime.launch(write_troubled(tmp_path), "10-nri-numamem", config_of(log))
        wait_for(lambda: "runtime_never_synchronizes" in events_of(log))
        assert mems_of_a_new_one(runtime) != ""
        assert plugin.why_closed == ""
    (emitted,) = [r for r in records(log) if r["event"] == "runtime_never_synchronizes"]
    assert emitted["cause"] == "the runtime is too old"


def test_without_a_socket_it_serves_an_old_runtime_as_it_can(tmp_path: Path, log: Path) -> None:
    program = write_troubled(tmp_path)
    text = program.read_text()
    program.write_text(
        text.replace("supervisor.PAUSE_S", "launched.CONNECT_TRIES = 1\nsupervisor.PAUSE_S")
    )
    with launching_runtime(MIDDLE) as runtime:
        plugin = runtime.launch(program, "10-nri-numamem", config_of(log))
        wait_for(lambda: "runtime_never_synchronizes" in events_of(log))
        assert mems_of_a_new_one(runtime) != ""
        assert plugin.why_closed == ""


def supervisors_of(program: Path) -> list[str]:
    """Return the processes that the program left behind."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(program).encode() in (directory / "cmdline").read_bytes().split(b"\0"):
                found.append(directory.name)
    return found


# The program, which the runtime gives up before it is registered: it is slow, or ends.
LATE = """#!{python}
import os, sys, time
from pathlib import Path
from nri_numamem.daemon import launched, supervisor
from nri_numamem.cli import main
from nri_numamem.observe.log import loggers
loggers.LOG_FILE, loggers.JOURNAL_SOCKET = Path({log!r}), Path("/nonexistent")
supervisor.PAUSE_S = 0.05
first, serve = os.getpid(), launched.main
def late(*arguments):
    {what}
    return serve(*arguments)
launched.main = late
sys.argv = ["nri-numamem"]
sys.exit(main.main())
"""


@pytest.mark.parametrize("version", [MIDDLE, NEW], ids=lambda v: v.nri_version_text)
@pytest.mark.parametrize("what", ["time.sleep(8)", "os.abort()", "os._exit(1)"])
def test_a_plugin_that_is_not_registered_in_time_leaves_a_record(
    tmp_path: Path, log: Path, version: RuntimeVersion, what: str
) -> None:
    program = tmp_path / "program"
    program.write_text(LATE.format(python=sys.executable, log=str(log), what=what))
    program.chmod(0o755)
    with FakeRuntime(version, registration_timeout_s=6.0) as runtime:
        with pytest.raises(PluginUnavailable):
            runtime.launch(program, "10-nri-numamem", config_of(log))
        wait_for(lambda: "not_registered" in events_of(log))
        wait_for(lambda: not supervisors_of(program))
    (record,) = [r for r in records(log) if r["event"] == "not_registered"]
    assert record["level"] == "error"
    assert "before it had its configuration" in str(record["cause"])
    assert "plugin_registration_timeout" in str(record["remedy"])
    assert ("Aborted" in str(record.get("exception"))) is (what == "os.abort()")
