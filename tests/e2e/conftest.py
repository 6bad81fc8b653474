"""Boot the suites of the selected tests in parallel, once per session."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import artefact_builds, runs
from tests.e2e.guest import checks

_REPORTS = pytest.StashKey[dict[str, runs.SuiteReport]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Print the tested versions and the durations."""
    for report in config.stash.get(_REPORTS, {}).values():
        terminalreporter.section(f"e2e {report.suite}")
        for line in report.summary:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def artefacts() -> dict[str, Path]:
    """Return name on the drive -> file: wheel, single file, and two versions of the package."""
    return artefact_builds.all_artefacts(runs.OUT)


@pytest.fixture(scope="session")
def reports(
    request: pytest.FixtureRequest, artefacts: dict[str, Path]
) -> dict[str, runs.SuiteReport]:
    """Boot the suites of the selected tests in parallel; return suite -> report.

    The guests run the phases of the selected tests, and all phases if no test of one is selected.
    """
    selected = [
        item.callspec.params for item in request.session.items if isinstance(item, pytest.Function)
    ]
    suites = sorted({str(parameters["suite"]) for parameters in selected})
    phases = {str(parameters["phase"]) for parameters in selected if "phase" in parameters}
    runs.OUT.mkdir(parents=True, exist_ok=True)
    drive = runs.write_drive(artefacts, phases or [phase.name for phase in checks.PHASES])
    with ThreadPoolExecutor(len(suites)) as pool:
        found = pool.map(lambda suite: runs.run(suite, drive), suites)
        reports = {report.suite: report for report in found}
    request.config.stash[_REPORTS] = reports
    return reports
