"""Checked access to parsed JSON: one line names what is wrong with a value."""

import json
from collections.abc import Mapping
from typing import TypeAlias, TypeVar, cast

_SHOWN_CHARACTERS = 60

Json: TypeAlias = Mapping[str, object]
_T = TypeVar("_T")


class SnapshotError(ValueError):
    """Bytes that are not a snapshot of a known version; the text is one line."""


def cut_text(text: str) -> str:
    """Return a printable text of limited length."""
    return repr(text[:_SHOWN_CHARACTERS])


def parsed(text: bytes | str) -> object:
    """Return a parsed JSON text; raises SnapshotError."""
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"not JSON: {cut_text(str(error))}") from error


def object_of(value: object, name: str) -> Json:
    """Return a value that must be an object; raises SnapshotError with its name."""
    if not isinstance(value, dict):
        raise SnapshotError(f"{name}: not an object")
    return value


def field_of(place: Json, name: str, kind: type[_T]) -> _T:
    """Return a member of an object that must be of a type; raises SnapshotError."""
    value = place.get(name)
    if type(value) is not kind:  # a bool is no int here
        raise SnapshotError(f"{cut_text(name)}: missing, or not of type {kind.__name__}")
    return value


def flag_of(place: Json, name: str) -> bool:
    """Return whether an optional member is true; raises SnapshotError for another type."""
    return name in place and field_of(place, name, bool)
