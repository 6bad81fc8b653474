"""The supervisor's view of processes: pidfds, forks and signals of this host.

This module is imported by the supervisor, which must stay small.
"""

import os
import select
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, NoReturn

from nri_numamem.daemon.liveness import Activity, read_activity

PLUGIN = "nri-numamem"
"""The name of the plugin's process; all others of the program begin with "numamem"."""

# A process that is ended writes its tracebacks first, and perhaps a core; then it is killed.
_ABORT_S = 1.0

_SIGABRT, _SIGKILL = 6, 9


class Process(NamedTuple):
    """A process of this host; its descriptor is a pidfd."""

    pid: int
    descriptor: int


class Processes:
    """What the supervisor needs from the kernel."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary moment."""
        return time.monotonic()

    def exits_within(self, process: Process, seconds: float) -> bool:
        """Return whether `process` exits within this time."""
        return self.first_exit((process,), seconds) is not None

    def first_exit(self, processes: tuple[Process, ...], seconds: float) -> Process | None:
        """Return the first of `processes` that has exited; None if none does within this time."""
        poll = select.poll()
        for process in processes:
            poll.register(process.descriptor, select.POLLIN)
        ended = dict(poll.poll(seconds * 1000))
        return next((process for process in processes if process.descriptor in ended), None)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def activity(self, process: Process) -> Activity:
        """Return what the threads of a process do; OSError if it has ended."""
        return read_activity(process.pid)

    def start(self, run: Callable[[], int]) -> Process:
        """Run a function in a child process, which does not survive this one.

        Raises OSError at a limit of processes, memory or descriptors.
        """
        worker = partial(_run_worker, os.getpid(), run)
        pid = os.fork() or exit_after(worker)
        try:
            return Process(pid, os.pidfd_open(pid))
        except OSError:  # too many open files: without a pidfd it could not be watched
            os.kill(pid, _SIGKILL)
            os.waitpid(pid, 0)
            raise

    def abort(self, process: Process) -> None:
        """End a process, which writes its tracebacks first if it can."""
        _send(process, _SIGABRT)
        if not self.exits_within(process, _ABORT_S):
            self.kill(process)

    def kill(self, process: Process) -> None:
        """End a process at once."""
        _send(process, _SIGKILL)

    def reap(self, process: Process) -> int:
        """Return the exit status of a process of `start`, -N for signal N; waits for its end."""
        os.close(process.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])


def _send(process: Process, number: int) -> None:
    import signal  # noqa: PLC0415 - see the docstring of this module

    try:
        signal.pidfd_send_signal(process.descriptor, number)
    except ProcessLookupError:
        return  # it has ended


def forward_signals(process: Process) -> None:
    """Send the signals for operators and those that stop the plugin on to a process.

    Only for process 1 of a container, to which the runtime of the container sends its signals.
    """
    import signal  # noqa: PLC0415 - see the docstring of this module

    def forward(number: int, _frame: object) -> None:
        _send(process, number)

    operators = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    for number in (*operators, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)


def exit_after(run: Callable[[], int]) -> NoReturn:
    """Run a function and end the process with its status, 70 for a bug."""
    status = 70  # EX_SOFTWARE of sysexits.h
    try:
        status = run()
    finally:
        os._exit(status)


def _run_worker(parent_pid: int, run: Callable[[], int]) -> int:
    _exit_with_parent(parent_pid)
    set_process_name(PLUGIN)
    return run()


def _exit_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    import ctypes  # noqa: PLC0415 - large, and only for the worker

    pr_set_pdeathsig = 1  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, _SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # the parent ended before the call


def detach() -> None:
    """Leave the terminal and the standard streams of the process that forked this one.

    A signal from the terminal is for the plugin, and a reader of its output waits for its end.
    """
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


def set_process_name(name: str) -> None:
    """Set the name that ps and pgrep show, if procfs allows it; the kernel keeps 15 characters."""
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:  # noqa: PTH123 - no pathlib here
            file.write(name)
    except OSError:
        return
