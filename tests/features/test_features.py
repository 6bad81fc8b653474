"""One test per phase and check of the virtual machine (see conftest.py).

A check without a report fails with the reason for which the machine ended.
"""

import pytest

from tests.e2e.runs import SuiteReport
from tests.features.guest import phases

# The first test waits for the machine, and for what is not cached.
pytestmark = pytest.mark.timeout(7200)

_CHECKS = [(phase.name, check.name) for phase in phases.PHASES for check in phase.checks]


@pytest.mark.parametrize(("phase", "check"), _CHECKS)
def test_check(machine_report: SuiteReport, phase: str, check: str) -> None:
    record = machine_report.checks.get((phase, check))
    assert record is not None, f"did not report: {machine_report.error}"
    assert record["ok"], record["detail"]


def test_run_is_complete(machine_report: SuiteReport) -> None:
    assert not machine_report.error
