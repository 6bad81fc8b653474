"""Boot the machine with the phases of the selected tests, once per session."""

from typing import Any

import pytest

from tests.cluster import boot, machine
from tests.cluster.guest import catalog
from tests.e2e.runs import SuiteReport

_REPORT = pytest.StashKey[SuiteReport]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Print the tested versions and the durations."""
    boot.print_summary(terminalreporter, "cluster", config.stash.get(_REPORT, None))


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> SuiteReport:
    """Run the phases of the selected tests, and all phases if no test of one is selected."""
    names = [phase.name for phase in catalog.PHASES]
    report = machine.run(boot.selected_phases(request.session, names))
    request.config.stash[_REPORT] = report
    return report
