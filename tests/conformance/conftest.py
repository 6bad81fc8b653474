"""Fixtures of the conformance tests: a bench per NRI version, and the table at the end."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import catalog, table
from tests.conformance.bench import Bench
from tests.simulated_host import SimulatedHost

_OUTCOMES = pytest.StashKey[list[table.Outcome]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--column", choices=catalog.COLUMNS, help="only this column of the table")
    parser.addoption("--outcomes", type=Path, help="a file for the table's cells, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "scenario(*numbers): the scenarios of a test")
    config.stash[_OUTCOMES] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with the argument `version` for every version."""
    if "version" in metafunc.fixturenames:
        metafunc.parametrize("version", catalog.GO_VERSIONS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other columns; run.py runs them in other processes."""
    column = config.getoption("--column")
    if column is not None:
        config.hook.pytest_deselected(items=[item for item in items if _column(item) != column])
        items[:] = [item for item in items if _column(item) == column]


def _column(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return catalog.PEER if callspec is None else callspec.params.get("version", catalog.PEER)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when != "call" and report.passed:
        return
    column = _column(item)
    word, reason = _word(report)
    for mark in item.iter_markers("scenario"):
        for number in mark.args:
            found = table.Outcome(number, column, word, reason)
            item.config.stash[_OUTCOMES].append(found)


def _word(report: pytest.TestReport) -> tuple[str, str]:
    xfail = getattr(report, "wasxfail", None)
    if report.skipped:
        if xfail is not None:
            return "xfail", str(xfail).removeprefix("reason: ")
        assert isinstance(report.longrepr, tuple)
        return "n/a", report.longrepr[2].removeprefix("Skipped: ")
    if report.passed:
        return "pass", ""
    return ("XPASS" if "[XPASS(strict)]" in str(report.longrepr) else "FAIL"), report.nodeid


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Print the table, or write its cells to the file of --outcomes."""
    outcomes = config.stash[_OUTCOMES]
    path = config.getoption("--outcomes")
    if path is not None:
        path.write_text(json.dumps([asdict(outcome) for outcome in outcomes]))
    elif outcomes:
        terminalreporter.section("conformance: scenarios by NRI version")
        for line in table.lines(outcomes):
            terminalreporter.write_line(line)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SimulatedHost]:
    """Yield a simulated host without a runtime."""
    host = SimulatedHost(tmp_path)
    yield host
    host.close()


@pytest.fixture(scope="session")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Bench]]:
    """Yield a function that returns the session's bench of a version."""
    running: dict[str, Bench] = {}
    with ExitStack() as stack:

        def bench(version: str) -> Bench:
            if version not in running:
                root = tmp_path_factory.mktemp(version)
                running[version] = stack.enter_context(Bench(version, root)).connected()
            return running[version]

        yield bench


@pytest.fixture
def live(benches: Callable[[str], Bench], version: str) -> Iterator[Bench]:
    """Yield a connected bench that tests share; a test must remove its pods and containers."""
    bench = benches(version)
    yield bench
    bench.check_always()
    assert bench.entries() == {}, "the scenario left assignments"
    assert len(bench.proxy.connections) == 1, "the connection did not survive"
    assert not bench.host.records("internal_error")


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Return a function that makes unique names."""
    return lambda name: f"{name}-{next(_NUMBERS)}"


_NUMBERS = itertools.count()
