"""The shared cases: situations from the kubelet's own test tables and its documentation."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "cases"
CASES = [
    pytest.param(case, id=f"{path.stem}-{number}")
    for path in sorted(FOLDER.glob("*.json"))
    for number, case in enumerate(json.loads(path.read_text()))
]


def test_there_are_cases() -> None:
    assert len(CASES) > 80


@pytest.mark.parametrize("case", CASES)
def test_case(scenario: ModuleType, case: dict[str, Any]) -> None:
    runner = scenario.Runner(case["scenario"])
    expect = case["expect"]
    for step, want in zip(case["scenario"]["steps"], expect["steps"], strict=True):
        got = runner.run(step)
        if got["ok"] is False:
            assert 0 < len(got["error"]["message"]) <= 900
        if "hints" in want:
            assert (got["hints"] or {}) == (want["hints"] or {})
        for key in want.keys() & {"ok", "hint", "admit", "cpusetMems"}:
            assert got[key] == want[key]
    if "entries" in expect:
        assert runner.entries() == scenario.expected_entries(expect["entries"])
    if "machineState" in expect:
        assert runner.machine() == scenario.group_sums(expect["machineState"])
