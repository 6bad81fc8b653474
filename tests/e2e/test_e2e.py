"""One test per suite, phase and check of the virtual machines."""

import pytest

from tests.e2e.machine import SUITE
from tests.machines.runs import Report

# The first test waits for all machines, and for their images if they are not cached.
pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.parametrize("suite", SUITE.systems),
]
_BOTH_MODES = [
    pytest.param((f"launched-{setting}", f"external-{setting}"), id=f"both-{setting}")
    for setting in ("default", "hugetlb")
]


@pytest.mark.parametrize(("phase", "check"), SUITE.names)
def test_check(machine_report: Report, suite: str, phase: str, check: str) -> None:
    machine_report.expect(phase, check)


@pytest.mark.parametrize("phases", _BOTH_MODES)
def test_launched_equals_external(
    machine_report: Report, suite: str, phases: tuple[str, str]
) -> None:
    """Compare the placements of both modes in the same checks."""
    launched, external = (machine_report.placements.get(phase) for phase in phases)
    assert external, "no container was seen anywhere"
    assert external == launched


def test_run_is_complete(machine_report: Report, suite: str) -> None:
    assert not machine_report.error
