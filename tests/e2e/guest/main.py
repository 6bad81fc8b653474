"""The guest's part of a run: run the phases, send "done".

e2e.service runs it as `python3 -m tests.e2e.guest.main` in the parent folder of tests/.
"""

import platform
import subprocess
import sys
import time
import traceback
from functools import partial
from pathlib import Path

import google.protobuf

from tests.e2e.guest import (
    artefacts,
    catalog,
    checks,
    containerd,
    forms,
    image_archive,
    plugin,
    systemd,
)
from tests.e2e.guest.attempts import run_with_retries
from tests.e2e.guest.checks import Host, Phase, Report, expect
from tests.e2e.guest.kubelet import Kubelet
from tests.e2e.guest.pauses import PauseDetector

_LOGS = Path("/var/log/e2e")
_ARCHIVE = Path("/tmp/image.tar")
_RESULTS_PORT = "results"
_SELECTED = Path("/e2e/phases")

_Placements = list[tuple[str, str, list[int]]]


def main() -> int:
    """Run all phases; the exit status appears only on the console."""
    report = Report(_RESULTS_PORT)
    uptime_s = Path("/proc/uptime").read_text(encoding="ascii").split()[0]
    report.write("boot", seconds=float(uptime_s))
    try:
        _prepare(report)
        pauses = PauseDetector()
        selected = _SELECTED.read_text(encoding="ascii").split()
        phases = [phase for phase in checks.PHASES if phase.name in selected]
        placements: dict[Phase, _Placements] = {}
        for phase in phases:
            found: _Placements = []
            run = partial(_run_phase, report, phase, found)
            run_with_retries(report, phase.name, pauses, run)
            placements[phase] = found
        _compare(report, placements)
    except Exception:  # noqa: BLE001 - reported to the host
        report.write("broken", detail=traceback.format_exc())
        return 1
    report.write("done")
    return 0


def _prepare(report: Report) -> None:
    _LOGS.mkdir(parents=True)
    image_archive.write(_ARCHIVE, Path("/usr/bin/busybox"))
    report.write(
        "versions",
        kernel=platform.release(),
        containerd=containerd.version(),
        runc=containerd.runc_version(),
        python=platform.python_version(),
        protobuf=google.protobuf.__version__,
        systemd=systemd.systemctl("--version").split()[1],
    )


def _run_phase(report: Report, phase: Phase, placements: _Placements, attempt: int) -> list[str]:
    """Run one phase's checks; set the placements, and return what failed."""
    started = time.monotonic()
    placements.clear()
    daemon = containerd.Containerd(hugetlb=phase.hugetlb)
    the_plugin = None
    failures: list[str] = []
    try:
        the_plugin = _plugin(phase)
        kubelet = Kubelet(daemon.start())
        daemon.import_image(_ARCHIVE)
        if not phase.is_package:  # its checks install the service
            the_plugin.connect()
        host = Host(phase, daemon, the_plugin, kubelet, placements)
        failures = checks.run_all(report, host, catalog.scenarios(phase))
    except Exception:  # noqa: BLE001 - the other phases run in any case
        failures.append(traceback.format_exc())
    finally:
        daemon.stop()
        logs = {"containerd": containerd.LOG, "plugin": plugin.LOG, "commands": plugin.COMMANDS}
        texts = {name: _text(path) for name, path in logs.items()} | {"kernel": _kernel_log()}
        texts["journal"] = systemd.journal("--output=short-monotonic", "--unit", forms.UNIT)
        if the_plugin is not None:
            the_plugin.remove()
        run = phase.name if attempt == 1 else f"{phase.name}-{attempt}"
        for name, text in texts.items():
            report.write("log", name=f"{run}-{name}.log", text=text)
    report.write("phase", name=phase.name, seconds=round(time.monotonic() - started, 1))
    return failures


def _plugin(phase: Phase) -> plugin.Plugin:
    """Return the plugin in the form of the phase, installed."""
    if phase.is_package:
        return forms.Service(artefacts.OLD_PACKAGE, logs_to_file=False, restarts=True)
    if phase.mode == "launched":
        return forms.Launched(from_wheel=phase.hugetlb)
    if phase.hugetlb:
        return forms.Process()
    return forms.Service(artefacts.NEW_PACKAGE, logs_to_file=True, restarts=False)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _kernel_log() -> str:
    """Return the kernel's messages since boot; the console shows only errors."""
    done = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout + done.stderr


def _compare(report: Report, placements: dict[Phase, _Placements]) -> None:
    """Compare the placements of both modes in the same checks."""
    for hugetlb in (False, True):
        pair = [Phase(mode, hugetlb) for mode in checks.MODES]
        if not placements.keys() >= set(pair):
            continue
        launched, external = (placements[phase] for phase in pair)

        def same(external: _Placements = external, launched: _Placements = launched) -> str:
            expect(external, "no container was seen anywhere")
            expect(external == launched, f"external {external}, launched {launched}")
            return f"{len(external)} placements"

        phase = f"both-{'hugetlb' if hugetlb else 'default'}"
        checks.attempt(report, phase, catalog.SAME_PLACEMENTS, same)


if __name__ == "__main__":
    sys.exit(main())
