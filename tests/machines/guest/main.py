"""The guest's part of a run: run the selected phases of a suite, send their logs, send "done".

machines.service runs it as `python3 -m tests.machines.guest.main` in the parent folder of tests/.
The kernel's command line has the module of the suite and the names of the phases:
"machines.suite=tests.e2e.guest.phases machines.phases=launched-default,package".
"""

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from tests.machines.guest import checks, forms, image_archive, systemd
from tests.machines.guest.attempts import run_with_retries
from tests.machines.guest.checks import Phase, Report
from tests.machines.guest.pauses import PauseDetector
from tests.machines.guest.setup import ARCHIVE, Setup

_LOGS = Path("/var/log/e2e")
_RESULTS_PORT = "results"
_ARGUMENT = "machines."


class Suite(Protocol):
    """The module of a suite."""

    PHASES: Sequence[Phase[Any]]

    def prepare(self) -> Mapping[str, str]:
        """Prepare the machine; return program -> version."""

    def setup(self, phase: Phase[Any]) -> Setup[Any]:
        """Return what a phase runs on, not started."""


def main() -> int:
    """Run the selected phases; the exit status appears only on the console."""
    report = Report(_RESULTS_PORT)
    uptime_s = Path("/proc/uptime").read_text(encoding="ascii").split()[0]
    report.write("boot", seconds=float(uptime_s))
    # Of the programs that this one starts.
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    try:
        chosen = arguments(Path("/proc/cmdline").read_text(encoding="ascii"))
        suite = cast("Suite", import_module(chosen["suite"]))
        selected = chosen["phases"].split(",")
        _LOGS.mkdir(parents=True)
        image_archive.write(ARCHIVE, Path("/usr/bin/busybox"))
        report.write("versions", **suite.prepare())
        pauses = PauseDetector()
        for phase in suite.PHASES:
            if phase.name in selected:
                run = partial(_run_phase, report, phase, suite)
                run_with_retries(report, phase.name, pauses, run)
    except Exception:  # noqa: BLE001 - reported to the host
        report.write("broken", detail=traceback.format_exc())
        return 1
    report.write("done")
    return 0


def arguments(command_line: str) -> dict[str, str]:
    """Return the arguments of the kernel's command line that are for this program."""
    words = [word for word in command_line.split() if word.startswith(_ARGUMENT)]
    pairs = (word.removeprefix(_ARGUMENT).partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def _run_phase(report: Report, phase: Phase[Any], suite: Suite, attempt: int) -> list[str]:
    """Run one phase's checks; return what failed."""
    started = time.monotonic()
    setup: Setup[Any] | None = None
    failures: list[str] = []
    try:
        setup = suite.setup(phase)
        failures = checks.run_all(report, phase, setup.start())
        setup.send_facts(report, phase.name)
    except Exception:  # noqa: BLE001 - the other phases still run
        failures.append(traceback.format_exc())
    finally:
        if setup is not None:
            setup.stop()
            _send_logs(report, phase.name, attempt, setup.logs)
            setup.remove()
    report.write("phase", name=phase.name, seconds=round(time.monotonic() - started, 1))
    return failures


def _send_logs(report: Report, phase: str, attempt: int, logs: Mapping[str, Path]) -> None:
    """Send log files, the journal of the plugin's service, and the kernel's messages since boot."""
    texts = {name: _text(path) for name, path in logs.items()}
    texts["kernel"] = _kernel_log()
    texts["journal"] = systemd.journal("--output=short-monotonic", "--unit", forms.UNIT)
    run = phase if attempt == 1 else f"{phase}-{attempt}"
    for name, text in texts.items():
        report.write("log", name=f"{run}-{name}.log", text=text)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _kernel_log() -> str:
    """Return the kernel's messages since boot; the console shows only errors."""
    done = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
