"""The table at the end of a run: scenarios by versions, and the reasons of what did not pass.

Works on plain outcomes; knows nothing of pytest.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.conformance.catalog import COLUMNS, NOT_STAGED, SCENARIOS

# Where several tests stage one scenario, the worst of them counts.
_ORDER = ("FAIL", "XPASS", "xfail", "n/a", "pass")
_WIDTH = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test staged one scenario."""

    scenario: int
    column: str
    word: str
    """One of "pass", "n/a", "xfail", "XPASS", "FAIL"."""
    reason: str = ""


def lines(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the table's lines: one per scenario, "-" where nothing was staged, then notes."""
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
    table.append("     peer: staged by the Python peer; -: not staged with that side")
    table += [f"{number:3} not staged: {why}" for number, why in NOT_STAGED.items()]
    for (number, word, reason), columns in sorted(notes.items()):
        order = ", ".join(column for column in COLUMNS if column in columns)
        table.append(f"{number:3} {word} ({order}): {reason}")
    return table


def _worst(words: set[str]) -> str:
    # A scenario that passes in one test and does not apply in another has passed.
    words = words - {"n/a"} if "pass" in words else words
    return next((word for word in _ORDER if word in words), "-")
