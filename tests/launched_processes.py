"""Ends the supervisors of launched plugins whose runtime is a part of the test's process.

A supervisor ends with the process that launched the plugin, and starts the plugin again as long as
that process lives. Where a test only closes the fake runtime, it ends the supervisors itself; the
kernel ends their workers.
"""

import contextlib
import os
import signal
from pathlib import Path

SUPERVISOR = "numamem-superv"


def processes_with(mark: str) -> dict[int, str]:
    """Return pid -> name of the processes whose command line contains `mark`."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes():
                found[int(folder.name)] = (folder / "comm").read_text().strip()
    return found


def end_supervisors(mark: str) -> None:
    """Kill the supervisors whose command line contains `mark`."""
    for pid, name in processes_with(mark).items():
        if name == SUPERVISOR:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
