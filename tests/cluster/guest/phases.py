"""All phases: configurations of containerd, kubelet and plugin, and their checks."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.guest import (
    agent,
    kubelet,
    scenarios_claim_faults,
    scenarios_claims,
    scenarios_connection,
    scenarios_cpus,
    scenarios_dra,
    scenarios_journal,
    scenarios_placement,
    scenarios_rejection,
    scenarios_resize,
    scenarios_restarts,
)
from tests.cluster.guest.api_pods import KUBECONFIG, ApiPods, ScheduledPods
from tests.cluster.guest.host import Host
from tests.cluster.guest.static_pods import StaticPods
from tests.machines.guest import artefacts, checks, containerd, crio, forms, plugin, systemd
from tests.machines.guest.checks import Report
from tests.machines.guest.processes import output
from tests.machines.guest.runtime import Runtime
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
    pods come from an API server on the machine's host, else from manifests. With `has_claims` a
    scheduler binds them, and the agent serves claims. CRI-O has crun and the cgroupfs driver.
    """

    cgroup_driver: str = "systemd"
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    has_api_server: bool = False
    has_claims: bool = False
    runtime: str = "containerd"


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
    Phase(
        "claims",
        (
            scenarios_connection.OPENING,
            scenarios_claims.CLAIMS,
            scenarios_claims.SEVERAL_NODES,
            scenarios_claims.CONFLICTS,
            scenarios_claims.REMOVAL,
            scenarios_connection.CLOSING,
        ),
        has_api_server=True,
        has_claims=True,
    ),
    Phase(
        "claims-crio",
        (
            scenarios_connection.OPENING,
            scenarios_claims.CLAIMS,
            scenarios_connection.CLOSING,
        ),
        cgroup_driver="cgroupfs",
        has_api_server=True,
        has_claims=True,
        runtime="crio",
    ),
    Phase(
        "claim-faults",
        (
            scenarios_connection.OPENING,
            scenarios_claim_faults.FAULTS,
            scenarios_claim_faults.REBOOT,
            scenarios_connection.CLOSING,
        ),
        has_api_server=True,
        has_claims=True,
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
            self._phase.runtime: crio.LOG if self._phase.runtime == "crio" else containerd.LOG,
            "plugin": plugin.LOG,
            "commands": plugin.COMMANDS,
            "kubelet": kubelet.LOG,
            "agent": agent.LOG,
        }

    def start(self) -> Host:
        """Configure and start the services."""
        self._host = host = _host(self._phase)
        host.runtime.start().close()
        host.runtime.import_image(ARCHIVE)
        host.plugin.connect()
        host.runtime.wait_for_plugin(launched=False)
        host.kubelet.start()
        if host.agent is not None:
            host.agent.start()
        return host

    def send_facts(self, report: Report, phase: str) -> None:
        """Send the memory of the services."""
        runtime = crio.UNIT if self._phase.runtime == "crio" else containerd.UNIT
        units = [kubelet.UNIT, runtime, forms.UNIT]
        units += [agent.UNIT] if self._phase.has_claims else []
        running = [unit for unit in units if systemd.is_active(unit)]
        report.write("memory", phase=phase, peaks_mib=_peaks_mib(running))

    def stop(self) -> None:
        """Stop kubelet and containerd."""
        if self._host is not None:
            if self._host.agent is not None:
                self._host.agent.stop()
            self._host.kubelet.stop()
            self._host.runtime.stop()

    def remove(self) -> None:
        """Remove the plugin."""
        if self._host is not None:
            self._host.plugin.remove()


def _host(phase: Phase) -> Host:
    """Configure the services of a phase, without starting them."""
    daemon = _runtime(phase)
    more = "claims: {enabled: true}\n" if phase.has_claims else ""
    package = artefacts.NEW_PACKAGE
    service = forms.Service(package, logs_to_file=True, restarts=False, settings=more)
    settings = {
        "cgroupDriver": phase.cgroup_driver,
        "containerRuntimeEndpoint": daemon.socket,
        **phase.kubelet,
    }
    if not phase.has_api_server:
        return Host(daemon, service, kubelet.Kubelet(settings), StaticPods())
    arguments = (f"--kubeconfig={KUBECONFIG}",)
    settings["registerNode"] = True
    node = kubelet.Kubelet(settings, *arguments)
    if not phase.has_claims:
        return Host(daemon, service, node, ApiPods())
    pods = ScheduledPods()
    return Host(daemon, service, node, pods, agent.Agent(pods))


def _runtime(phase: Phase) -> Runtime:
    if phase.runtime == "crio":
        return crio.Crio()
    is_systemd = phase.cgroup_driver == "systemd"
    tables = _CGROUP_DRIVER.format(systemd=str(is_systemd).lower())
    return containerd.Containerd(hugetlb=False, tables=tables)


def _peaks_mib(units: Sequence[str]) -> dict[str, int]:
    """Return unit -> the largest resident memory so far of its main process."""
    peaks = {}
    for unit in units:
        status = Path("/proc", systemd.show(unit, "MainPID"), "status")
        lines = status.read_text(encoding="utf-8").splitlines()
        fields = dict(line.split(":\t", 1) for line in lines)
        peaks[unit.removesuffix(".service")] = int(fields["VmHWM"].split()[0]) >> 10
    return peaks
