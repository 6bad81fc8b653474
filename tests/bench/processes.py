"""Read a process's resident memory, CPU time and wake-ups from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PROC = Path("/proc")
_KB = 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of a process since its start."""

    cpu_s: float
    wakeups: int
    """Number of voluntary context switches of its threads."""

    def since(self, before: Self) -> Self:
        """Return the usage since an earlier reading."""
        return type(self)(self.cpu_s - before.cpu_s, self.wakeups - before.wakeups)


def resident_bytes(pid: int, proc: Path = PROC) -> int:
    """Return a process's VmRSS in bytes."""
    return _number(proc / str(pid) / "status", "VmRSS:") * _KB


def usage(pid: int, proc: Path = PROC) -> Usage:
    """Return a process's usage; wake-ups count its living threads only."""
    fields = (proc / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # utime and stime, proc_pid_stat(5)
    wakeups = sum(_wakeups(task) for task in (proc / str(pid) / "task").iterdir())
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), wakeups)


def _wakeups(task: Path) -> int:
    try:
        return _number(task / "status", "voluntary_ctxt_switches:")
    except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
        return 0


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
