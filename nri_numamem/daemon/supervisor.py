"""Restarts a launched plugin when it dies: a small process beside the plugin that only waits.

The runtime starts a plugin once. The supervisor is forked off before anything large is imported,
waits for the end of the plugin (the worker), and starts another worker, which connects to the
runtime's socket. The supervisor is the child and not the parent, because the runtime (NRI >= 0.7)
kills the process that it launched as soon as that process's connection ends. The supervisor holds
no end of that connection, for then the runtime would read no end of file. It ends with the runtime:
a runtime that starts again launches a plugin of its own, and two live plugins of one name break
every creation.

Supervisor and workers share two files in memory: tracebacks of a crash, and the status. The
supervisor writes no log, because a log would make it large; the next worker logs for it.
"""

import os
import select
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn, Protocol

LAST_DESCRIPTOR = 1 << 16

# After so many starts within this time, a further start does not help.
STARTS_LIMIT = 5
STARTS_WITHIN_S = 600.0
# The first pause lets the runtime notice the end of the old connection; each next one is twice as
# long while the starts are counted.
PAUSE_S = 1.0

# The end of a traceback that is kept for the log.
_CRASH_BYTES = 8192

# How the first process ended: it is the runtime's child, so only its traceback shows the cause.
_CRASHED = "it stalled or crashed"
_KILLED = "it was killed, or exited without a traceback"

_UNKNOWN, _RUNNING, _OVER = b"?", b"r", b"o"

_SIGKILL = 9


class SupervisorStatus:
    """The two files that supervisor and worker share."""

    def __init__(self) -> None:
        self.crash_descriptor = os.memfd_create("nri-numamem-crash")
        self._status = os.memfd_create("nri-numamem-status")
        os.pwrite(self._status, _UNKNOWN, 0)

    def running(self, configuration: str) -> None:
        """Record that the plugin started with this text; from now on its death is a crash."""
        os.ftruncate(self._status, 1)
        os.pwrite(self._status, configuration.encode(), 1)
        os.pwrite(self._status, _RUNNING, 0)

    def over(self) -> None:
        """Record that the plugin ends on purpose."""
        os.pwrite(self._status, _OVER, 0)

    @property
    def should_restart(self) -> bool:
        """Return whether the plugin started and did not end on purpose."""
        return os.pread(self._status, 1, 0) == _RUNNING

    def configuration(self) -> str:
        """Return the text that the plugin started with."""
        return os.pread(self._status, os.fstat(self._status).st_size, 1).decode()

    def take_crash(self) -> str:
        """Return the end of the traceback of a crash, "" if there is none, and delete it."""
        size = os.fstat(self.crash_descriptor).st_size
        text = os.pread(self.crash_descriptor, _CRASH_BYTES, max(0, size - _CRASH_BYTES))
        os.ftruncate(self.crash_descriptor, 0)
        os.lseek(self.crash_descriptor, 0, os.SEEK_SET)
        return text.decode("utf-8", "replace")

    def close(self) -> None:
        """Close both files."""
        os.close(self.crash_descriptor)
        os.close(self._status)


class Worker(Protocol):
    """The plugin in a later process, with the modules that the supervisor must not load."""

    def restart(self, why: str, crash: str) -> int:
        """Serve again; return the exit status, 0 for an end on purpose."""

    def abandon(self, why: str, crash: str) -> int:
        """Log that there will be no further start; return the exit status."""


class Processes(Protocol):
    """What the supervisor needs from the kernel; a process is a pidfd."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary moment."""

    def wait_for_exit_before(self, process: int, other: int) -> bool:
        """Wait until `process` exits; False if `other` exits first or at the same time."""

    def exits_within(self, process: int, seconds: float) -> bool:
        """Return whether `process` exits within this time."""

    def run(self, worker: Callable[[], int], runtime: int) -> int | None:
        """Run a worker in a process of its own; return its exit status, -N for signal N.

        None if `runtime` exits first; the worker is killed then.
        """


