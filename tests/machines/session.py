"""A plugin of pytest that runs the machines of the selected tests, beside other tests.

A module of tests names its machines in SUITE. Its tests have the fixture `machine_report`; those
of one of several systems have the parameter `suite`, and those of a phase `phase`, or `phases` if
they need several. Phases to which no selected test belongs do not run. The machines of one module
run at once, and modules one after the other in a thread of their own.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.machines import plan, vm
from tests.machines.progress import past_capture
from tests.machines.runs import Report
from tests.machines.suite import Suite, run

_NAME = "machines"
_FIXTURE = "machine_report"


def register(config: pytest.Config) -> None:
    """Register the plugin, unless another folder's conftest.py has done it."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(_Machines(), _NAME)


class _Machines:
    """The machines of a session."""

    def __init__(self) -> None:
        self._reports: dict[str, Future[dict[str, Report]]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Let the tests that wait for a machine be the last ones."""
        items.sort(key=lambda item: suite_of(item) is not None)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start the machines of the selected tests."""
        chosen = selected(session.items)
        if session.config.option.collectonly or not chosen:
            return
        progress = past_capture()
        suites = {each.name: each for each in _suites(session.items)}
        counts = {
            name: len(suites[name].ordered(phase for each in systems.values() for phase in each))
            for name, systems in chosen.items()
        }
        for line in plan.lines([suites[name] for name in chosen], counts):
            progress.line(line)
        executor = ThreadPoolExecutor(max_workers=1)
        for name, phases in chosen.items():
            self._reports[name] = executor.submit(run, suites[name], phases, progress)
        executor.submit(progress.close)  # by the same thread, after the last suite
        executor.shutdown(wait=False)

    def pytest_sessionfinish(self) -> None:
        """End machines that still run, after an interrupt."""
        if not all(report.done() for report in self._reports.values()):
            vm.stop_all()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401
        """Print the tested versions and the durations."""
        for name, future in self._reports.items():
            if future.done() and future.exception() is None:
                for system, report in future.result().items():
                    terminalreporter.section(f"{name} {system}")
                    for line in report.summary:
                        terminalreporter.write_line(line)

    @pytest.fixture(name=_FIXTURE)
    def machine_report(self, request: pytest.FixtureRequest) -> Report:
        """Return the report of the test's machine, when it has ended."""
        suite = suite_of(request.node)
        assert suite is not None
        return self._reports[suite.name].result()[_system_of(request.node, suite)]


def suite_of(item: pytest.Item) -> Suite | None:
    """Return the suite of a test that waits for a machine."""
    if not isinstance(item, pytest.Function) or _FIXTURE not in item.fixturenames:
        return None
    suite: Suite = item.module.SUITE
    return suite


def selected(items: list[pytest.Item]) -> dict[str, dict[str, set[str]]]:
    """Return suite -> system -> phases of the tests, none if no test belongs to one."""
    found: dict[str, dict[str, set[str]]] = {}
    for item in items:
        if suite := suite_of(item):
            phases = found.setdefault(suite.name, {}).setdefault(_system_of(item, suite), set())
            phases |= {*_parameters(item).get("phases", ())}
            phases |= {*filter(None, [_parameters(item).get("phase")])}
    return found


def _system_of(item: pytest.Item, suite: Suite) -> str:
    system: str = _parameters(item).get("suite", suite.systems[0])
    return system


def _parameters(item: pytest.Item) -> dict[str, Any]:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return {}
    return item.callspec.params


def _suites(items: list[pytest.Item]) -> Iterator[Suite]:
    for item in items:
        if suite := suite_of(item):
            yield suite
