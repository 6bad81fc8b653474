"""Phases without a kubelet: pods are created over the CRI, by the scenarios of tests/e2e.

CRI-O is tested in this way in both modes of the plugin, and so is a CDI device under containerd.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass

from tests.cluster.cri.guest import scenarios_cdi, scenarios_crio
from tests.e2e.guest import scenarios_faults, scenarios_hugepages, scenarios_placement
from tests.machines.guest import (
    artefacts,
    checks,
    containerd,
    crio,
    forms,
    plugin,
    scenarios_lifecycle,
    systemd,
)
from tests.machines.guest.host import Host
from tests.machines.guest.processes import output
from tests.machines.guest.setup import CriSetup


@dataclass(frozen=True, slots=True)
class Phase(checks.Phase[Host]):
    """One runtime, one mode of the plugin, and the scenarios in their order."""

    runtime: str = "crio"


PHASES = (
    Phase(
        "cdi",
        (
            scenarios_lifecycle.OPENING,
            scenarios_cdi.CDI,
            scenarios_lifecycle.CLOSING,
        ),
        runtime="containerd",
    ),
    Phase(
        "crio-external",
        (
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
        "crio-launched",
        (
            scenarios_lifecycle.OPENING,
            scenarios_placement.ONE_NODE,
            scenarios_hugepages.HUGEPAGES,
            scenarios_crio.CRIO,
            scenarios_faults.FAULTS,
            scenarios_lifecycle.CLOSING,
        ),
        mode="launched",
    ),
)


def prepare() -> Mapping[str, str]:
    """Let containerd run in one thread; return program -> version."""
    systemd.write_drop_in(containerd.UNIT, f"[Service]\n{systemd.ONE_THREAD}\n")
    systemd.systemctl("daemon-reload")
    return {
        "kernel": platform.release(),
        "crio": crio.version(),
        "crun": output("crun", "--version").split()[2],
        "conmon": output("conmon", "--version").split()[2],
        "containerd": containerd.version(),
        "runc": containerd.runc_version(),
    }


def setup(phase: Phase) -> CriSetup:
    """Return what a phase runs on."""
    if phase.runtime == "crio":
        return CriSetup(crio.Crio(), lambda: _plugin(phase), crio.LOG)
    debian = containerd.Containerd(hugetlb=False)
    return CriSetup(debian, lambda: _plugin(phase), containerd.LOG)


def _plugin(phase: Phase) -> plugin.Plugin:
    if phase.mode == "launched":
        return forms.Launched(from_wheel=False)
    return forms.Service(artefacts.NEW_PACKAGE, logs_to_file=True, restarts=False)
