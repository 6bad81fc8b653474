"""One test per suite, phase and check of the virtual machines that the fixture boots.

A check without a report fails with the reason for which the machine ended.
"""

import pytest

from tests.e2e.guest import catalog
from tests.e2e.runs import SuiteReport

SUITES = ("trixie", "sid")

# The first test waits for all machines, and for their images if they are not cached.
pytestmark = [pytest.mark.timeout(3000), pytest.mark.parametrize("suite", SUITES)]


@pytest.mark.parametrize(("phase", "check"), catalog.names())
def test_check(reports: dict[str, SuiteReport], suite: str, phase: str, check: str) -> None:
    report = reports[suite]
    record = report.checks.get((phase, check))
    assert record is not None, f"did not report: {report.error}"
    assert record["ok"], record["detail"]


def test_run_is_complete(reports: dict[str, SuiteReport], suite: str) -> None:
    assert not reports[suite].error
