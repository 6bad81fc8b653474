"""The plugin of pytest: which phases belong to the selected tests."""

import io

import pytest

from tests.machines import session
from tests.machines.progress import Progress
from tests.machines.runs import Report
from tests.machines.session import selected
from tests.simulated_host import wait_for

pytest_plugins = ["pytester"]

_MODULE = """
import pytest
from tests.e2e.machine import SUITE
@pytest.mark.parametrize("suite", SUITE.systems)
@pytest.mark.parametrize("phase", ["package", "external-default"])
def test_phase(machine_report, suite, phase): pass
@pytest.mark.parametrize("suite", ["sid"])
@pytest.mark.parametrize("phases", [("launched-default", "external-default")])
def test_both(machine_report, suite, phases): pass
@pytest.mark.parametrize("suite", ["trixie"])
def test_all(machine_report, suite): pass
def test_other(): pass
"""

_CONFTEST = (
    "from tests.machines import session\ndef pytest_configure(config): session.register(config)"
)
_ROOT = str(session.__file__).rpartition("/tests/")[0]


class Collected:
    """Keeps the collected tests."""

    items: list[pytest.Item]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)


def collect(pytester: pytest.Pytester, *arguments: str) -> list[pytest.Item]:
    pytester.makepyfile(_MODULE)
    pytester.makeconftest(_CONFTEST)
    collected = Collected()
    pytester.inline_run(
        "--collect-only",
        "-p",
        "no:randomly",
        "-o",
        f"pythonpath={_ROOT}",
        *arguments,
        plugins=[collected],
    )
    return collected.items


def test_phases_of_the_selected_tests_run(pytester: pytest.Pytester) -> None:
    assert selected(collect(pytester, "-k", "package")) == {
        "e2e": {"trixie": {"package"}, "sid": {"package"}}
    }
    assert selected(collect(pytester, "-k", "both")) == {
        "e2e": {"sid": {"launched-default", "external-default"}}
    }
    assert selected(collect(pytester, "-k", "all")) == {"e2e": {"trixie": set()}}
    assert selected(collect(pytester, "-k", "other")) == {}


def test_tests_that_wait_for_a_machine_come_last(pytester: pytest.Pytester) -> None:
    names = [item.name for item in collect(pytester)]
    assert names[0] == "test_other"
    assert len(names) == 7


def test_the_stream_of_the_progress_lines_is_closed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(session, "past_capture", lambda: Progress(stream))
    monkeypatch.setattr(
        session, "run", lambda _suite, systems, _progress: {each: Report("") for each in systems}
    )
    lines: list[str] = []
    monkeypatch.setattr(Progress, "line", lambda _progress, text: lines.append(text))
    pytester.makepyfile(_MODULE)
    pytester.makeconftest(_CONFTEST)
    ran = pytester.inline_run("-p", "no:randomly", "-o", f"pythonpath={_ROOT}")
    assert ran.countoutcomes() == [7, 0, 0]
    assert lines
    wait_for(lambda: stream.closed, "the close of the stream")
