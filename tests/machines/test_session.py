"""The plugin of pytest: which phases belong to the selected tests."""

import pytest

from tests.machines import session
from tests.machines.session import selected

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


class Collected:
    """Keeps the collected tests."""

    items: list[pytest.Item]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)


def collect(pytester: pytest.Pytester, *arguments: str) -> list[pytest.Item]:
    pytester.makepyfile(_MODULE)
    pytester.makeconftest(
        "from tests.machines import session\ndef pytest_configure(config): session.register(config)"
    )
    collected = Collected()
    root = str(session.__file__).rpartition("/tests/")[0]
    pytester.inline_run(
        "--collect-only",
        "-p",
        "no:randomly",
        "-o",
        f"pythonpath={root}",
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
