"""A launched plugin that dies, with the runtime that launched it listening on a socket as well."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nri_numamem.daemon.privileges import KEPT
from nri_numamem.daemon.supervisor import NICE
from tests.coverage_environment import environment_without_coverage
from tests.laboratory import objects
from tests.laboratory.plugin import ConnectedPlugin
from tests.laboratory.runtime import FakeRuntime
from tests.laboratory.version import RuntimeVersion
from tests.launched_processes import end_supervisors, launching_runtime
from tests.processes import HARMLESS, ignores_signals
from tests.simulated_host import WAIT_S, wait_for

pytestmark = pytest.mark.slow

MI = 1 << 20
AFFLICTED = Path(__file__).parent / "programs" / "afflicted.py"

KILLS = RuntimeVersion("containerd", "v2.3.4", (0, 12, 0))
LEAVES = RuntimeVersion("containerd", "v1.7.25", (0, 6, 1))

# Only a plugin that hangs takes as long.
REQUEST_S = 20

PROGRAM = """#!{python}
import runpy, sys
from pathlib import Path
from nri_numamem.daemon import supervisor, launched, restarted
from nri_numamem.observe.log import writer
writer.FLUSH_S = 30.0  # what is left then would go to /dev/null
launched.CONNECT_TRIES = 0
supervisor.PAUSE_S = {pause_s}
restarted.DEFAULT_SOCKET = Path({socket!r})
sys.argv = ["nri-numamem", "3"]
runpy.run_path({afflicted!r}, run_name="__main__")
"""

# A runtime that launches the plugin, prints its pid, and runs until it is killed.
RUNTIME = """
import sys
import time
from pathlib import Path
from tests.laboratory.runtime import FakeRuntime
program, socket, config = sys.argv[1:]
runtime = FakeRuntime(registration_timeout_s=30)
runtime.listen(Path(socket))
runtime.launch(Path(program), "10-nri-numamem", config)
runtime.synchronize()
print(runtime.plugin.process.pid, flush=True)
sys.stdin.read()
"""


@dataclass
class Launched:
    """The program, and what it leaves behind."""

    root: Path
    pause_s: float = 0.05

    @property
    def socket(self) -> Path:
        return self.root / "nri.sock"

    @property
    def config(self) -> str:
        files = {"logFile": "plugin.log", "stateFile": "state"}
        lines = [f"{key}: {self.root / name}\n" for key, name in files.items()]
        return "".join(lines) + "logFormat: json\n"

    @property
    def program(self) -> Path:
        path = self.root / "program"
        text = PROGRAM.format(
            python=sys.executable,
            pause_s=self.pause_s,
            socket=str(self.socket),
            afflicted=str(AFFLICTED),
        )
        path.write_text(text)
        path.chmod(0o755)
        return path

    def processes(self) -> dict[str, list[int]]:
        """Return name -> pids of everything that was started as the program."""
        found: dict[str, list[int]] = {}
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                words = (directory / "cmdline").read_bytes().split(b"\0")
                name = (directory / "comm").read_text().strip()
            except OSError:
                continue
            if len(words) < 4 and str(self.root / "program").encode() in words:
                found.setdefault(name, []).append(int(directory.name))
        return found

    def wait_records(self, event: str, count: int = 1) -> list[dict[str, object]]:
        """Return the records of an event when the log, which a thread writes, has so many."""
        wait_for(lambda: len(self.records(event)) >= count, f"{count} records {event!r}")
        return self.records(event)

    def records(self, event: str) -> list[dict[str, object]]:
        log = self.root / "plugin.log"
        text = log.read_text() if log.exists() else ""
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [record for line in lines if (record := json.loads(line))["event"] == event]


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Launched]:
    found = Launched(tmp_path)
    yield found

    def has_ended() -> bool:
        end_supervisors(str(tmp_path / "program"))
        return not found.processes()

    wait_for(has_ended)


def create(runtime: FakeRuntime, pod_name: str, name: str = "server") -> str:
    """Create a container of its own pod; return its cpuset.mems."""
    pod = runtime.run_pod_sandbox(objects.pod(pod_name, memory_limit_bytes=MI))
    container = objects.container(pod, name, memory_limit_bytes=MI)
    return runtime.create_container(pod, container).linux.resources.cpu.mems


def launch(runtime: FakeRuntime, plugin: Launched) -> int:
    """Launch the program; return its pid."""
    runtime.listen(plugin.socket)
    launched = runtime.launch(plugin.program, "10-nri-numamem", plugin.config)
    runtime.synchronize()
    assert launched.process is not None
    return launched.process.pid


def open_files(pid: int) -> list[str]:
    """Return the files that a process has open, also while it opens and closes some."""
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(path.readlink()))
    return found


def accept_again(runtime: FakeRuntime) -> ConnectedPlugin:
    """Wait for the next worker; return the runtime's side of it."""
    restored = runtime.plugin
    assert restored is not None
    restored.close("it died")
    if restored.process is not None:
        restored.process.wait(WAIT_S)
    plugin = runtime.accept(WAIT_S)
    runtime.synchronize()
    return plugin


