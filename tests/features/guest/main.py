"""The guest's part of a run: prepare the machine, run the phases.

e2e.service runs it as `python3 -m tests.features.guest.main` in the parent folder of tests/.
"""

import platform
import sys

from tests.e2e.guest.checks import Report
from tests.e2e.guest.machine_run import run_phases
from tests.e2e.guest.runtime import run_command
from tests.features.guest import newer_containerd, phases


def main() -> int:
    """Run the selected phases; return the exit status."""
    return run_phases(_prepare, phases.PHASES, phases.run)


def _prepare(report: Report) -> None:
    report.write(
        "versions",
        kernel=platform.release(),
        containerd=newer_containerd.version(),
        runc=newer_containerd.runc_version(),
        crun=run_command("crun", "--version").split()[2],
    )


if __name__ == "__main__":
    sys.exit(main())
