"""Restarts a launched plugin when it dies, and ends it when it is stuck: a small process beside it.

The runtime starts a plugin once. The supervisor is forked off before anything large is imported,
watches the plugin (the worker), and starts another worker when it ends, which connects to the
runtime's socket. The supervisor is the child and not the parent, because the runtime (NRI >= 0.7)
kills the process that it launched as soon as that process's connection ends. The supervisor does
not keep the connection open, because the runtime could not read its end then. It ends with the
runtime: a runtime that starts again launches another plugin, and two live plugins conflict.

While the runtime lives the supervisor restarts the plugin without a limit, after growing pauses.
Only a plugin that ends on purpose (a signal, a rejected configuration) is not started again. One
that ends before it has its configuration cannot be; a worker only records that. No exception ends
the supervisor: a start that fails, because no process id or no memory is free, is tried again each
second.

The supervisor writes no log, because a log would make it large; the next worker logs for it.
``daemon.liveness`` judges whether a worker is stuck.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from nri_numamem.daemon import liveness
from nri_numamem.daemon.processes import (
    Process,
    Processes,
    detach,
    exit_after,
    forward_signals,
    set_process_name,
)
from nri_numamem.daemon.supervisor_status import SupervisorStatus

LAST_DESCRIPTOR = 1 << 16

_NAME = "numamem-superv"
"""The name of this process, at most 15 characters."""

_AFTER_ERROR_S = 0.1

# The first pause lets the runtime notice the end of the old connection; each next one is twice as
# long while earlier starts count.
PAUSE_S = 1.0
PAUSE_MAX_S = 60.0
STARTS_COUNT_FOR_S = 600.0
# Between two attempts after an error of this process; an attempt takes less than a millisecond.
RETRY_S = 1.0

# Raised weight of a launched plugin, as in systemd/nri-numamem.service: the containers of the host
# wait for it.
NICE = -5

# How a process ended; the first one is the runtime's child, so only its traceback shows the cause.
CRASHED = "it was stuck or crashed"
KILLED = "it was killed, or exited without a traceback"
DISCONNECTED = "the runtime closed the connection"


class Ending(NamedTuple):
    """How the last process of the plugin ended, for the next one."""

    why: str = KILLED
    crash: str = ""
    """The traceback of a crash, if there is one."""
    at_s: float = 0.0
    """When, on the monotonic clock, which all processes share."""
    failed_starts: int = 0
    """How many attempts to start the next process have failed."""
    start_error: str = ""
    """Why the last of these attempts failed."""


class Worker(Protocol):
    """The plugin in a later process, with the modules that the supervisor must not load."""

    def restart(self, ending: Ending) -> int:
        """Serve again, or record why not; return the exit status, 0 for an end on purpose."""


class Supervisor:
    """Watches and restarts; `process` is the first worker.

    `make_worker` makes a worker, in the process of the worker.
    """

    def __init__(
        self,
        status: SupervisorStatus,
        processes: Processes,
        make_worker: Callable[[], Worker],
        *,
        runtime: Process,
        process: Process,
    ) -> None:
        self._status = status
        self._processes = processes
        self._make_worker = make_worker
        self._runtime = runtime
        self._first = process
        self.worker: Process | None = process
        """The process of the plugin; None between two of them."""
        self._ending = Ending()
        """How the last worker ended."""
        self._pause_s = 0.0
        """The pause before the next start."""
        self._starts: list[float] = []

    def run(self) -> int:
        """Return the exit status when the runtime or the plugin has ended for good."""
        while True:
            try:
                if self._is_over():
                    return 0
            except Exception as error:  # noqa: BLE001 - whatever it is, the plugin must run again
                self._failed(error)

    def _is_over(self) -> bool:
        """Watch the worker, or start one; return whether the runtime or the plugin has ended."""
        if self.worker is not None:
            return self._watch_worker(self.worker)
        if self._status.is_configured and not self._status.should_restart:
            return True
        if self._processes.exits_within(self._runtime, self._pause_s):
            return True
        self._status.beat(0)
        ending = self._ending
        self.worker = self._processes.start(lambda: self._make_worker().restart(ending))
        return False

    def _failed(self, error: Exception) -> None:
        """Note an error, and wait before the next attempt."""
        if self.worker is None:
            failed_starts = self._ending.failed_starts + 1
            self._ending = self._ending._replace(
                failed_starts=failed_starts, start_error=str(error) or repr(error)
            )
            self._pause_s = 0.0
        self._processes.sleep(RETRY_S)

    def _watch_worker(self, worker: Process) -> bool:
        """Wait for the worker's end; return whether the runtime or the plugin ended for good."""
        # The runtime counts first if both have exited.
        ended = watch(self._processes, self._status, worker, (self._runtime, worker))
        is_first = worker is self._first  # not a child of this process
        if ended is not worker:
            if not is_first:
                self._processes.kill(worker)
            return True
        self.worker = None
        ended_s = self._processes.monotonic_s()
        self._pause_s = self._next_pause_s(ended_s)
        exit_status = None if is_first else self._processes.reap(worker)
        crash = self._status.take_crash()
        self._ending = Ending(self._cause(exit_status, crash), crash, ended_s)
        return exit_status == 0

    def _cause(self, exit_status: int | None, crash: str) -> str:
        """Return why the last worker ended; its exit status is None if it was the first."""
        if self._status.take_disconnected():
            return DISCONNECTED
        if exit_status is None:
            return CRASHED if crash else KILLED
        return f"signal {-exit_status}" if exit_status < 0 else f"exit status {exit_status}"

    def _next_pause_s(self, now_s: float) -> float:
        self._starts = [at_s for at_s in self._starts if now_s - at_s < STARTS_COUNT_FOR_S]
        pause_s = PAUSE_S
        for _ in self._starts:
            pause_s = min(pause_s * 2, PAUSE_MAX_S)
        self._starts.append(now_s)
        return pause_s


