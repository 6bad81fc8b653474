"""Reads the fields of an entry of the history into the class of its event.

A line has a checksum, but another release or program may have written it. Fields that the class
lacks are ignored; fields of another type, or required ones that are missing, are an error.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from nri_numamem.engine.features.burstable_pods import records as burstable_pods
from nri_numamem.engine.features.claims import records as claims
from nri_numamem.engine.features.cpu_following import records as cpu_following
from nri_numamem.engine.features.earmarks import records as earmarks
from nri_numamem.engine.features.memory_policies import records as memory_policies
from nri_numamem.engine.features.network_hints import records as network_hints
from nri_numamem.engine.features.partitions import records as partitions
from nri_numamem.engine.features.residency import records as residency
from nri_numamem.engine.records import connection, containers, cpus, machine, pods, process, running
from nri_numamem.engine.records.record import EVENTS, OUTSIDE, Flat, Later, Record
from nri_numamem.numa import CpuSet, NodeSet
from nri_numamem.numa.quantity import MAX_BYTES, canonical_resource
from nri_numamem.observe.history.lines import Entry

# The modules that define the events of the history.
MODULES = (
    *(containers, running, pods, machine, connection, process, cpus),
    *(burstable_pods, claims, cpu_following, earmarks, memory_policies, network_hints, partitions),
    residency,
)

_SETS: Mapping[type, Callable[[str], object]] = {NodeSet: NodeSet.parse, CpuSet: CpuSet.parse}
_BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Recorded:
    """An entry of the history with its record."""

    entry: Entry
    record: Record

    @property
    def time_s(self) -> float:
        """Unix time."""
        return self.entry.time_s


def read_records(entries: Iterable[Entry]) -> tuple[tuple[Recorded, ...], int]:
    """Return the entries with their records, and the number of those that cannot be read.

    Events of later releases are left out.
    """
    found, damaged = list[Recorded](), 0
    for entry in entries:
        try:
            record = record_from(entry.event, entry.request_id, entry.fields)
        except ValueError:
            damaged += 1
        else:
            found += () if record is None else (Recorded(entry, record),)
    return tuple(found), damaged


def record_from(event: str, request_id: str, contents: Mapping[str, Any]) -> Record | None:
    """Return the record of an event; None if this release does not have the event.

    Raises ValueError if the contents are not those of such a record.
    """
    kind = EVENTS.get(event)
    return None if kind is None else read(kind, contents, request_id=request_id)


def read(kind: Any, contents: Mapping[str, Any], **more: object) -> Any:  # noqa: ANN401 - its instance
    """Return an instance of a dataclass; ValueError if the contents do not fit."""
    values = dict(more)
    for each in fields(kind):
        if each.name in OUTSIDE and issubclass(kind, Record):
            continue
        hint = _hints(kind)[each.name]
        is_optional = each.default is not MISSING or each.default_factory is not MISSING
        flat = tuple(part for part in _parts(hint) if _is_flat(part))
        if flat:
            found = _first_that_fits(flat, contents)
            if found is not None:
                is_later = get_origin(hint) is Later
                values[each.name] = Later.of(found) if is_later else found
            elif not is_optional:
                raise ValueError(f"no {each.name}")
        elif each.name in contents:
            values[each.name] = _value(each.name, hint, contents[each.name])
        elif not is_optional:
            raise ValueError(f"no field {each.name}")
    return kind(**values)


def _first_that_fits(kinds: Iterable[type], contents: Mapping[str, Any]) -> object:
    for kind in kinds:
        try:
            return read(kind, contents)
        except ValueError:
            continue
    return None


@cache
def _hints(kind: type) -> Mapping[str, object]:
    return get_type_hints(kind, include_extras=True)


def _parts(hint: object) -> tuple[Any, ...]:
    """Return the types of a union, or the one type, without their meanings."""
    if get_origin(hint) is Annotated:
        return _parts(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType, Later):
        return tuple(part for each in get_args(hint) for part in _parts(each))
    return (hint,)


def _is_flat(part: object) -> bool:
    return isinstance(part, type) and issubclass(part, Flat)


def _value(name: str, hint: object, value: object) -> object:
    """Return a value of a field; ValueError if none of the field's types fits."""
    parts = _parts(hint)
    if value is None and NoneType in parts:
        return None
    for part in parts:
        try:
            return _one(name, part, value)
        except (TypeError, ValueError):
            continue
    raise ValueError(f"{name} has another type")


def _one(name: str, part: Any, value: Any) -> object:  # noqa: ANN401 - as get_type_hints and json
    """Return a value of one type; TypeError or ValueError if it has another one."""
    origin = get_origin(part) or part
    if origin is object:
        return value
    if origin in _SETS and isinstance(value, str):
        return _SETS[origin](value)
    if origin is int and type(value) is int and abs(value) <= MAX_BYTES:
        return value
    if origin in (str, bool) and type(value) is origin:
        return value
    if origin is Mapping and isinstance(value, dict):
        key, of = get_args(part)
        if name.endswith(_BYTES) and (key, of) == (str, int):
            value = {canonical_resource(each): _size(size) for each, size in value.items()}
        return {key(each): _value(name, of, inner) for each, inner in value.items()}
    if origin is tuple and isinstance(value, list):
        return tuple(_value(name, get_args(part)[0], inner) for inner in value)
    if is_dataclass(origin) and isinstance(value, dict):
        return read(origin, value)
    raise TypeError(f"{name} is not of type {part}")


def _size(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_BYTES:
        raise ValueError(f"{value!r} is not a number of bytes")
    return value
