"""All checks in their order; the guest runs them, and the host expects a report of each."""

from tests.e2e.guest import (
    scenarios_doctor,
    scenarios_explain,
    scenarios_faults,
    scenarios_hugepages,
    scenarios_lifecycle,
    scenarios_nodes,
    scenarios_package,
    scenarios_placement,
    scenarios_reset,
    scenarios_starting,
    scenarios_status,
)
from tests.e2e.guest.checks import PHASES, Phase, Scenario

SAME_PLACEMENTS = "launched_equals_external"

_SHORT = (
    scenarios_lifecycle.OPENING,
    scenarios_hugepages.HUGEPAGES,
    scenarios_lifecycle.CLOSING,
)
# The scenarios that _SHORT omits do not depend on containerd's hugetlb setting, and take most of
# the time. The faults come last: after them a launched plugin is connected as an external one.
_LONG = (
    scenarios_lifecycle.OPENING,
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
    scenarios_lifecycle.CLOSING,
)


def scenarios(phase: Phase) -> tuple[Scenario, ...]:
    """Return the scenarios of a phase in their order."""
    if phase.is_package:
        return (scenarios_package.PACKAGE,)
    return _SHORT if phase.hugetlb else _LONG


def names() -> list[tuple[str, str]]:
    """Return (phase, check) of every report of a complete run."""
    found = [
        (phase.name, check.name)
        for phase in PHASES
        for scenario in scenarios(phase)
        for check in scenario
        if phase.mode in check.modes
    ]
    return found + [(f"both-{setting}", SAME_PLACEMENTS) for setting in ("default", "hugetlb")]
