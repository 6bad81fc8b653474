"""The guest's part of a run: run the phases, send "done".

e2e.service runs it as `python3 -m tests.cluster.guest.main` in the parent folder of tests/.
"""

import os
import platform
import sys
import time
import traceback
from functools import partial
from pathlib import Path

from tests.cluster.guest import catalog, checks, kubelet
from tests.cluster.guest.api_pods import KUBECONFIG, ApiPods
from tests.cluster.guest.commands import output
from tests.cluster.guest.host import Host
from tests.cluster.guest.static_pods import StaticPods
from tests.e2e.guest import artefacts, containerd, forms, image_archive, plugin, systemd
from tests.e2e.guest.attempts import run_with_retries
from tests.e2e.guest.checks import Report
from tests.e2e.guest.pauses import PauseDetector

_LOGS = Path("/var/log/e2e")
_ARCHIVE = Path("/tmp/image.tar")
_RESULTS_PORT = "results"
_SELECTED = Path("/e2e/phases")

# QEMU's user networking: this address, and its gateway. The kubelet needs a default route.
_ADDRESS, _GATEWAY = "10.0.2.15/24", "10.0.2.2"

_CGROUP_DRIVER = """
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = {systemd}
"""


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
        for phase in catalog.PHASES:
            if phase.name in selected:
                run_with_retries(report, phase.name, pauses, partial(_run_phase, report, phase))
    except Exception:  # noqa: BLE001 - reported to the host
        report.write("broken", detail=traceback.format_exc())
        return 1
    report.write("done")
    return 0


def _prepare(report: Report) -> None:
    _LOGS.mkdir(parents=True)
    image_archive.write(_ARCHIVE, Path("/usr/bin/busybox"))
    output("modprobe", "virtio_net")
    output("ip", "address", "add", _ADDRESS, "dev", "eth0")
    output("ip", "link", "set", "eth0", "up")
    output("ip", "route", "add", "default", "via", _GATEWAY)
    systemd.write_drop_in(containerd.UNIT, f"[Service]\n{kubelet.ONE_THREAD}")
    systemd.systemctl("daemon-reload")
    report.write(
        "versions",
        kernel=platform.release(),
        kubelet=kubelet.version(),
        containerd=containerd.version(),
        runc=containerd.runc_version(),
        systemd=systemd.systemctl("--version").split()[1],
    )


def _run_phase(report: Report, phase: checks.Phase, attempt: int) -> list[str]:
    """Run one phase's checks; return what failed."""
    started = time.monotonic()
    host = None
    failures: list[str] = []
    try:
        host = _host(phase)
        _start(host)
        failures = checks.run_all(report, phase, host)
        report.write("memory", phase=phase.name, peaks_mib=_peaks_mib())
    except Exception:  # noqa: BLE001 - the other phases run in any case
        failures.append(traceback.format_exc())
    finally:
        run = phase.name if attempt == 1 else f"{phase.name}-{attempt}"
        _stop(host, report, run)
    report.write("phase", name=phase.name, seconds=round(time.monotonic() - started, 1))
    return failures


def _host(phase: checks.Phase) -> Host:
    """Configure the services of a phase, without starting them."""
    is_systemd = phase.cgroup_driver == "systemd"
    tables = _CGROUP_DRIVER.format(systemd=str(is_systemd).lower())
    daemon = containerd.Containerd(hugetlb=False, tables=tables)
    service = forms.Service(artefacts.NEW_PACKAGE, logs_to_file=True, restarts=False)
    settings = {"cgroupDriver": phase.cgroup_driver, **phase.kubelet}
    if not phase.has_api_server:
        return Host(daemon, service, kubelet.Kubelet(settings), StaticPods())
    arguments = (f"--kubeconfig={KUBECONFIG}",)
    settings["registerNode"] = True
    return Host(daemon, service, kubelet.Kubelet(settings, *arguments), ApiPods())


def _start(host: Host) -> None:
    host.containerd.start().close()
    host.containerd.import_image(_ARCHIVE)
    host.plugin.connect()
    host.containerd.wait_for_plugin(launched=False)
    host.kubelet.start()


def _peaks_mib() -> dict[str, int]:
    """Return unit -> the largest resident memory so far of its main process."""
    peaks = {}
    for unit in (kubelet.UNIT, containerd.UNIT, forms.UNIT):
        status = Path("/proc", systemd.show(unit, "MainPID"), "status")
        lines = status.read_text(encoding="utf-8").splitlines()
        fields = dict(line.split(":\t", 1) for line in lines)
        peaks[unit.removesuffix(".service")] = int(fields["VmHWM"].split()[0]) >> 10
    return peaks


def _stop(host: Host | None, report: Report, run: str) -> None:
    """Stop the services, and send their logs."""
    if host is not None:
        host.kubelet.stop()
        host.containerd.stop()
    logs = {"containerd": containerd.LOG, "plugin": plugin.LOG, "commands": plugin.COMMANDS}
    logs["kubelet"] = kubelet.LOG
    for name, path in logs.items():
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        report.write("log", name=f"{run}-{name}.log", text=text)
    journal = systemd.journal("--output=short-monotonic", "--unit", forms.UNIT)
    report.write("log", name=f"{run}-journal.log", text=journal)
    if host is not None:
        host.plugin.remove()


if __name__ == "__main__":
    sys.exit(main())
