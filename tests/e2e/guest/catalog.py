"""Every check in the order in which it runs; both sides read it, the host's to miss none."""

from tests.e2e.guest import (
    scenarios_faults,
    scenarios_hugepages,
    scenarios_lifecycle,
    scenarios_placement,
)
from tests.e2e.guest.checks import PHASES, Phase, Scenario

SAME_PLACEMENTS = "launched_equals_external"

_SHORT = (
    scenarios_lifecycle.OPENING,
    scenarios_hugepages.HUGEPAGES,
    scenarios_lifecycle.CLOSING,
)
# containerd's hugetlb setting makes no difference to what stands between these, and that takes
# most of the time. The faults come last: after them a launched plugin is an external one.
_LONG = (
    scenarios_lifecycle.OPENING,
    scenarios_placement.ONE_NODE,
    scenarios_placement.PAIRS,
    scenarios_placement.OTHER_CLASSES,
    scenarios_hugepages.HUGEPAGES,
    scenarios_faults.FAULTS,
    scenarios_lifecycle.CLOSING,
)


def scenarios(phase: Phase) -> tuple[Scenario, ...]:
    """Give the scenarios of a phase in their order."""
    return _SHORT if phase.hugetlb else _LONG


def names() -> list[tuple[str, str]]:
    """List (phase, check) for everything that a complete run reports."""
    found = [
        (phase.name, check.name)
        for phase in PHASES
        for scenario in scenarios(phase)
        for check in scenario
        if phase.mode in check.modes
    ]
    return found + [(f"both-{setting}", SAME_PLACEMENTS) for setting in ("default", "hugetlb")]