@pytest.mark.parametrize("version", [KILLS, LEAVES], ids=["kills", "leaves"])
def test_a_killed_worker_is_restarted_over_the_socket(
    plugin: Launched, version: RuntimeVersion
) -> None:
    with launching_runtime(version, request_timeout_s=REQUEST_S) as runtime:
        pid = launch(runtime, plugin)
        assert create(runtime, "first") != ""
        os.kill(pid, signal.SIGKILL)
        again = accept_again(runtime)
        assert (again.idx, again.name) == ("10", "nri-numamem")
        assert create(runtime, "second") != ""
        (supervisor,) = plugin.processes()["numamem-superv"]
        (worker,) = plugin.processes()["nri-numamem"]
        assert not any(file.startswith("socket:") for file in open_files(supervisor))
        wait_for(lambda: bool(plugin.records("restarting_after_crash")))
        # A worker is not left behind by its supervisor.
        os.kill(supervisor, signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{worker}/fd").exists() or not plugin.processes())
    (died,) = plugin.records("restarting_after_crash")
    assert died["cause"] == "it was killed, or exited without a traceback"


def test_no_process_is_ended_by_a_harmless_signal(plugin: Launched) -> None:
    """SIGHUP, SIGUSR1 and SIGUSR2 go to all processes all the time, also during two restarts."""
    done = threading.Event()

    def send() -> None:
        while not done.wait(0.002):
            for pid in itertools.chain.from_iterable(plugin.processes().values()):
                if ignores_signals(pid):
                    for number in HARMLESS:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, number)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with launching_runtime(LEAVES, request_timeout_s=REQUEST_S) as runtime:
            os.kill(launch(runtime, plugin), signal.SIGKILL)
            accept_again(runtime)
            assert create(runtime, "first") != ""
            (supervisor,) = plugin.processes()["numamem-superv"]
            (worker,) = plugin.processes()["nri-numamem"]
            os.kill(worker, signal.SIGKILL)
            accept_again(runtime)
            assert create(runtime, "second") != ""
            assert plugin.processes()["numamem-superv"] == [supervisor]
            plugin.wait_records("restarting_after_crash", 2)
    finally:
        done.set()
        sender.join()
    causes = [record["cause"] for record in plugin.records("restarting_after_crash")]
    assert causes == ["it was killed, or exited without a traceback", "signal 9"]
    assert plugin.records("log_reopened")


