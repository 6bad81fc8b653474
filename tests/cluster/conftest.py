"""Boot the machines with the phases of the selected tests, beside the tests that need no machine.

The machines run one after the other in a thread of their own: each needs a processor. Tests of a
machine have the fixture `machine_report`, and come last.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.cluster import boot, machine
from tests.cluster.cri import machine as cri_machine
from tests.cluster.cri.guest import phases as cri_phases
from tests.cluster.guest import catalog
from tests.e2e.runs import SuiteReport

_Boot = Callable[[Sequence[str]], SuiteReport]
# Folder of the tests -> how its machine is booted, and the names of all its phases.
_MACHINES: dict[str, tuple[_Boot, list[str]]] = {
    "cri": (cri_machine.run, [phase.name for phase in cri_phases.PHASES]),
    "cluster": (machine.run, [phase.name for phase in catalog.PHASES]),
}
_FIXTURE = "machine_report"
_REPORTS = pytest.StashKey[dict[str, Future[SuiteReport]]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests that wait for a machine be the last ones."""
    items.sort(key=_needs_machine)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the machines of the selected tests."""
    if session.config.option.collectonly:
        return
    reports = {}
    executor = ThreadPoolExecutor(max_workers=1)
    for folder, (run, names) in _MACHINES.items():
        items = [i for i in session.items if _needs_machine(i) and i.path.parent.name == folder]
        if items:
            reports[folder] = executor.submit(run, boot.selected_phases(items, names))
    session.config.stash[_REPORTS] = reports
    executor.shutdown(wait=False)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Print the tested versions and the durations."""
    for folder, report in config.stash.get(_REPORTS, {}).items():
        if report.done() and report.exception() is None:
            terminalreporter.section(folder)
            for line in report.result().summary:
                terminalreporter.write_line(line)


@pytest.fixture(scope="module", name=_FIXTURE)
def _machine_report(request: pytest.FixtureRequest) -> SuiteReport:
    """Return the report of the machine of the test's folder, when it has ended."""
    return request.config.stash[_REPORTS][request.path.parent.name].result()


def _needs_machine(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and _FIXTURE in item.fixturenames