def watch(
    processes: Processes, status: SupervisorStatus, process: Process, until: tuple[Process, ...]
) -> Process:
    """End `process` when it is stuck; return the first of the processes `until` that exits."""
    detector = liveness.StallDetector()
    while True:
        try:
            ended = processes.first_exit(until, liveness.SAMPLE_S)
            if ended is not None:
                return ended
            activity = processes.activity(process)
            if detector.is_stuck(processes.monotonic_s(), status.beats, activity):
                processes.abort(process)
        except Exception:  # noqa: BLE001 - the process ended, or memory or descriptors are missing
            processes.sleep(_AFTER_ERROR_S)


def start(
    environment: Mapping[str, str], make_worker: Callable[[SupervisorStatus, int], Worker]
) -> SupervisorStatus | None:
    """Fork the supervisor; return in the worker. None if the environment has no descriptor.

    `make_worker` is called with the runtime's pid, in the processes that are started later. Raises
    OSError if there can be no supervisor.
    """
    descriptor = environment["NRI_PLUGIN_SOCKET"]
    if not descriptor.isdecimal():
        return None
    # NRI < 0.6.0 leaks another end of the socket into this process, which would hide the end of
    # file. Before anything is opened here.
    os.closerange(int(descriptor) + 1, LAST_DESCRIPTOR)
    runtime_pid = os.getppid()
    status = SupervisorStatus()
    process = Process(os.getpid(), os.pidfd_open(os.getpid()))
    runtime = Process(runtime_pid, os.pidfd_open(runtime_pid))
    new_worker = partial(make_worker, status, runtime_pid)
    supervisor = Supervisor(status, Processes(), new_worker, runtime=runtime, process=process)
    try:
        if os.fork() == 0:
            os.close(int(descriptor))
            set_process_name(_NAME)
            exit_after(supervisor.run)
    except OSError:
        status.close()
        raise
    finally:
        os.close(process.descriptor)
        os.close(runtime.descriptor)
    return status


def start_observer() -> SupervisorStatus:
    """Fork a process that ends this one when it is stuck; another program restarts this one then.

    The kernel protects process 1, the first one of a container, from signals; there the plugin is
    the new process, and this one ends with its exit status. Raises OSError if there can be no
    observer.
    """
    status = SupervisorStatus()
    process = Process(os.getpid(), os.pidfd_open(os.getpid()))
    try:
        child = os.fork()
        if process.pid == 1 and child:
            exit_after(partial(_observe_child, status, child))
        elif process.pid != 1 and not child:
            exit_after(partial(_observe, status, process))
    except OSError:
        status.close()
        raise
    finally:
        os.close(process.descriptor)
    return status


def _observe_child(status: SupervisorStatus, pid: int) -> int:
    """Observe as process 1; return the plugin's exit status, 128 + N after a signal."""
    process = Process(pid, os.pidfd_open(pid))
    set_process_name(_NAME)
    forward_signals(process)
    processes = Processes()
    watch(processes, status, process, (process,))
    exit_status = processes.reap(process)
    return exit_status if exit_status >= 0 else 128 - exit_status


def _observe(status: SupervisorStatus, process: Process) -> int:
    from nri_numamem.daemon.privileges import drop_capabilities  # noqa: PLC0415 - not the plugin

    detach()
    drop_capabilities()  # it signals and reads a process of the same user
    set_process_name(_NAME)
    watch(Processes(), status, process, (process,))
    return 0


def raise_weight() -> None:
    """Lower the nice value of this process to NICE, unless that is not allowed."""
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) > NICE:
            os.setpriority(os.PRIO_PROCESS, 0, NICE)
    except OSError:
        return  # a runtime without CAP_SYS_NICE; the plugin works, with less of a busy processor
