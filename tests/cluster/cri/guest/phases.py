"""Phases without a kubelet: pods are created over the CRI, by the scenarios of tests/e2e.

CRI-O is tested in this way in both modes of the plugin. So are a CDI device under containerd, and
memory policies under a newer containerd with a newer runc.
"""

import time
import traceback
from dataclasses import dataclass

from tests.cluster.cri.guest import (
    crio,
    newer_containerd,
    scenarios_cdi,
    scenarios_crio,
    scenarios_memory_policies,
)
from tests.e2e.guest import (
    artefacts,
    checks,
    containerd,
    forms,
    plugin,
    scenarios_faults,
    scenarios_hugepages,
    scenarios_lifecycle,
    scenarios_placement,
)
from tests.e2e.guest.checks import Check, Host, Report, Scenario
from tests.e2e.guest.kubelet import Kubelet
from tests.e2e.guest.machine_run import ARCHIVE, send_logs


@dataclass(frozen=True, slots=True)
class Phase(checks.Phase):
    """One runtime, one mode of the plugin, and the scenarios in their order.

    `settings` are further ones of the plugin, as a service; with them the plugin runs the OCI
    runtime.
    """

    runtime: str = "crio"
    title: str = ""
    scenarios: tuple[Scenario, ...] = ()
    settings: str = ""

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.title

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the phase's mode."""
        found = (check for scenario in self.scenarios for check in scenario)
        return tuple(check for check in found if self.mode in check.modes)


PHASES = (
    Phase(
        "external",
        runtime="containerd",
        title="cdi",
        scenarios=(
            scenarios_lifecycle.OPENING,
            scenarios_cdi.CDI,
            scenarios_lifecycle.CLOSING,
        ),
    ),
    # Phases after it cannot have Debian's containerd.
    Phase(
        "external",
        runtime="newer-containerd",
        title="memory-policies",
        scenarios=(
            scenarios_lifecycle.OPENING,
            scenarios_memory_policies.MODES,
            scenarios_memory_policies.OLDER_RUNC,
            scenarios_lifecycle.CLOSING,
        ),
        settings=scenarios_memory_policies.SETTINGS,
    ),
    Phase(
        "external",
        title="crio-external",
        scenarios=(
            scenarios_lifecycle.OPENING,
            scenarios_placement.ONE_NODE,
            scenarios_placement.PAIRS,
            scenarios_placement.OTHER_CLASSES,
            scenarios_hugepages.HUGEPAGES,
            scenarios_cdi.CDI,
            scenarios_crio.CRIO,
            scenarios_faults.FAULTS,
            scenarios_lifecycle.CLOSING,
        ),
    ),
    Phase(
        "launched",
        title="crio-launched",
        scenarios=(
            scenarios_lifecycle.OPENING,
            scenarios_placement.ONE_NODE,
            scenarios_hugepages.HUGEPAGES,
            scenarios_crio.CRIO,
            scenarios_faults.FAULTS,
            scenarios_lifecycle.CLOSING,
        ),
    ),
)


def run(report: Report, phase: Phase, attempt: int) -> list[str]:
    """Run a phase's checks; return what failed."""
    started = time.monotonic()
    daemon = _runtime(phase)
    the_plugin: plugin.Plugin | None = None
    failures: list[str] = []
    try:
        the_plugin = _plugin(phase)
        kubelet = Kubelet(daemon.start())
        daemon.import_image(ARCHIVE)
        the_plugin.connect()
        host = Host(phase, daemon, the_plugin, kubelet)
        failures = checks.run_all(report, host, phase.scenarios)
    except Exception:  # noqa: BLE001 - the other phases run in any case
        failures.append(traceback.format_exc())
    finally:
        daemon.stop()
        logs = {phase.runtime: crio.LOG if phase.runtime == "crio" else containerd.LOG}
        logs |= {"plugin": plugin.LOG, "commands": plugin.COMMANDS}
        send_logs(report, phase.name, attempt, logs)
        if the_plugin is not None:
            the_plugin.remove()
    report.write("phase", name=phase.name, seconds=round(time.monotonic() - started, 1))
    return failures


def _runtime(phase: Phase) -> crio.Crio | containerd.Containerd:
    if phase.runtime == "crio":
        return crio.Crio()
    if phase.runtime == "newer-containerd":
        return newer_containerd.NewerContainerd()
    return containerd.Containerd(hugetlb=False)


def _plugin(phase: Phase) -> plugin.Plugin:
    if phase.mode == "launched":
        return forms.Launched(from_wheel=False)
    return forms.Service(
        artefacts.NEW_PACKAGE,
        logs_to_file=True,
        restarts=False,
        settings=phase.settings,
        runs_others=bool(phase.settings),
    )
