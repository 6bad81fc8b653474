"""The guest's part of a run: prepare the machine, run the phases.

e2e.service runs it as `python3 -m tests.cluster.guest.main` in the parent folder of tests/.
"""

import platform
import sys
import time
import traceback
from pathlib import Path

from tests.cluster.guest import catalog, checks, kubelet
from tests.cluster.guest.api_pods import KUBECONFIG, ApiPods
from tests.cluster.guest.commands import output
from tests.cluster.guest.host import Host
from tests.cluster.guest.static_pods import StaticPods
from tests.e2e.guest import artefacts, containerd, forms, plugin, systemd
from tests.e2e.guest.checks import Report
from tests.e2e.guest.machine_run import ARCHIVE, run_phases, send_logs

# QEMU's user networking: this address, and its gateway. The kubelet needs a default route.
_ADDRESS, _GATEWAY = "10.0.2.15/24", "10.0.2.2"

_CGROUP_DRIVER = """
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = {systemd}
"""


def main() -> int:
    """Run the selected phases; return the exit status."""
    return run_phases(_prepare, catalog.PHASES, _run_phase)


def _prepare(report: Report) -> None:
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
        _stop(host)
        logs = {"containerd": containerd.LOG, "plugin": plugin.LOG, "commands": plugin.COMMANDS}
        send_logs(report, phase.name, attempt, {**logs, "kubelet": kubelet.LOG})
        if host is not None:
            host.plugin.remove()
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
    host.containerd.import_image(ARCHIVE)
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


def _stop(host: Host | None) -> None:
    if host is not None:
        host.kubelet.stop()
        host.containerd.stop()


if __name__ == "__main__":
    sys.exit(main())
