"""Rows read and write fields, leave out what is not set, and describe their defaults."""

from dataclasses import dataclass
from enum import StrEnum

import pytest

from nri_numamem.config.setting import (
    BOOLEAN,
    NAMESPACES,
    Group,
    Kind,
    Setting,
    absolute_path,
    choice,
    choices,
    integer,
    listed,
    nullable,
    read_rows,
    write_rows,
)
from nri_numamem.config.values import SettingsError, SettingsPath


class Mode(StrEnum):
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True)
class Inner:
    mode: Mode = Mode.LOW
    size: int = 0


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    is_on: bool = False
    file: str | None = None
    address: str = ""


def check(path: SettingsPath, found: Inner) -> None:
    if found.size and found.mode is Mode.LOW:
        raise SettingsError(path, "a size of low", "remove it")


MEMBERS = (
    Setting("mode", "mode", choice(tuple(Mode), Mode), "Meaning."),
    Setting("size", "size", integer(0, 9), "Meaning.", is_shown=lambda owner: owner.size > 0),
)
ROWS = (
    Group("inner", MEMBERS, "inner", Inner, check),
    Group("options", (Setting("is-on", "is_on", BOOLEAN, "Meaning."),)),
    Setting("file", "file", absolute_path("/a"), "Meaning."),
    Setting("address", "address", Kind("text", lambda _, value: value), "Meaning."),
)
DOCUMENT = {
    "inner": {"mode": "high", "size": 3},
    "options": {"is-on": True},
    "file": "/b",
    "address": "c",
}


def test_rows_read_and_write() -> None:
    found = Outer(**read_rows((), DOCUMENT, ROWS))
    assert found == Outer(Inner(Mode.HIGH, 3), is_on=True, file="/b", address="c")
    assert write_rows(found, ROWS) == DOCUMENT


def test_what_is_not_set_is_neither_read_nor_written() -> None:
    assert read_rows((), None, ROWS) == read_rows((), dict.fromkeys(DOCUMENT), ROWS) == {}
    assert read_rows((), {"inner": {"mode": None}}, ROWS) == {"inner": Inner()}
    assert write_rows(Outer(), ROWS) == {
        "inner": {"mode": "low"},
        "options": {"is-on": False},
        "address": "",
    }
    empty = Group("files", (Setting("file", "file", absolute_path("/a"), "Meaning."),))
    assert write_rows(Outer(), (empty,)) == {}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"inner": {"size": 10}}, "inner.size: 10 is out of range; write a whole number from 0 to"),
        ({"inner": {"size": 1}}, "inner: a size of low; remove it"),
        ({"options": {"is-on": 7}, "inner": 1}, "options.is-on: 7 is not a boolean; write"),
        ({"inner": {"sizes": 1}}, "inner.sizes: unknown key; did you mean size? allowed: mode, s"),
        ({"options": {"is-on": 7}}, "options.is-on: 7 is not a boolean; write"),
        ({"fil": 1}, "fil: unknown key; did you mean file? allowed: inner, options, file, address"),
    ],
)
def test_errors_have_the_path_from_the_top(document: object, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_rows((), document, ROWS)
    assert str(caught.value).startswith(text)


def test_defaults_are_described_as_yaml() -> None:
    found = [(key, default) for row in ROWS for key, default, _ in row.described(Outer())]
    assert found == [
        ("inner.mode", "low"),
        ("inner.size", "0"),
        ("options.is-on", "false"),
        ("file", ""),
        ("address", '""'),
    ]
    quoted = Setting("address", "address", Kind("text", lambda _, value: value), "Meaning.")
    assert [default for _, default, _ in quoted.described(Outer(address="true"))] == ['"true"']


def test_kinds_of_lists() -> None:
    modes = choices(Mode, "mode")
    assert modes.read(("a",), ["high", "low", "high"]) == (Mode.LOW, Mode.HIGH)
    assert modes.write((Mode.LOW,)) == ["low"]
    assert modes.type == "list of `low`, `high`"
    assert NAMESPACES.read(("a",), ["x", "x"]) == ("x",)
    assert NAMESPACES.write(("x",)) == ["x"]
    for kind in (modes, NAMESPACES):
        assert (kind.write(()), kind.empty) == (None, "[]")
    with pytest.raises(SettingsError, match=r"^a\[1\]: no mode; write one of: low, high$"):
        modes.read(("a",), ["low", None])


def test_types_are_described() -> None:
    assert listed(["pack", "spread"]) == choice(("pack", "spread")).type == "`pack`, `spread`"
    assert integer(1, 9).type == "whole number from 1 to 9"
    assert integer(0, 9, ", at most 9").type == "whole number, at most 9"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "pattern": "x"}, {"type": ["string", "null"], "pattern": "x"}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"enum": ["a", False]}, {"enum": ["a", False, None]}),
    ],
)
def test_a_schema_that_accepts_null_too(schema: dict[str, object], expected: object) -> None:
    given = {**schema}
    assert nullable(schema) == expected
    assert schema == given
