"""Starts a launched plugin again when it dies: a small process beside it that only waits.

The runtime starts a plugin once. The keeper is forked off before anything large is imported, waits
for the end of the plugin (the worker), and starts another one, which connects to the runtime's
socket. It is the child and not the parent, because the runtime (NRI >= 0.7) kills the process that
it launched as soon as that process's connection ends. It holds no end of that connection, for then
the runtime would see no end of file, and it ends with the runtime: a runtime that starts anew
launches a plugin of its own, and two live plugins of one name break every creation.

What the two share are two files in memory: tracebacks of a crash, and a note of how things stand.
The keeper writes no log, for that would make it large; the next worker tells what it is told.
"""

import os
import select
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn, Protocol

LAST_DESCRIPTOR = 1 << 16

# After so many starts within this time something is wrong that a start does not mend.
STARTS_LIMIT = 5
STARTS_WITHIN_S = 600.0
# The first pause lets the runtime notice the end of the old connection; each next one is twice as
# long while the starts are counted.
PAUSE_S = 1.0

# What is left of a traceback for the log.
_CRASH_BYTES = 8192

# How the first process ended: it is the runtime's child, so what it left behind tells.
_CRASHED = "its loop stood still, or it crashed"
_KILLED = "it was killed, or ended without a word"

_UNKNOWN, _RUNNING, _OVER = b"?", b"r", b"o"


class Tether:
    """The two files that worker and keeper share."""

    def __init__(self) -> None:
        self.crash_descriptor = os.memfd_create("nri-numamem-crash")
        self._note = os.memfd_create("nri-numamem-note")
        os.pwrite(self._note, _UNKNOWN, 0)

    def running(self, configuration: str) -> None:
        """Note that the plugin came up with this text; from now on its death is a crash."""
        os.ftruncate(self._note, 1)
        os.pwrite(self._note, configuration.encode(), 1)
        os.pwrite(self._note, _RUNNING, 0)

    def over(self) -> None:
        """Note that the plugin ends as it should."""
        os.pwrite(self._note, _OVER, 0)

    @property
    def is_to_restart(self) -> bool:
        """Tell whether the plugin came up and did not end as it should."""
        return os.pread(self._note, 1, 0) == _RUNNING

    def configuration(self) -> str:
        """Return the text that the plugin came up with."""
        return os.pread(self._note, os.fstat(self._note).st_size, 1).decode()

    def take_crash(self) -> str:
        """Return the end of what a crash left behind, "" for nothing, and forget it."""
        size = os.fstat(self.crash_descriptor).st_size
        text = os.pread(self.crash_descriptor, _CRASH_BYTES, max(0, size - _CRASH_BYTES))
        os.ftruncate(self.crash_descriptor, 0)
        os.lseek(self.crash_descriptor, 0, os.SEEK_SET)
        return text.decode("utf-8", "replace")


class Worker(Protocol):
    """What the keeper starts, in a process of its own: the modules that it must not load."""

    def come_back(self, why: str, crash: str) -> int:
        """Serve again; returns the exit status, 0 for an end as it should be."""

    def give_up(self, why: str, crash: str) -> int:
        """Tell that there will be no further start."""


def start(
    environment: Mapping[str, str], make_worker: Callable[[Tether, int], Worker]
) -> Tether | None:
    """Fork the keeper; returns in the worker. None where the kernel cannot do it (before 5.3).

    `make_worker` is called with the runtime's pid, in the processes that are started later.
    """
    descriptor = environment["NRI_PLUGIN_SOCKET"]
    if not descriptor.isdecimal():
        return None
    # NRI < 0.6.0 leaks another end of the socket into us, which would hide the end of file.
    # Before anything is opened here.
    os.closerange(int(descriptor) + 1, LAST_DESCRIPTOR)
    runtime_pid = os.getppid()
    try:
        ends = os.pidfd_open(os.getpid()), os.pidfd_open(runtime_pid)
    except OSError:
        return None
    tether = Tether()
    if os.fork() == 0:
        os.close(int(descriptor))
        _child(partial(_keep, tether, *ends, partial(make_worker, tether, runtime_pid)))
    for end in ends:
        os.close(end)
    return tether


def _keep(tether: Tether, worker: int, runtime: int, make_worker: Callable[[], Worker]) -> int:
    _call_ourselves("numamem-keeper")
    if not _outlives(runtime, worker):
        return 0
    why = ""
    starts: list[float] = []
    while tether.is_to_restart:
        crash = tether.take_crash()
        why = why or (_CRASHED if crash else _KILLED)
        now_s = time.monotonic()
        starts = [start_s for start_s in starts if now_s - start_s < STARTS_WITHIN_S]
        if len(starts) >= STARTS_LIMIT:
            os.waitpid(_fork(partial(_give_up, make_worker, why, crash)), 0)
            return 0
        if _ends_within(runtime, PAUSE_S * 2 ** len(starts)):
            return 0
        starts.append(now_s)
        pid = _fork(partial(_come_back, os.getpid(), make_worker, why, crash))
        end = os.pidfd_open(pid)
        if not _outlives(runtime, end):
            os.kill(pid, 9)
        os.close(end)
        _, wait_status = os.waitpid(pid, 0)
        status = os.waitstatus_to_exitcode(wait_status)
        if status == 0:
            return 0
        why = f"signal {-status}" if status < 0 else f"exit status {status}"
    return 0


def _come_back(keeper: int, make_worker: Callable[[], Worker], why: str, crash: str) -> int:
    _die_with(keeper)
    _call_ourselves("nri-numamem")
    return make_worker().come_back(why, crash)


def _give_up(make_worker: Callable[[], Worker], why: str, crash: str) -> int:
    return make_worker().give_up(why, crash)


def _outlives(runtime: int, process: int) -> bool:
    """Wait for the end of `process`; False when the runtime ended first (or together)."""
    poll = select.poll()
    poll.register(runtime, select.POLLIN)
    poll.register(process, select.POLLIN)
    return runtime not in dict(poll.poll())


def _ends_within(process: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _fork(run: Callable[[], int]) -> int:
    """Run a function in a process of its own; return its pid."""
    return os.fork() or _child(run)


def _child(run: Callable[[], int]) -> NoReturn:
    """Run a function and end the process with its status, 70 for a bug."""
    status = 70  # EX_SOFTWARE of sysexits.h
    try:
        status = run()
    finally:
        os._exit(status)


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    import ctypes  # noqa: PLC0415 - large, and only for the worker

    pr_set_pdeathsig, sigkill = 1, 9  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, sigkill)
    if os.getppid() != parent:
        os._exit(0)  # it was faster


def _call_ourselves(name: str) -> None:
    """Set the name that ps and pgrep show."""
    with open("/proc/self/comm", "w", encoding="ascii") as file:  # noqa: PTH123 - no pathlib here
        file.write(name)
