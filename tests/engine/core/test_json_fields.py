"""Checked access to JSON."""

from collections.abc import Callable

import pytest

from nri_numamem.engine.core.json_fields import (
    SnapshotError,
    cut_text,
    field_of,
    flag_of,
    object_of,
    parsed,
)


def test_values_of_the_right_type_are_returned() -> None:
    assert parsed(b'{"a": 1}') == {"a": 1}
    assert object_of({"a": 1}, "x") == {"a": 1}
    assert field_of({"a": 1}, "a", int) == 1
    assert flag_of({"a": True}, "a")
    assert not flag_of({}, "a")
    assert cut_text("x" * 100) == repr("x" * 60)


def test_other_values_are_errors_of_one_line() -> None:
    calls: list[Callable[[], object]] = [
        lambda: parsed("{"),
        lambda: parsed("[" * 100_000),
        lambda: object_of([], "x"),
        lambda: field_of({"a": True}, "a", int),
        lambda: field_of({}, "a", str),
        lambda: flag_of({"a": 1}, "a"),
    ]
    for call in calls:
        with pytest.raises(SnapshotError) as error:
            call()
        assert "\n" not in str(error.value)
