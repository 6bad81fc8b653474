"""Every scenario has a test or a reason for none, and the table shows the outcomes."""

import re
from pathlib import Path

from tests.conformance.catalog import NOT_TESTED, SCENARIOS
from tests.conformance.table import Outcome, lines

_MARK = re.compile(r"mark\.scenario\(([\d, ]+)\)")


def test_every_scenario_has_a_test_or_a_reason() -> None:
    tested: set[int] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for numbers in _MARK.findall(path.read_text()):
            tested.update(int(number) for number in numbers.split(","))
    assert set(SCENARIOS) == set(range(1, 75))
    assert tested | set(NOT_TESTED) == set(SCENARIOS)
    assert not tested & set(NOT_TESTED)


def test_a_cell_is_the_worst_outcome_of_its_tests() -> None:
    table = lines(
        [
            Outcome(3, "nri-0.3.0", "pass"),
            Outcome(3, "nri-0.3.0", "FAIL", "this test"),
            Outcome(3, "nri-0.6.1", "n/a", "other tests"),
            Outcome(3, "nri-0.6.1", "pass"),
            Outcome(3, "nri-0.8.0", "xfail", "not yet"),
            Outcome(3, "peer", "n/a", "needs Go"),
        ]
    )
    (row,) = (line for line in table if line.startswith("  3 ") and "layout of every frame" in line)
    assert row.split()[1:8] == ["FAIL", "pass", "xfail", "-", "-", "-", "n/a"]
    assert "  3 xfail (nri-0.8.0): not yet" in table
