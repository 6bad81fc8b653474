"""The table of a run: scenarios by versions, and the reasons of cells other than "pass".

It works on plain outcomes, without pytest.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.conformance.catalog import COLUMNS, NOT_TESTED, SCENARIOS

# The cell of a scenario with several tests is the worst outcome.
_ORDER = ("FAIL", "XPASS", "xfail", "n/a", "pass")
_WIDTH = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one test for one scenario."""

    scenario: int
    column: str
    word: str
    """One of "pass", "n/a", "xfail", "XPASS", "FAIL"."""
    reason: str = ""


def lines(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the table's lines: one per scenario, "-" in cells without a test, then notes."""
    words: dict[tuple[int, str], set[str]] = {}
    notes: dict[tuple[int, str, str], list[str]] = {}
    for outcome in outcomes:
        words.setdefault((outcome.scenario, outcome.column), set()).add(outcome.word)
        if outcome.reason:
            key = (outcome.scenario, outcome.word, outcome.reason)
            columns = notes.setdefault(key, [])
            if outcome.column not in columns:
                columns.append(outcome.column)
    heads = " ".join(column.removeprefix("nri-").rjust(_WIDTH) for column in COLUMNS)
    table = [f" no {heads}  scenario"]
    for number, title in SCENARIOS.items():
        cells = " ".join(
            _worst(words.get((number, column), set())).rjust(_WIDTH) for column in COLUMNS
        )
        table.append(f"{number:3} {cells}  {title}")
    table.append("     peer: with a Python peer; -: no test in that column")
    table += [f"{number:3} not tested: {why}" for number, why in NOT_TESTED.items()]
    for (number, word, reason), columns in sorted(notes.items()):
        order = ", ".join(column for column in COLUMNS if column in columns)
        table.append(f"{number:3} {word} ({order}): {reason}")
    return table


def _worst(words: set[str]) -> str:
    # A scenario passes if one test passes and the others do not apply.
    words = words - {"n/a"} if "pass" in words else words
    return next((word for word in _ORDER if word in words), "-")
