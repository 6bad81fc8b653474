"""Repeats of a phase that failed."""

from typing import Any, cast

from tests.machines.guest.attempts import run_with_retries
from tests.machines.guest.checks import Report
from tests.machines.guest.pauses import PauseDetector


class Records:
    """A report that keeps its records."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def write(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - any JSON value
        self.sent.append((kind, fields))


class Pauses:
    """Pauses of two processors in each run."""

    def __init__(self, *longest_s: float) -> None:
        self.longest = [0.0, *[each for seconds in longest_s for each in (seconds, 0.0)]]

    def longest_s(self) -> dict[int, float]:
        return {0: 0.0, 1: self.longest.pop(0)}


def run(outcomes: list[list[str]], *pauses_s: float) -> tuple[list[int], list[str], Records]:
    """Run a phase with these failures; return the attempts, the kinds of records, and these."""
    report, attempts = Records(), list[int]()

    def once(attempt: int) -> list[str]:
        attempts.append(attempt)
        return outcomes[attempt - 1]

    pauses = cast("PauseDetector", Pauses(*pauses_s))
    run_with_retries(cast("Report", report), "a", pauses, once)
    return attempts, [kind for kind, _ in report.sent], report


def test_a_phase_that_passes_runs_once() -> None:
    attempts, kinds, _ = run([[]], 9.0)
    assert (attempts, kinds) == ([1], ["begin", "pause", "end"])


def test_a_phase_that_fails_is_repeated_once() -> None:
    attempts, kinds, report = run([["c: why"], []], 0.0, 0.0)
    assert (attempts, kinds) == ([1, 2], ["begin", "pause", "repeated", "pause", "end"])
    assert report.sent[2][1] == {"phase": "a", "failures": ["c: why"]}


def test_a_phase_that_fails_twice_is_broken() -> None:
    attempts, kinds, report = run([["c: why"], ["d: why"]], 0.0, 0.0)
    assert attempts == [1, 2]
    assert kinds[-2:] == ["broken", "end"]
    assert report.sent[-2][1] == {"detail": "phase a: d: why"}


def test_a_phase_with_pauses_runs_three_times() -> None:
    attempts, _, _ = run([["c"], ["c"], ["c"]], 3.0, 3.5, 4.0)
    assert attempts == [1, 2, 3]
