import pytest

from nri_numamem.kubelet.go_values import (
    INT,
    STRING,
    UINT64,
    CheckpointError,
    Field,
    Kind,
    ListOf,
    MapOf,
    PointerTo,
    Struct,
    Value,
    hashed_text,
    json_text,
    read,
    shown,
)

POINT = Struct((Field("X", "x", INT, "int"), Field("Name", "name", STRING, "string")))


@pytest.mark.parametrize(
    ("kind", "document", "value", "hashed", "written"),
    [
        (INT, -1, -1, "-1", "-1"),
        (INT, None, 0, "0", "0"),
        (STRING, None, "", "", '""'),
        (STRING, "a b", "a b", "a b", '"a b"'),
        (ListOf(INT), None, None, "<nil>", "null"),
        (ListOf(INT), [], [], "[]", "[]"),
        (ListOf(INT), [2, 1], [2, 1], "[2 1]", "[2,1]"),
        (MapOf(INT), None, None, "<nil>", "null"),
        (MapOf(INT), {"b": 1, "a": 2}, {"b": 1, "a": 2}, "map[a:2 b:1]", '{"a":2,"b":1}'),
        (
            MapOf(INT, has_integer_keys=True),
            {"10": 1, "9": 2},
            {10: 1, 9: 2},
            "map[9:2 10:1]",
            '{"10":1,"9":2}',
        ),
        (PointerTo(POINT), None, None, "<nil>", "null"),
        (
            PointerTo(POINT),
            {"x": 5, "other": []},
            {"x": 5, "name": ""},
            "<*>{X:(int)5 Name:(string)}",
            '{"x":5,"name":""}',
        ),
        (
            ListOf(POINT),
            [None],
            [{"x": 0, "name": ""}],
            "[{X:(int)0 Name:(string)}]",
            '[{"x":0,"name":""}]',
        ),
    ],
)
def test_go_values(kind: Kind, document: object, value: Value, hashed: str, written: str) -> None:
    assert read(kind, document, "here") == value
    assert hashed_text(kind, value) == hashed
    assert json_text(kind, value) == written


@pytest.mark.parametrize(
    ("kind", "document", "problem"),
    [
        (INT, True, "here: true instead of a number"),
        (INT, 1.0, "here: 1.0 instead of a number"),
        (INT, 2**63, f"here: {2**63} instead of a number"),
        (UINT64, -1, "here: -1 instead of a number"),
        (STRING, [], "here: a list instead of a text"),
        (ListOf(INT), [0, {}], "here[1]: an object instead of a number"),
        (MapOf(INT), {"k\n": "v" * 100}, f"here.'k\\n': \"{'v' * 56}... instead of a number"),
    ],
)
def test_values_that_go_does_not_decode(kind: Kind, document: object, problem: str) -> None:
    with pytest.raises(CheckpointError) as failed:
        read(kind, document, "here")
    assert str(failed.value) == problem


def test_maps_may_start_empty() -> None:
    kind = MapOf(INT)
    struct = Struct(
        (
            Field("A", "a", kind, "m", starts_empty=True, omit_empty=True),
            Field("B", "b", kind, "m"),
        )
    )
    value = read(struct, {}, "")
    assert value == {"a": {}, "b": None}
    assert hashed_text(struct, value) == "{A:(m)map[] B:(m)<nil>}"
    assert json_text(struct, value) == '{"b":null}'


def test_keys_are_shown_on_one_short_line() -> None:
    assert shown("plain") == "plain"
    assert shown("a\nb") == "'a\\nb'"
    assert len(shown("x" * 1000)) == 60
