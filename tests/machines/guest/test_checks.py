"""Checks of a phase; a list stands for the host."""

from typing import Any, cast

from tests.machines.guest.checks import Check, Phase, Report, expect, run_all


class Host:
    """Counts how often all pods are removed."""

    removals = 0

    def remove_all(self) -> None:
        self.removals += 1


class Records:
    """A report that keeps its records."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def write(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - any JSON value
        self.sent.append({"kind": kind, **fields})


def passes(_host: Host) -> str:
    return "facts"


def fails(_host: Host) -> str:
    expect(1 > 2, "one is not more than two")
    return ""


_PHASE = Phase(
    "a",
    (
        (Check("fails", fails), Check("passes", passes)),
        (Check("of_launched", fails, ("launched",)),),
    ),
)


def test_all_checks_of_the_mode_run() -> None:
    report, host = Records(), Host()
    (failure,) = run_all(cast("Report", report), _PHASE, host)
    assert [(each["name"], each["ok"]) for each in report.sent] == [
        ("fails", False),
        ("passes", True),
    ]
    assert failure.startswith("fails: AssertionError (checks.py:")
    assert failure.endswith("): one is not more than two")
    assert report.sent[1]["detail"] == "facts"
    assert host.removals == 2


def test_a_phase_has_the_checks_of_its_mode() -> None:
    assert [check.name for check in _PHASE.checks] == ["fails", "passes"]
    launched = Phase("b", _PHASE.scenarios, "launched")
    assert [check.name for check in launched.checks] == ["fails", "passes", "of_launched"]
