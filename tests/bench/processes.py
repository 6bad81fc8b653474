"""What the kernel counts of a process: resident memory, time on the CPU, wake-ups.

Knows /proc and nothing of what the processes are.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PROC = Path("/proc")
_KB = 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used since its start."""

    cpu_s: float
    wakeups: int
    """How often its threads have slept and were woken."""

    def since(self, before: Self) -> Self:
        """Return what was used after an earlier look."""
        return type(self)(self.cpu_s - before.cpu_s, self.wakeups - before.wakeups)


def resident_bytes(pid: int, proc: Path = PROC) -> int:
    """Return a process's VmRSS."""
    return _number(proc / str(pid) / "status", "VmRSS:") * _KB


def usage(pid: int, proc: Path = PROC) -> Usage:
    """Return what a process has used so far; wake-ups of the threads that it has now."""
    fields = (proc / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # utime and stime, proc_pid_stat(5)
    tasks = (proc / str(pid) / "task").iterdir()
    wakeups = sum(_number(task / "status", "voluntary_ctxt_switches:") for task in tasks)
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), wakeups)


def descendants(pid: int, proc: Path = PROC) -> list[int]:
    """Return the ids of a process's children and of theirs."""
    parents: dict[int, int] = {}
    for path in proc.iterdir():
        if path.name.isdecimal():
            try:
                fields = (path / "stat").read_text().rpartition(") ")[2].split()
            except (FileNotFoundError, ProcessLookupError):  # it has just ended
                continue
            parents[int(path.name)] = int(fields[1])
    return _below(pid, parents)


def _below(pid: int, parents: dict[int, int]) -> list[int]:
    children = sorted(child for child, parent in parents.items() if parent == pid)
    return [one for child in children for one in (child, *_below(child, parents))]


def _number(path: Path, key: str) -> int:
    lines = path.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))
