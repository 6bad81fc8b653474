"""Makes dictionaries of records: texts, numbers, lists and mappings, as JSON has them.

Sets of nodes or CPUs become texts in the kernel's list format, and keys of mappings become texts.
``engine.records.record`` has the rules for what is left out.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

from nri_numamem.engine.records.record import OUTSIDE, Flat, Later, Record

_UNCHANGED = (str, int, float, bool, type(None))

_members: dict[type, tuple[tuple[str, object], ...]] = {}
"""Class -> name and default of its fields; MISSING for none."""


def fields_of(value: object) -> dict[str, Any]:
    """Return the fields of a record, or of another dataclass, by name in the order of its class."""
    kind = type(value)
    members = _members.get(kind) or _members.setdefault(kind, _members_of(kind))
    made: dict[str, Any] = {}
    for name, default in members:
        part = getattr(value, name)
        if isinstance(part, Later):
            part = part.value
        if default is not MISSING and part == default:
            continue
        if isinstance(part, Flat):
            made |= fields_of(part)
        else:
            made[name] = plain(part)
    return made


def plain(value: Any) -> Any:  # noqa: ANN401 - as json.dumps
    """Return a value of a field as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _UNCHANGED):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return fields_of(value) if is_dataclass(value) else str(value)


def _members_of(kind: Any) -> tuple[tuple[str, object], ...]:  # noqa: ANN401 - any dataclass
    found = []
    for each in fields(kind):
        if each.name in OUTSIDE and issubclass(kind, Record):
            continue
        factory = each.default_factory
        found.append((each.name, each.default if factory is MISSING else factory()))
    return tuple(found)
