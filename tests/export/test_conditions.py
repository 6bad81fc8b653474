"""One record when an input is missing for some time, one when it is back."""

from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.export.conditions import HOLD_S, Conditions, Input, Problem

PLUGIN = Problem(Input.PLUGIN, "no plugin runs")
NAMES = Problem(Input.POD_NAMES, "no names")


def names(records: list[Record]) -> list[tuple[str, object]]:
    return [(record.event, fields_of(record)["input"]) for record in records]


def test_a_lasting_problem_is_one_record() -> None:
    conditions = Conditions()
    assert list(conditions.update(5.0, [PLUGIN])) == []
    assert list(conditions.update(5.0 + HOLD_S - 0.1, [PLUGIN])) == []
    (record,) = conditions.update(5.0 + HOLD_S, [PLUGIN])
    assert record.event == "export_input_missing"
    assert fields_of(record) == {"input": "plugin", "cause": "no plugin runs"}
    other = Problem(Input.PLUGIN, "another text")
    assert list(conditions.update(1e6, [other])) == []
    assert names(list(conditions.update(1e6, []))) == [("export_input_restored", "plugin")]
    assert list(conditions.update(2e6, [])) == []


def test_a_short_problem_is_no_record() -> None:
    conditions = Conditions()
    assert list(conditions.update(0.0, [PLUGIN])) == []
    assert list(conditions.update(20.0, [])) == []
    assert list(conditions.update(40.0, [PLUGIN])) == []
    assert list(conditions.update(40.0 + HOLD_S - 1, [PLUGIN])) == []


def test_problems_are_independent() -> None:
    conditions = Conditions()
    list(conditions.update(0.0, [PLUGIN]))
    list(conditions.update(10.0, [PLUGIN, NAMES]))
    missing = "export_input_missing"
    assert names(list(conditions.update(HOLD_S, [PLUGIN, NAMES]))) == [(missing, "plugin")]
    assert names(list(conditions.update(HOLD_S + 10, [NAMES]))) == [
        ("export_input_restored", "plugin"),
        (missing, "pod_names"),
    ]
