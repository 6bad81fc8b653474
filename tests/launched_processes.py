"""A runtime that launches the plugin in a test's process, and the end of the plugin's supervisors.

A start takes half a second of processor time. On a machine that is busy with other tests that can
be more than the 5 s that runtimes allow, so these runtimes allow more.

A supervisor ends with the process that launched the plugin, and starts the plugin again as long as
that process lives. Where a test only closes the fake runtime, it ends the supervisors itself; the
kernel ends their workers.
"""

import contextlib
import os
import signal
from pathlib import Path

from tests.laboratory.runtime import FakeRuntime
from tests.laboratory.version import RuntimeVersion
from tests.simulated_host import WAIT_S

SUPERVISOR = "numamem-superv"


def launching_runtime(
    version: RuntimeVersion | None = None, *, request_timeout_s: float = 5.0
) -> FakeRuntime:
    """Return a runtime that waits longer for a plugin than real ones do."""
    return FakeRuntime(version, registration_timeout_s=WAIT_S, request_timeout_s=request_timeout_s)


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
