"""All phases: configurations of containerd, kubelet and plugin, and their checks."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.guest import (
    kubelet,
    scenarios_connection,
    scenarios_cpus,
    scenarios_dra,
    scenarios_journal,
    scenarios_placement,
    scenarios_rejection,
    scenarios_resize,
    scenarios_restarts,
)
from tests.cluster.guest.api_pods import KUBECONFIG, ApiPods
from tests.cluster.guest.host import Host
from tests.cluster.guest.static_pods import StaticPods
from tests.machines.guest import artefacts, checks, containerd, forms, plugin, systemd
from tests.machines.guest.checks import Report
from tests.machines.guest.processes import output
from tests.machines.guest.setup import ARCHIVE, Setup

# QEMU's user networking: this address, and its gateway. The kubelet needs a default route.
_ADDRESS, _GATEWAY = "10.0.2.15/24", "10.0.2.2"

_CGROUP_DRIVER = """
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = {systemd}
"""


@dataclass(frozen=True, slots=True)
class Phase(checks.Phase[Host]):
    """One configuration and its checks.

    `kubelet` has settings of the kubelet, as in its configuration file. With `has_api_server` the
    pods come from an API server on the machine's host, else from manifests.
    """

    cgroup_driver: str = "systemd"
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    has_api_server: bool = False


PHASES = (
    Phase(
        "standalone",
        (
            scenarios_connection.OPENING,
            scenarios_placement.PLACEMENT,
            scenarios_rejection.REJECTION,
            scenarios_restarts.CRASH,
            scenarios_restarts.RESTARTS,
            scenarios_journal.JOURNAL,
            scenarios_connection.CLOSING,
        ),
    ),
    Phase(
        "static-cpus",
        (scenarios_connection.OPENING, scenarios_cpus.CPUS, scenarios_connection.CLOSING),
        kubelet=scenarios_cpus.SETTINGS,
    ),
    Phase(
        "api-server",
        (
            scenarios_connection.OPENING,
            scenarios_resize.RESIZE,
            scenarios_dra.DRA,
            scenarios_connection.CLOSING,
        ),
        cgroup_driver="cgroupfs",
        has_api_server=True,
    ),
)


def prepare() -> Mapping[str, str]:
    """Set up the network, and let containerd run in one thread; return program -> version."""
    output("modprobe", "virtio_net")
    output("ip", "address", "add", _ADDRESS, "dev", "eth0")
    output("ip", "link", "set", "eth0", "up")
    output("ip", "route", "add", "default", "via", _GATEWAY)
    systemd.write_drop_in(containerd.UNIT, f"[Service]\n{kubelet.ONE_THREAD}")
    systemd.systemctl("daemon-reload")
    return {
        "kernel": platform.release(),
        "kubelet": kubelet.version(),
        "containerd": containerd.version(),
        "runc": containerd.runc_version(),
        "systemd": systemd.systemctl("--version").split()[1],
    }


def setup(phase: Phase) -> Setup[Host]:
    """Return what a phase runs on."""
    return _KubeletSetup(phase)


class _KubeletSetup(Setup[Host]):
    """containerd, the plugin's service, and the kubelet."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._host: Host | None = None
        self.logs = {
            "containerd": containerd.LOG,
            "plugin": plugin.LOG,
            "commands": plugin.COMMANDS,
            "kubelet": kubelet.LOG,
        }

    def start(self) -> Host:
        """Configure and start the services."""
        self._host = host = _host(self._phase)
        host.containerd.start().close()
        host.containerd.import_image(ARCHIVE)
        host.plugin.connect()
        host.containerd.wait_for_plugin(launched=False)
        host.kubelet.start()
        return host

    def send_facts(self, report: Report, phase: str) -> None:
        """Send the memory of the services."""
        report.write("memory", phase=phase, peaks_mib=_peaks_mib())

    def stop(self) -> None:
        """Stop kubelet and containerd."""
        if self._host is not None:
            self._host.kubelet.stop()
            self._host.containerd.stop()

    def remove(self) -> None:
        """Remove the plugin."""
        if self._host is not None:
            self._host.plugin.remove()


def _host(phase: Phase) -> Host:
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


def _peaks_mib() -> dict[str, int]:
    """Return unit -> the largest resident memory so far of its main process."""
    peaks = {}
    for unit in (kubelet.UNIT, containerd.UNIT, forms.UNIT):
        status = Path("/proc", systemd.show(unit, "MainPID"), "status")
        lines = status.read_text(encoding="utf-8").splitlines()
        fields = dict(line.split(":\t", 1) for line in lines)
        peaks[unit.removesuffix(".service")] = int(fields["VmHWM"].split()[0]) >> 10
    return peaks
