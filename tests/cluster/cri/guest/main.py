"""The guest's part of a run: run the phases, send "done".

e2e.service runs it as `python3 -m tests.cluster.cri.guest.main` in the parent folder of tests/.
"""

import os
import platform
import sys
import traceback
from functools import partial
from pathlib import Path

from tests.cluster.cri.guest import crio, phases
from tests.e2e.guest import containerd, image_archive, systemd
from tests.e2e.guest.attempts import run_with_retries
from tests.e2e.guest.checks import Report
from tests.e2e.guest.pauses import PauseDetector
from tests.e2e.guest.runtime import run_command

_ARCHIVE = Path("/tmp/image.tar")
_RESULTS_PORT = "results"
_SELECTED = Path("/e2e/phases")


def main() -> int:
    """Run the selected phases; the exit status appears only on the console."""
    report = Report(_RESULTS_PORT)
    uptime_s = Path("/proc/uptime").read_text(encoding="ascii").split()[0]
    report.write("boot", seconds=float(uptime_s))
    # Programs that this one starts are not in the service's environment.
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        _prepare(report)
        pauses = PauseDetector()
        selected = _SELECTED.read_text(encoding="ascii").split()
        for phase in phases.PHASES:
            if phase.name in selected:
                run = partial(phases.run, report, phase, _ARCHIVE)
                run_with_retries(report, phase.name, pauses, run)
    except Exception:  # noqa: BLE001 - reported to the host
        report.write("broken", detail=traceback.format_exc())
        return 1
    report.write("done")
    return 0


def _prepare(report: Report) -> None:
    crio.LOG.parent.mkdir(parents=True)
    image_archive.write(_ARCHIVE, Path("/usr/bin/busybox"))
    systemd.write_drop_in(containerd.UNIT, f"[Service]\n{crio.ONE_THREAD}\n")
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
