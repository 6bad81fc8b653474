"""The phases: one for each form of the plugin and setting of containerd, and the package's life."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass

import google.protobuf

from tests.e2e.guest import (
    scenarios_doctor,
    scenarios_explain,
    scenarios_faults,
    scenarios_hugepages,
    scenarios_nodes,
    scenarios_package,
    scenarios_placement,
    scenarios_reset,
    scenarios_starting,
    scenarios_status,
)
from tests.machines.guest import artefacts, checks, containerd, forms, plugin, systemd
from tests.machines.guest import scenarios_lifecycle as lifecycle
from tests.machines.guest.host import Host
from tests.machines.guest.setup import CriSetup


@dataclass(frozen=True, slots=True)
class Phase(checks.Phase[Host]):
    """One configuration; `hugetlb` is True with `disable_hugetlb_controller = false`.

    By default the plugin is the single file (launched), or the service of the Debian package
    (external); with hugetlb it is the wheel. The phase "package" is the life of the package itself.
    """

    hugetlb: bool = False
    is_package: bool = False


_SHORT = (lifecycle.OPENING, scenarios_hugepages.HUGEPAGES, lifecycle.CLOSING)
# The scenarios that _SHORT omits do not depend on containerd's hugetlb setting, and take most of
# the time. The faults come last: after them a launched plugin is connected as an external one.
_LONG = (
    lifecycle.OPENING,
    scenarios_placement.ONE_NODE,
    scenarios_placement.PAIRS,
    scenarios_placement.OTHER_CLASSES,
    scenarios_status.STATUS,
    scenarios_explain.EXPLAIN,
    scenarios_hugepages.HUGEPAGES,
    scenarios_nodes.EXCLUDED_NODE,
    scenarios_faults.FAULTS,
    scenarios_starting.STARTING,
    scenarios_doctor.DOCTOR,
    scenarios_reset.RESET,
    lifecycle.CLOSING,
)

# The first one installs only the single file, so it runs while nothing else was ever installed.
PHASES = (
    Phase("launched-default", _LONG, "launched"),
    Phase("external-default", _LONG),
    Phase("launched-hugetlb", _SHORT, "launched", hugetlb=True),
    Phase("external-hugetlb", _SHORT, hugetlb=True),
    Phase("package", (scenarios_package.PACKAGE,), is_package=True),
)


def prepare() -> Mapping[str, str]:
    """Return program -> version."""
    return {
        "kernel": platform.release(),
        "containerd": containerd.version(),
        "runc": containerd.runc_version(),
        "python": platform.python_version(),
        "protobuf": google.protobuf.__version__,
        "systemd": systemd.systemctl("--version").split()[1],
    }


def setup(phase: Phase) -> CriSetup:
    """Return what a phase runs on; the checks of the package install the service."""
    daemon = containerd.Containerd(hugetlb=phase.hugetlb)
    connects = not phase.is_package
    return CriSetup(daemon, lambda: _plugin(phase), containerd.LOG, connects=connects)


def _plugin(phase: Phase) -> plugin.Plugin:
    """Return the plugin in the form of the phase, installed."""
    if phase.is_package:
        return forms.Service(artefacts.OLD_PACKAGE, logs_to_file=False, restarts=True)
    if phase.mode == "launched":
        return forms.Launched(from_wheel=phase.hugetlb)
    if phase.hugetlb:
        return forms.Process()
    return forms.Service(artefacts.NEW_PACKAGE, logs_to_file=True, restarts=False)
