"""Records of any event for tests: with the fields that a test is about, and neutral other ones."""

import pkgutil
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import nri_numamem.engine.engine  # noqa: F401 - defines events
from nri_numamem.engine import features
from nri_numamem.engine.records import export, files, process  # noqa: F401 - as above
from nri_numamem.engine.records.record import EVENTS, OUTSIDE, Flat, Later, Record
from nri_numamem.numa import CpuSet, NodeSet
from nri_numamem.observe.history.records import record_from

for _feature in pkgutil.iter_modules(features.__path__):
    import_module(f"{features.__name__}.{_feature.name}.records")  # defines its events

__all__ = ["EVENTS", "example"]

_NEUTRAL: Mapping[object, object] = {
    str: "",
    int: 0,
    bool: False,
    NodeSet: "",
    CpuSet: "",
    NoneType: None,
    object: None,
}


def example(
    event: str,
    contents: Mapping[str, object] | None = None,
    *,
    alternate: bool = False,
    request_id: str = "",
) -> Record:
    """Return a record of an event with these contents, as in the log; others are neutral."""
    known = {**_neutral(EVENTS[event]), **(contents or {})}
    record = record_from(event, request_id, known)
    assert record is not None
    return replace(record, alternate=alternate)


def _neutral(kind: Any) -> dict[str, object]:  # noqa: ANN401 - any dataclass
    """Return a neutral value of each required field, as in the log."""
    found: dict[str, object] = {}
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        is_required = each.default is MISSING and each.default_factory is MISSING
        if each.name in OUTSIDE or not is_required:
            continue
        part = _first(hints[each.name])
        if isinstance(part, type) and issubclass(part, Flat):
            found |= _neutral(part)
        else:
            found[each.name] = _value(part)
    return found


def _first(hint: object) -> Any:  # noqa: ANN401 - as get_args
    if get_origin(hint) in (Annotated, Union, UnionType, Later):
        return _first(get_args(hint)[0])
    return hint


def _value(part: Any) -> object:  # noqa: ANN401 - as get_args
    origin = get_origin(part) or part
    if origin is Mapping:
        return {}
    if origin is tuple:
        return []
    return _neutral(part) if is_dataclass(part) else _NEUTRAL[origin]
