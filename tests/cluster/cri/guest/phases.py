"""Phases without a kubelet: pods are created over the CRI, by the scenarios of tests/e2e.

CRI-O is tested in this way in both modes of the plugin, and so is a CDI device under containerd.
"""

from dataclasses import dataclass

from tests.cluster.cri.guest import crio, scenarios_cdi, scenarios_crio
from tests.e2e.guest import (
    artefacts,
    containerd,
    cri_phase,
    forms,
    plugin,
    scenarios_faults,
    scenarios_hugepages,
    scenarios_lifecycle,
    scenarios_placement,
)
from tests.e2e.guest.checks import Report


@dataclass(frozen=True, slots=True)
class Phase(cri_phase.Phase):
    """One runtime, one mode of the plugin, and the scenarios in their order."""

    runtime: str = "crio"


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
    if phase.runtime == "crio":
        daemon, log = crio.Crio(), crio.LOG
        return cri_phase.run(report, phase, attempt, daemon, lambda: _plugin(phase), log)
    debian = containerd.Containerd(hugetlb=False)
    return cri_phase.run(report, phase, attempt, debian, lambda: _plugin(phase), containerd.LOG)


def _plugin(phase: Phase) -> plugin.Plugin:
    if phase.mode == "launched":
        return forms.Launched(from_wheel=False)
    return forms.Service(artefacts.NEW_PACKAGE, logs_to_file=True, restarts=False)