def test_a_signal_to_all_processes_has_its_effect_once(plugin: Launched) -> None:
    with launching_runtime(LEAVES, request_timeout_s=REQUEST_S) as runtime:
        first = launch(runtime, plugin)
        (supervisor,) = plugin.processes()["numamem-superv"]
        for pid in (supervisor, first):
            for number in HARMLESS:
                os.kill(pid, number)
        (switched,) = plugin.wait_records("log_level_changed")
        assert switched["log_level"] == "debug"
        # The configuration came from this test, not from a file of the runtime.
        (failed,) = plugin.wait_records("configuration_reload_failed")
        assert "/etc/nri/conf.d: neither 10-nri-numamem.conf nor" in str(failed["error"])
        os.kill(first, signal.SIGKILL)
        accept_again(runtime)
        assert create(runtime, "second") != ""
        assert plugin.processes()["numamem-superv"] == [supervisor]
        assert len(plugin.records("log_level_changed")) == 1


def test_the_cause_of_a_crash_is_logged_and_starts_have_no_limit(plugin: Launched) -> None:
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        launch(runtime, plugin)
        for number, affliction in enumerate(("aborts", "hogs", "aborts", "aborts", "aborts")):
            assert create(runtime, f"pod-{number}", affliction) == ""
            accept_again(runtime)
        assert create(runtime, "last") != ""
        first, second, third, *more = plugin.wait_records("restarting_after_crash", 5)
    assert len(more) == 2
    for record in (first, second, third, *more):
        assert "Python error: Aborted" in str(record["exception"])
        assert "most recent call first" in str(record["exception"])
        assert "afflicted.py" in str(record["exception"])
    assert first["cause"] == "it was stuck or crashed"
    assert (second["cause"], third["cause"]) == ("signal 6", "signal 6")


@pytest.mark.parametrize("seconds", [3, 6])
def test_a_stopped_plugin_is_not_ended_by_its_supervisor(plugin: Launched, seconds: int) -> None:
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        pid = launch(runtime, plugin)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        assert create(runtime, "first") != ""
    assert not plugin.records("restarting_after_crash")


def threads_of(pid: int) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]


def test_a_plugin_without_a_processor_is_not_ended_by_its_supervisor(plugin: Launched) -> None:
    """SCHED_IDLE beside busy threads on the only processor that it may use."""
    busy = "while True: pass"
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        pid = launch(runtime, plugin)
        processor = min(os.sched_getaffinity(0))
        for task in threads_of(pid):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(task, {processor})
                os.sched_setscheduler(task, os.SCHED_IDLE, os.sched_param(0))
        hogs = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2)]
        try:
            for hog in hogs:
                os.sched_setaffinity(hog.pid, {processor})
            time.sleep(6)
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
        # Other tests may use this processor too.
        for task in threads_of(pid):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(task, os.SCHED_OTHER, os.sched_param(0))
        assert create(runtime, "first") != ""
    assert not plugin.records("restarting_after_crash")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities")
def test_all_processes_work_without_capabilities(plugin: Launched) -> None:
    """They serve, write log and state file, see a death, restart, and end a stuck worker."""

    def masks() -> dict[str, str]:
        found = {}
        for name, pids in plugin.processes().items():
            status = Path(f"/proc/{pids[0]}/status").read_text()
            found[name] = next(s.split()[1] for s in status.splitlines() if s[:6] == "CapEff")
        return found

    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        os.kill(launch(runtime, plugin), signal.SIGKILL)
        accept_again(runtime)
        assert create(runtime, "second", "hogs") == ""
        accept_again(runtime)
        assert create(runtime, "third") != ""
        assert set(masks().values()) == {f"{KEPT:016x}"}
        assert len(masks()) == 2
        wait_for((plugin.root / "state").exists)
        assert len(plugin.wait_records("restarting_after_crash", 2)) == 2
    assert not plugin.records("capabilities_kept")


def test_a_launched_plugin_and_its_supervisor_have_more_weight(plugin: Launched) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        pid = launch(runtime, plugin)
        found = {os.getpriority(os.PRIO_PROCESS, pid)}
        wait_for(lambda: "numamem-superv" in plugin.processes())
        found |= {
            os.getpriority(os.PRIO_PROCESS, other) for other in plugin.processes()["numamem-superv"]
        }
    assert found == {min(before, NICE)}


