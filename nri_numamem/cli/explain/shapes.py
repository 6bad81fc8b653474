"""The types of the fields that ``explain`` reads from the history.

A line has a checksum, but another release or program may have written it. An entry whose fields
have other types, or numbers that cannot be shown, counts as a damaged line.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from nri_numamem.engine.core.providers import CPU, DEVICES, NETWORK
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MAX_BYTES, canonical_resource
from nri_numamem.observe.history.lines import Entry
from nri_numamem.observe.history.reader import History

_Check: TypeAlias = Callable[[object], bool]


def with_readable_entries(history: History) -> History:
    """Return the history without entries that cannot be shown; they count as skipped lines."""
    entries = tuple(entry for entry in history.entries if _is_readable(entry))
    skipped = len(history.entries) - len(entries)
    return History(entries, history.skipped_lines + skipped) if skipped else history


def _is_readable(entry: Entry) -> bool:
    fields = entry.fields
    return all(
        fields[name] is None or is_of(fields[name]) for name, is_of in _FIELDS if name in fields
    )


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_BYTES


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_nodes(value: object) -> bool:
    try:
        return isinstance(value, str) and NodeSet.parse(value) is not None
    except ValueError:
        return False


def _is_resource(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(canonical_resource(value))
    except ValueError:
        return False


def _list_of(is_of: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(is_of, value))


def _map_of(is_key: _Check, is_of: _Check) -> _Check:
    def check(value: object) -> bool:
        return isinstance(value, dict) and all(is_key(k) and is_of(v) for k, v in value.items())

    return check


def _object_with(checks: Mapping[str, _Check], *required: str) -> _Check:
    def check(value: object) -> bool:
        if not isinstance(value, dict) or any(name not in value for name in required):
            return False
        return all(is_of(value[name]) for name, is_of in checks.items() if name in value)

    return check


def _is_adjustment(value: object) -> bool:
    limits = value.get("hugepage_limits_bytes") if isinstance(value, dict) else ()
    return limits is None or _AMOUNTS(limits)


_AMOUNTS = _map_of(_is_resource, _is_size)
_BY_NODE = _map_of(_is_nodes, _AMOUNTS)
_BYTES_BY_NODE = _map_of(_is_nodes, _is_size)
_HINTS = {
    CPU: _is_nodes,
    DEVICES: _list_of(_is_nodes),
    NETWORK: _map_of(_is_text, _is_nodes),
}

_FIELDS: tuple[tuple[str, _Check], ...] = (
    ("request_bytes", _AMOUNTS),
    ("pod_request_bytes", _AMOUNTS),
    ("shortfall_bytes", _AMOUNTS),
    ("free_bytes", _BY_NODE),
    ("used_outside_of_pods_bytes", _BY_NODE),
    ("resident_bytes", _BYTES_BY_NODE),
    ("remote_bytes", _BYTES_BY_NODE),
    ("candidates", _list_of(_object_with({"nodes": _is_nodes}, "nodes"))),
    ("holders", _list_of(_object_with({"held_bytes": _AMOUNTS}, "held_bytes"))),
    ("remedies", _list_of(_object_with({"text": _is_text}, "text"))),
    ("hints", _object_with(_HINTS)),
    ("adjustment", _is_adjustment),
    ("away_ms", _is_size),
    ("repeat_count", _is_size),
)
