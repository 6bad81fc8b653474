"""Judges whether a plugin without progress in its event loop is stuck, or only waits to run.

The verdict is made in another process, from the plugin's heartbeat and from what the kernel shows
of its threads. A plugin that waits for a processor, is stopped (SIGSTOP, a debugger) or waits for a
disk would not profit from a restart: its successor would wait as well, and without accounting. So
only this time counts towards the limit:

- time in which the plugin ran on a processor (an endless loop), and
- time in which all of its threads slept, which a waiting event loop ends each tick (a deadlock).

A thread that waits for a processor is in state R, and its run time does not grow; the kernel adds
the wait to schedstat's second number only afterwards, so the state counts as well.

This module is imported by the supervisor, which must stay small.
"""

import os
from typing import NamedTuple

STUCK_S = 11.5
"""The time without a heartbeat, as counted above, after which a plugin is stuck: four samples. A
virtual machine on an overloaded host can miss several heartbeats."""
SAMPLE_S = 3.0
"""The interval of the samples; longer than a tick, so that each sample of a healthy plugin shows
another heartbeat."""

LATE_S = 1.5 * SAMPLE_S
"""The time between two samples from which on the later one is ignored; less than half of STUCK_S,
so two samples alone never end a plugin."""

_SLEEPING, _RUNNABLE, _OTHER = "S", "R", "?"


class Activity(NamedTuple):
    """What the kernel shows of a process's threads, as sums of all threads."""

    state: str
    """"S" if all threads sleep, "R" if one runs or waits for a processor, "?" otherwise."""
    ran_s: float
    queued_s: float
    """How long threads waited for a processor that they got since."""


class StallDetector:
    """Judges one process from samples; times are monotonic."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self._beats = 0
        self._activity = Activity(_OTHER, 0.0, 0.0)
        self._stuck_s = 0.0

    def is_stuck(self, now_s: float, beats: int, activity: Activity) -> bool:
        """Return whether the process is stuck; `beats` is 0 while its event loop does not run."""
        if beats and beats == self._beats:
            elapsed_s = now_s - self._at_s
            # A late sample proves nothing: this process did not get to run either. Where a
            # hypervisor takes the processor away, the kernel even counts that as run time.
            if elapsed_s < LATE_S:
                self._stuck_s += _counted_s(elapsed_s, self._activity, activity)
        else:
            self._stuck_s = 0.0
        self._at_s, self._beats, self._activity = now_s, beats, activity
        return self._stuck_s >= STUCK_S


def _counted_s(elapsed_s: float, before: Activity, after: Activity) -> float:
    """Return how much of the time between two samples counts."""
    ran_s = min(elapsed_s, max(0.0, after.ran_s - before.ran_s))
    if before.state == after.state == _SLEEPING:
        return max(ran_s, elapsed_s - max(0.0, after.queued_s - before.queued_s))
    return ran_s


def read_activity(pid: int, proc: str = "/proc") -> Activity:
    """Return the activity of a process; OSError if it has ended or cannot be read."""
    states: set[str] = set()
    ran_s = queued_s = 0.0
    folder = f"{proc}/{pid}/task"
    for thread in os.listdir(folder):  # noqa: PTH208 - no pathlib here
        try:
            state, ran, queued = _read_thread(f"{folder}/{thread}")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended
        states.add(state)
        ran_s += ran
        queued_s += queued
    return Activity(_state_of(states), ran_s, queued_s)


def _state_of(states: set[str]) -> str:
    if not states <= {_SLEEPING, _RUNNABLE}:
        return _OTHER
    return _RUNNABLE if _RUNNABLE in states else _SLEEPING


def _read_thread(folder: str) -> tuple[str, float, float]:
    """Return state, run time and time in the run queue (proc(5), sched-stats)."""
    fields = _read(f"{folder}/stat").rpartition(") ")[2].split()
    try:
        ran_ns, queued_ns = _read(f"{folder}/schedstat").split()[:2]
    except OSError:  # a kernel without SCHED_INFO
        return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 0.0
    return fields[0], int(ran_ns) / 1e9, int(queued_ns) / 1e9


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - no pathlib here
        return file.read()