def test_accounting_that_lacks_a_container_is_rebuilt_by_another_process(plugin: Launched) -> None:
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        launch(runtime, plugin)
        assert create(runtime, "first", "forgotten") != ""
        wait_for(lambda: bool(plugin.records("plugin_exited")))
        accept_again(runtime)
        assert create(runtime, "second") != ""
        wait_for(lambda: len(plugin.records("synchronized")) == 2)
    (record,) = plugin.records("internal_error_after_reply")
    assert "what a bug" in str(record["exception"])
    ended, *_ = plugin.records("plugin_exited")
    assert ended["cause"] == "the accounting lacks the contents of a reply"
    assert plugin.records("restarting_after_crash")
    emitted = [record["adopted_count"] for record in plugin.records("synchronized")]
    assert emitted == [0, 1]


def test_an_end_of_the_connection_is_no_crash(plugin: Launched) -> None:
    """The runtime lives: it closed the connection after a late reply."""
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        launch(runtime, plugin)
        assert create(runtime, "first") != ""
        assert runtime.plugin is not None
        runtime.plugin.connection.close()
        wait_for(lambda: bool(plugin.records("plugin_exited")))
        accept_again(runtime)
        assert create(runtime, "second") != ""
        accept_again(runtime)
        assert create(runtime, "third") != ""
        # The worker connects again by itself.
        assert len(plugin.wait_records("disconnected")) == 1
    assert len(plugin.records("restarting_after_disconnect")) == 1
    assert not plugin.records("restarting_after_crash")


def test_a_signal_ends_it_for_good(plugin: Launched) -> None:
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        os.kill(launch(runtime, plugin), signal.SIGTERM)
        wait_for(lambda: not plugin.processes())
    assert plugin.records("plugin_exited")


def test_without_a_socket_the_worker_waits_for_one(plugin: Launched) -> None:
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        pid = launch(runtime, plugin)
        hidden = plugin.socket.rename(plugin.root / "hidden")
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: bool(plugin.records("connect_failed")))
        hidden.rename(plugin.socket)
        accept_again(runtime)
        assert create(runtime, "first") != ""
    (record,) = plugin.records("connect_failed")
    assert "No such file" in str(record["cause"])


def test_it_does_not_connect_to_another_runtime(plugin: Launched) -> None:
    other = (
        "import socket, sys, time\n"
        "listener = socket.socket(socket.AF_UNIX)\n"
        "listener.bind(sys.argv[1])\n"
        "listener.listen()\n"
        "print('up', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with launching_runtime(KILLS, request_timeout_s=REQUEST_S) as runtime:
        pid = launch(runtime, plugin)
        plugin.socket.unlink()
        with subprocess.Popen(
            [sys.executable, "-c", other, str(plugin.socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == b"up\n"
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: bool(plugin.records("connect_failed")))
            listener.communicate()
    record, *_ = plugin.records("connect_failed")
    assert f"process {listener.pid} listens there, not {os.getpid()}" in str(record["cause"])


@pytest.mark.parametrize("worker_is_dead", [False, True], ids=["worker lives", "worker is dead"])
def test_no_process_survives_the_runtime(plugin: Launched, worker_is_dead: bool) -> None:
    plugin.pause_s = 600  # the supervisor waits for the runtime's end only
    words = [str(plugin.program), str(plugin.socket), plugin.config]
    with subprocess.Popen(
        [sys.executable, "-c", RUNTIME, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as runtime:
        assert runtime.stdout is not None
        pid = int(runtime.stdout.readline())
        if worker_is_dead:
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: list(plugin.processes()) == ["numamem-superv"])
        runtime.kill()
    wait_for(lambda: not plugin.processes())


def test_the_supervisor_is_forked_before_anything_large_is_loaded() -> None:
    code = "import sys, nri_numamem.cli.main, nri_numamem.daemon.supervisor; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment_without_coverage(),
    )
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"google", "structlog", "yaml", "ctypes", "socket"})
