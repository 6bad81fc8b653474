"""The catalogue is whole: every scenario is staged or says why not, and the table tells."""

import re
from pathlib import Path

from tests.conformance.catalog import NOT_STAGED, SCENARIOS
from tests.conformance.table import Outcome, lines

_MARK = re.compile(r"mark\.scenario\(([\d, ]+)\)")


def test_every_scenario_is_staged_or_explained() -> None:
    staged: set[int] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for numbers in _MARK.findall(path.read_text()):
            staged.update(int(number) for number in numbers.split(","))
    assert set(SCENARIOS) == set(range(1, 71))
    assert staged | set(NOT_STAGED) == set(SCENARIOS)
    assert not staged & set(NOT_STAGED)


def test_the_worst_of_a_scenarios_tests_counts() -> None:
    table = lines(
        [
            Outcome(3, "nri-0.3.0", "pass"),
            Outcome(3, "nri-0.3.0", "FAIL", "this test"),
            Outcome(3, "nri-0.6.1", "n/a", "another way"),
            Outcome(3, "nri-0.6.1", "pass"),
            Outcome(3, "nri-0.8.0", "xfail", "not yet"),
            Outcome(3, "peer", "n/a", "needs Go"),
        ]
    )
    (row,) = (line for line in table if line.startswith("  3 ") and "every frame" in line)
    assert row.split()[1:7] == ["FAIL", "pass", "xfail", "-", "-", "n/a"]
    assert "  3 xfail (nri-0.8.0): not yet" in table
