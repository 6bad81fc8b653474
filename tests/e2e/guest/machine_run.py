"""A run of the guest of tests/cluster: the selected phases, their logs, "done"."""

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from tests.e2e.guest import forms, image_archive, systemd
from tests.e2e.guest.attempts import run_with_retries
from tests.e2e.guest.checks import Report
from tests.e2e.guest.pauses import PauseDetector

ARCHIVE = Path("/tmp/image.tar")
"""The image of the pods."""

_LOGS = Path("/var/log/e2e")
_RESULTS_PORT = "results"
_SELECTED = Path("/e2e/phases")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=_Named)


def run_phases(
    prepare: Callable[[Report], None],
    phases: Sequence[P],
    run: Callable[[Report, P, int], list[str]],
) -> int:
    """Run the selected phases; return the exit status, which appears only on the console.

    `run` takes the number of the attempt, from 1, and returns what failed.
    """
    report = Report(_RESULTS_PORT)
    uptime_s = Path("/proc/uptime").read_text(encoding="ascii").split()[0]
    report.write("boot", seconds=float(uptime_s))
    # Programs that this one starts are not in the service's environment.
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        _LOGS.mkdir(parents=True)
        image_archive.write(ARCHIVE, Path("/usr/bin/busybox"))
        prepare(report)
        pauses = PauseDetector()
        selected = _SELECTED.read_text(encoding="ascii").split()
        for phase in phases:
            if phase.name in selected:
                run_with_retries(report, phase.name, pauses, partial(run, report, phase))
    except Exception:  # noqa: BLE001 - reported to the host
        report.write("broken", detail=traceback.format_exc())
        return 1
    report.write("done")
    return 0


def send_logs(report: Report, phase: str, attempt: int, logs: Mapping[str, Path]) -> None:
    """Send log files, and the journal of the plugin's service; `logs` maps names to files."""
    run = phase if attempt == 1 else f"{phase}-{attempt}"
    for name, path in logs.items():
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        report.write("log", name=f"{run}-{name}.log", text=text)
    journal = systemd.journal("--output=short-monotonic", "--unit", forms.UNIT)
    report.write("log", name=f"{run}-journal.log", text=journal)
