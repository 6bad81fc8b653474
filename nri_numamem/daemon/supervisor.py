"""Restarts a launched plugin when it dies, and ends it when it is stuck: a small process beside it.

The runtime starts a plugin once. The supervisor is forked off before anything large is imported,
watches the plugin (the worker), and starts another worker when it ends, which connects to the
runtime's socket. The supervisor is the child and not the parent, because the runtime (NRI >= 0.7)
kills the process that it launched as soon as that process's connection ends. The supervisor holds
no end of that connection, for then the runtime would read no end of file. It ends with the runtime:
a runtime that starts again launches a plugin of its own, and two live plugins conflict.

While the runtime lives the supervisor restarts the plugin without a limit, after growing pauses.
Only a plugin that ends on purpose (a signal, a rejected configuration) is not started again.

The supervisor writes no log, because a log would make it large; the next worker logs for it.
``daemon.liveness`` judges whether a worker is stuck.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from nri_numamem.daemon import liveness
from nri_numamem.daemon.processes import (
    KernelProcesses,
    Process,
    Processes,
    exit_after,
    forward_signals,
    set_process_name,
)
from nri_numamem.daemon.supervisor_status import SupervisorStatus

LAST_DESCRIPTOR = 1 << 16

# The first pause lets the runtime notice the end of the old connection; each next one is twice as
# long while earlier starts count.
PAUSE_S = 1.0
PAUSE_MAX_S = 60.0
STARTS_COUNT_FOR_S = 600.0

# Raised weight of a launched plugin, as in systemd/nri-numamem.service: the containers of the host
# wait for it.
NICE = -5

# How a process ended; the first one is the runtime's child, so only its traceback shows the cause.
CRASHED = "it was stuck or crashed"
KILLED = "it was killed, or exited without a traceback"
DISCONNECTED = "the runtime closed the connection"


class Worker(Protocol):
    """The plugin in a later process, with the modules that the supervisor must not load."""

    def restart(self, why: str, crash: str, ended_s: float) -> int:
        """Serve again; return the exit status, 0 for an end on purpose.

        The last worker ended at `ended_s` of the monotonic clock.
        """


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
        self._process = process
        self.worker: Process | None = process
        """The process of the plugin; None between two of them."""
        self._starts: list[float] = []

    def run(self) -> int:
        """Return the exit status when the runtime or the plugin has ended for good."""
        if not self._exits_before_runtime(self._process):
            return 0
        self.worker = None
        exit_status: int | None = None
        while self._status.should_restart:
            ended_s = self._processes.monotonic_s()
            crash = self._status.take_crash()
            why = self._cause(exit_status, crash)
            if self._processes.exits_within(self._runtime, self._next_pause_s()):
                return 0
            worker = partial(_restart, self._make_worker, why, crash, ended_s)
            exit_status = self._run_worker(worker)
            if not exit_status:
                return 0
        return 0

    def _cause(self, exit_status: int | None, crash: str) -> str:
        """Return why the last worker ended; its exit status is None if it was the first."""
        if self._status.take_disconnected():
            return DISCONNECTED
        if exit_status is None:
            return CRASHED if crash else KILLED
        return f"signal {-exit_status}" if exit_status < 0 else f"exit status {exit_status}"

    def _next_pause_s(self) -> float:
        now_s = self._processes.monotonic_s()
        self._starts = [at_s for at_s in self._starts if now_s - at_s < STARTS_COUNT_FOR_S]
        pause_s = PAUSE_S
        for _ in self._starts:
            pause_s = min(pause_s * 2, PAUSE_MAX_S)
        self._starts.append(now_s)
        return pause_s

    def _run_worker(self, worker: Callable[[], int]) -> int | None:
        """Return the exit status of a worker; None if the runtime exits first."""
        self._status.beat(0)
        self.worker = process = self._processes.start(worker)
        exits_first = self._exits_before_runtime(process)
        if not exits_first:
            self._processes.kill(process)
        self.worker = None
        exit_status = self._processes.reap(process)
        return exit_status if exits_first else None

    def _exits_before_runtime(self, process: Process) -> bool:
        """Wait until `process` exits, and end it when it is stuck; False if the runtime exits."""
        # The runtime counts first if both have exited.
        return watch(self._processes, self._status, process, (self._runtime, process)) is process


def watch(
    processes: Processes, status: SupervisorStatus, process: Process, until: tuple[Process, ...]
) -> Process:
    """End `process` when it is stuck; return the first of the processes `until` that exits."""
    detector = liveness.StallDetector()
    while True:
        ended = processes.first_exit(until, liveness.SAMPLE_S)
        if ended is not None:
            return ended
        try:
            activity = processes.activity(process)
        except OSError:
            continue  # it has ended
        if detector.is_stuck(processes.monotonic_s(), status.beats, activity):
            processes.abort(process)


def _restart(make_worker: Callable[[], Worker], why: str, crash: str, ended_s: float) -> int:
    return make_worker().restart(why, crash, ended_s)


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
        process = Process(os.getpid(), os.pidfd_open(os.getpid()))
        runtime = Process(runtime_pid, os.pidfd_open(runtime_pid))
    except OSError:
        return None
    status = SupervisorStatus()
    new_worker = partial(make_worker, status, runtime_pid)
    supervisor = Supervisor(status, KernelProcesses(), new_worker, runtime=runtime, process=process)
    if os.fork() == 0:
        os.close(int(descriptor))
        exit_after(partial(_supervise, supervisor))
    os.close(process.descriptor)
    os.close(runtime.descriptor)
    return status


def start_observer() -> SupervisorStatus | None:
    """Fork a process that ends this one when it is stuck; another program restarts this one then.

    None where the kernel lacks pidfds (before 5.3).
    """
    try:
        process = Process(os.getpid(), os.pidfd_open(os.getpid()))
    except OSError:
        return None
    status = SupervisorStatus()
    if os.fork() == 0:
        exit_after(partial(_observe, status, process))
    os.close(process.descriptor)
    return status


def _observe(status: SupervisorStatus, process: Process) -> int:
    # A signal from the terminal is for the plugin, and a reader of its output waits for its end.
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    set_process_name("numamem-superv")
    forward_signals(lambda: process)
    watch(KernelProcesses(), status, process, (process,))
    return 0


def raise_weight() -> None:
    """Lower the nice value of this process to NICE, unless that is not allowed."""
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) > NICE:
            os.setpriority(os.PRIO_PROCESS, 0, NICE)
    except OSError:
        return  # a runtime without CAP_SYS_NICE; the plugin works, with less of a busy processor


def _supervise(supervisor: Supervisor) -> int:
    forward_signals(lambda: supervisor.worker)
    set_process_name("numamem-superv")
    return supervisor.run()
