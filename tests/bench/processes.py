"""Read a process's resident memory, CPU time and wake-ups from /proc."""

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_KB = 1024

# A thread that ends between two readings loses its wake-ups since the first one.
_READ_S = 0.2


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of a process while it was observed."""

    cpu_s: float
    wakeups: int
    """Number of voluntary context switches of its threads."""


class Observation:
    """Observes a process from now on, also threads that end meanwhile.

    The kernel shows the switches of an ended thread only in the total of an ended process, and
    start and end of a process make dozens of them. So the threads are read again and again.
    """

    def __init__(self, pid: int, proc: Path = PROC) -> None:
        self._folder = proc / str(pid)
        self._begun_cpu_s = self._cpu_s()
        self._wakeups = self._begun_wakeups = self._threads()

    def read(self) -> None:
        """Read the threads; to be called several times per second."""
        self._wakeups = self._wakeups | self._threads()

    def usage(self) -> Usage:
        """Return the usage until the last reading."""
        wakeups = sum(self._wakeups.values()) - sum(self._begun_wakeups.values())
        return Usage(self._cpu_s() - self._begun_cpu_s, wakeups)

    def _threads(self) -> dict[str, int]:
        """Return thread id -> wake-ups since the thread's start."""
        found = {}
        for task in (self._folder / "task").iterdir():
            # A thread that has just ended has no file any more.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found[task.name] = _number(task / "status", "voluntary_ctxt_switches:")
        return found

    def _cpu_s(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(") ")[2].split()
        ticks = int(fields[11]) + int(fields[12])  # utime and stime, proc_pid_stat(5)
        return ticks / os.sysconf("SC_CLK_TCK")


def observe(observations: Iterable[Observation], seconds: float) -> None:
    """Read the threads of processes for some time."""
    found = list(observations)
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(left_s, _READ_S))
        for observation in found:
            observation.read()


def resident_bytes(pid: int, proc: Path = PROC) -> int:
    """Return a process's VmRSS in bytes."""
    return _number(proc / str(pid) / "status", "VmRSS:") * _KB


def descendants(pid: int, proc: Path = PROC) -> list[int]:
    """Return the pids of a process's descendants, depth first."""
    parents: dict[int, int] = {}
    for path in proc.iterdir():
        if path.name.isdecimal():
            try:
                fields = (path / "stat").read_text().rpartition(") ")[2].split()
            except (FileNotFoundError, ProcessLookupError):  # the process has just ended
                continue
            parents[int(path.name)] = int(fields[1])
    return _below(pid, parents)


def _below(pid: int, parents: dict[int, int]) -> list[int]:
    children = sorted(child for child, parent in parents.items() if parent == pid)
    return [one for child in children for one in (child, *_below(child, parents))]


def _number(path: Path, key: str) -> int:
    lines = path.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))