class Supervisor:
    """Waits and restarts; `runtime` and `process` are pidfds of the runtime and the first worker.

    `make_worker` makes a worker, in the process of the worker.
    """

    def __init__(
        self,
        status: SupervisorStatus,
        processes: Processes,
        make_worker: Callable[[], Worker],
        *,
        runtime: int,
        process: int,
    ) -> None:
        self._status = status
        self._processes = processes
        self._make_worker = make_worker
        self._runtime = runtime
        self._process = process
        self._starts: list[float] = []

    def run(self) -> int:
        """Return the exit status when the runtime or the plugin has ended for good."""
        if not self._processes.wait_for_exit_before(self._process, self._runtime):
            return 0
        why = ""
        while self._status.should_restart:
            crash = self._status.take_crash()
            why = why or (_CRASHED if crash else _KILLED)
            now_s = self._processes.monotonic_s()
            self._starts = [at_s for at_s in self._starts if now_s - at_s < STARTS_WITHIN_S]
            if len(self._starts) >= STARTS_LIMIT:
                self._run(partial(_abandon, self._make_worker, why, crash))
                return 0
            if self._processes.exits_within(self._runtime, PAUSE_S * 2 ** len(self._starts)):
                return 0
            self._starts.append(now_s)
            status = self._run(partial(_restart, self._make_worker, why, crash))
            if not status:
                return 0
            why = f"signal {-status}" if status < 0 else f"exit status {status}"
        return 0

    def _run(self, worker: Callable[[], int]) -> int | None:
        return self._processes.run(worker, self._runtime)


def _restart(make_worker: Callable[[], Worker], why: str, crash: str) -> int:
    return make_worker().restart(why, crash)


def _abandon(make_worker: Callable[[], Worker], why: str, crash: str) -> int:
    return make_worker().abandon(why, crash)


class KernelProcesses:
    """Processes of this host."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary moment."""
        return time.monotonic()

    def wait_for_exit_before(self, process: int, other: int) -> bool:
        """Wait until `process` exits; False if `other` exits first or at the same time."""
        poll = select.poll()
        poll.register(other, select.POLLIN)
        poll.register(process, select.POLLIN)
        return other not in dict(poll.poll())

    def exits_within(self, process: int, seconds: float) -> bool:
        """Return whether `process` exits within this time."""
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def run(self, worker: Callable[[], int], runtime: int) -> int | None:
        """Run a worker in a process of its own; return its exit status, -N for signal N.

        None if `runtime` exits first; the worker is killed then.
        """
        pid = _fork(partial(_run_worker, os.getpid(), worker))
        process = os.pidfd_open(pid)
        survived = not self.wait_for_exit_before(process, runtime)
        if survived:
            os.kill(pid, _SIGKILL)
        os.close(process)
        _, wait_status = os.waitpid(pid, 0)
        return None if survived else os.waitstatus_to_exitcode(wait_status)


def start(
    environment: Mapping[str, str], make_worker: Callable[[SupervisorStatus, int], Worker]
) -> SupervisorStatus | None:
    """Fork the supervisor; return in the worker. None where the kernel lacks pidfds (before 5.3).

    `make_worker` is called with the runtime's pid, in the processes that are started later.
    """
    descriptor = environment["NRI_PLUGIN_SOCKET"]
    if not descriptor.isdecimal():
        return None
    # NRI < 0.6.0 leaks another end of the socket into this process, which would hide the end of
    # file. Before anything is opened here.
    os.closerange(int(descriptor) + 1, LAST_DESCRIPTOR)
    runtime_pid = os.getppid()
    try:
        process, runtime = os.pidfd_open(os.getpid()), os.pidfd_open(runtime_pid)
    except OSError:
        return None
    status = SupervisorStatus()
    new_worker = partial(make_worker, status, runtime_pid)
    supervisor = Supervisor(status, KernelProcesses(), new_worker, runtime=runtime, process=process)
    if os.fork() == 0:
        os.close(int(descriptor))
        _exit_after(partial(_supervise, supervisor))
    os.close(process)
    os.close(runtime)
    return status


def _supervise(supervisor: Supervisor) -> int:
    _set_process_name("numamem-superv")
    return supervisor.run()


def _run_worker(supervisor_pid: int, worker: Callable[[], int]) -> int:
    _exit_with_parent(supervisor_pid)
    _set_process_name("nri-numamem")
    return worker()


def _fork(run: Callable[[], int]) -> int:
    """Run a function in a process of its own; return its pid."""
    return os.fork() or _exit_after(run)


def _exit_after(run: Callable[[], int]) -> NoReturn:
    """Run a function and end the process with its status, 70 for a bug."""
    status = 70  # EX_SOFTWARE of sysexits.h
    try:
        status = run()
    finally:
        os._exit(status)


def _exit_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    import ctypes  # noqa: PLC0415 - large, and only for the worker

    pr_set_pdeathsig = 1  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, _SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # the parent ended before the call


def _set_process_name(name: str) -> None:
    """Set the name that ps and pgrep show; the kernel keeps 15 characters."""
    with open("/proc/self/comm", "w", encoding="ascii") as file:  # noqa: PTH123 - no pathlib here
        file.write(name)
