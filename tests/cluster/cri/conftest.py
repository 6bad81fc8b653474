"""Boot the machine with the phases of the selected tests, once per session."""

from typing import Any

import pytest

from tests.cluster.cri import machine
from tests.cluster.cri.guest import phases
from tests.e2e.runs import SuiteReport

_REPORT = pytest.StashKey[SuiteReport]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Print the tested versions and the durations."""
    report = config.stash.get(_REPORT, None)
    if report is not None:
        terminalreporter.section("cluster/cri")
        for line in report.summary:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> SuiteReport:
    """Run the phases of the selected tests, and all phases if no test of one is selected."""
    parameters = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]
    selected = {str(each["phase"]) for each in parameters if "phase" in each}
    names = [phase.name for phase in phases.PHASES]
    report = machine.run([name for name in names if name in selected] or names)
    request.config.stash[_REPORT] = report
    return report
