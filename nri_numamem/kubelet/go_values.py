"""Go values of the kubelet's state file: decode JSON, print for the checksum, encode JSON.

A ``Kind`` describes a Go type as far as the file needs it. ``read`` decodes a value as
encoding/json does, ``hashed_text`` prints the text over which the kubelet computes its checksum
(go-spew's `%#v`), and ``json_text`` encodes as encoding/json does. A nil map or slice differs from
an empty one in Go, so None and empty are different values here. ``state_layout`` lists the types of
the file.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

INT64_LIMIT = 2**63
UINT64_LIMIT = 2**64

# The kernel's largest node id has four digits; Go would read any int64 as a key.
_INTEGER_KEY = re.compile(r"\d{1,4}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN_CHARACTERS = 60

# encoding/json escapes these for HTML and JavaScript.
_ESCAPED = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


class CheckpointError(ValueError):
    """A state file is invalid; the text is one line that names the place."""


@dataclass(frozen=True, slots=True)
class Number:
    """An integer type with the range least <= value < limit."""

    least: int
    limit: int


@dataclass(frozen=True, slots=True)
class String:
    """A string type."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A slice; its value is a list, or None for nil."""

    element: "Kind"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map; its value is a dict, or None for nil."""

    element: "Kind"
    has_integer_keys: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    key: str
    """The field's name in JSON."""
    kind: "Kind"
    type_name: str
    """The type as go-spew prints it."""
    omit_empty: bool = False
    starts_empty: bool = False
    """Whether Go makes the map before decoding, so that a missing key leaves it empty, not nil."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct; its value is a dict with the JSON keys of all fields."""

    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class PointerTo:
    """A pointer to a struct; its value is that of the struct, or None for nil."""

    struct: Struct


Kind: TypeAlias = Number | String | ListOf | MapOf | Struct | PointerTo
Value: TypeAlias = Any
"""An int, a str, a list, a dict or None, depending on the kind."""

INT = Number(-INT64_LIMIT, INT64_LIMIT)
UINT64 = Number(0, UINT64_LIMIT)
STRING = String()


def read(kind: Kind, value: object, place: str) -> Value:
    """Return the Go value of parsed JSON; unknown keys are ignored, as in Go.

    Raises CheckpointError with the place.
    """
    if value is None:
        return _zero(kind)
    match kind:
        case Number(least, limit):
            if type(value) is not int or not least <= value < limit:
                raise _wrong(place, value, "a number")
            return value
        case String():
            if not isinstance(value, str):
                raise _wrong(place, value, "a text")
            return _decoded(value)
        case ListOf(element):
            if not isinstance(value, list):
                raise _wrong(place, value, "a list")
            return [read(element, each, f"{place}[{i}]") for i, each in enumerate(value)]
        case MapOf():
            return _read_map(kind, _mapping(value, place), place)
        case Struct(fields):
            return _read_struct(fields, _mapping(value, place), place)
    return read(kind.struct, value, place)


def _read_map(kind: MapOf, value: Mapping[str, object], place: str) -> dict[Value, Value]:
    read_key = _integer_key if kind.has_integer_keys else _text_key
    return {
        read_key(key, place): read(kind.element, each, f"{place}.{shown(key)}")
        for key, each in value.items()
    }


def _read_struct(
    fields: tuple[Field, ...], value: Mapping[str, object], place: str
) -> dict[str, Value]:
    return {
        field.key: read(field.kind, value[field.key], f"{place}.{field.key}".lstrip("."))
        if field.key in value
        else {}
        if field.starts_empty
        else _zero(field.kind)
        for field in fields
    }


def _zero(kind: Kind) -> Value:
    match kind:
        case Number():
            return 0
        case String():
            return ""
        case Struct(fields):
            return {field.key: _zero(field.kind) for field in fields}
    return None


def _mapping(value: object, place: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    raise _wrong(place, value, "an object")


def _wrong(place: str, value: object, expected: str) -> CheckpointError:
    return CheckpointError(f"{place}: {_show(value)} instead of {expected}")


def _integer_key(key: str, place: str) -> int:
    if _INTEGER_KEY.fullmatch(key) is None:
        raise CheckpointError(f"{place}: {shown(key)} is not the id of a NUMA node")
    return int(key)


def _text_key(key: str, _place: str) -> str:
    return _decoded(key)


def _decoded(text: str) -> str:
    """Return a text as Go decodes it: a lone surrogate becomes the replacement character."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _show(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return _cut(json.dumps(value))


def shown(key: str) -> str:
    """Return a key as text of one short line."""
    return _cut(key if key.isprintable() else ascii(key))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def hashed_text(kind: Kind, value: Value) -> str:
    """Return the text that go-spew prints with `%#v`, sorted keys and disabled methods.

    Only fields of structs have types in the text; strings have no quotes.
    """
    if value is None:
        return "<nil>"
    match kind:
        case Number() | String():
            return str(value)
        case ListOf(element):
            return f"[{' '.join(hashed_text(element, each) for each in value)}]"
        case MapOf(element):
            pairs = (f"{key}:{hashed_text(element, value[key])}" for key in sorted(value))
            return f"map[{' '.join(pairs)}]"
        case Struct(fields):
            parts = (
                f"{field.name}:({field.type_name}){hashed_text(field.kind, value[field.key])}"
                for field in fields
            )
            return f"{{{' '.join(parts)}}}"
    return f"<*>{hashed_text(kind.struct, value)}"


def json_text(kind: Kind, value: Value) -> str:
    """Return the text that encoding/json writes: no blanks, map keys sorted as strings."""
    if value is None:
        return "null"
    match kind:
        case Number():
            return str(value)
        case String():
            return json.dumps(value, ensure_ascii=False).translate(_ESCAPED)
        case ListOf(element):
            return f"[{','.join(json_text(element, each) for each in value)}]"
        case MapOf(element):
            texts = sorted((str(key), json_text(element, each)) for key, each in value.items())
            return _object(texts)
        case Struct(fields):
            return _object(
                (field.key, json_text(field.kind, value[field.key]))
                for field in fields
                if value[field.key] or not field.omit_empty
            )
    return json_text(kind.struct, value)


def _object(pairs: Iterable[tuple[str, str]]) -> str:
    return f"{{{','.join(f'{json_text(STRING, key)}:{text}' for key, text in pairs)}}}"
