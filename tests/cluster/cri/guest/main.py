"""The guest's part of a run: prepare the machine, run the phases.

e2e.service runs it as `python3 -m tests.cluster.cri.guest.main` in the parent folder of tests/.
"""

import platform
import sys

from tests.cluster.cri.guest import crio, phases
from tests.e2e.guest import containerd, systemd
from tests.e2e.guest.checks import Report
from tests.e2e.guest.machine_run import run_phases
from tests.e2e.guest.runtime import run_command


def main() -> int:
    """Run the selected phases; return the exit status."""
    return run_phases(_prepare, phases.PHASES, phases.run)


def _prepare(report: Report) -> None:
    systemd.write_drop_in(containerd.UNIT, f"[Service]\n{systemd.ONE_THREAD}\n")
    systemd.systemctl("daemon-reload")
    report.write(
        "versions",
        kernel=platform.release(),
        crio=crio.version(),
        crun=run_command("crun", "--version").split()[2],
        conmon=run_command("conmon", "--version").split()[2],
        containerd=containerd.version(),
        runc=containerd.runc_version(),
    )


if __name__ == "__main__":
    sys.exit(main())
