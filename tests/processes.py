"""What tests read about processes from /proc."""

import signal
from pathlib import Path

HARMLESS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that must not end a plugin."""


def ignores_signals(pid: int) -> bool:
    """Return whether the process ignores or handles the harmless signals already."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = dict(line.split(":\t", 1) for line in lines)
    survived = int(masks["SigIgn"], 16) | int(masks["SigCgt"], 16)
    return all(survived >> number - 1 & 1 for number in HARMLESS)


def children(pid: int) -> list[int]:
    """Return the pids of the children of a process's main thread."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
