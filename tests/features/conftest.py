"""Boot the machine with the phases of the selected tests, once per session."""

from typing import Any

import pytest

from tests.cluster import boot
from tests.e2e.runs import SuiteReport
from tests.features import machine
from tests.features.guest import phases

_REPORT = pytest.StashKey[SuiteReport]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Print the tested versions and the durations."""
    if report := config.stash.get(_REPORT, None):
        terminalreporter.section("features")
        for line in report.summary:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def machine_report(request: pytest.FixtureRequest) -> SuiteReport:
    """Return the report of the machine, which has ended."""
    names = [phase.name for phase in phases.PHASES]
    report = machine.run(boot.selected_phases(request.session.items, names))
    request.config.stash[_REPORT] = report
    return report
