"""Turn a log record into text: a JSON line for machines, an aligned line for people.

A record is a mapping with ``ts``, ``level`` and ``event`` first, then the fields, then perhaps
``exception`` with a traceback. Any value may be in a field, so rendering never fails: what JSON
cannot hold becomes text. Text meant for a terminal cannot carry control characters, since names
in it come from pods.
"""

import json
from collections.abc import Callable, Mapping

from nri_numamem.memorymanager.quantity import humanize_bytes, is_memory_resource

Record = Mapping[str, object]
Renderer = Callable[[Record], str]

# Keys that a renderer places itself.
HEAD_KEYS = ("ts", "level", "event")
EXCEPTION_KEY = "exception"

_JSON_TYPES = (str, int, float, list, tuple, dict, type(None))

# Longest names: "warning", and events such as "container rejected".
_LEVEL_WIDTH = 7
_EVENT_WIDTH = 28
# "2026-01-31T12:00:00.000Z": people look at the time of day.
_TIME_OF_DAY = slice(11, 23)

_RESET, _BOLD, _DIM, _CYAN = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[36m"
_LEVEL_COLOURS = {"debug": _DIM, "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m"}


def render_json(record: Record) -> str:
    """Return one line of JSON, keys in the order of the record."""
    try:
        return _dump(record)
    except (TypeError, ValueError, RecursionError):
        # One field holds what JSON has no form for (NaN, a cycle, odd keys): that one as text.
        return _dump({key: _fitting(value) for key, value in record.items()})


def render_console(record: Record) -> str:
    """Return one aligned line without colours; the lines of a traceback follow, indented."""
    return _render_console(record, colours=False)


def render_colours(record: Record) -> str:
    """Return what render_console() returns, with colours for a terminal."""
    return _render_console(record, colours=True)


def render_message(record: Record) -> str:
    """Return event, fields and traceback, for where time and level are kept apart."""
    return _event_and_fields(record, width=0, colours=False)


def text_of(value: object) -> str:
    """Return a field's value as text: text as it is, everything else as JSON has it."""
    if not isinstance(value, _JSON_TYPES):
        value = _plain(value)
    if isinstance(value, str):
        return value
    try:
        return _dump(value)
    except (TypeError, ValueError, RecursionError):
        return _describe(value)


def _render_console(record: Record, *, colours: bool) -> str:
    level = text_of(record["level"])
    time, name = text_of(record["ts"])[_TIME_OF_DAY], f"{level:<{_LEVEL_WIDTH}}"
    if colours:
        time, name = f"{_DIM}{time}{_RESET}", f"{_LEVEL_COLOURS.get(level, '')}{name}{_RESET}"
    return f"{time} {name} {_event_and_fields(record, width=_EVENT_WIDTH, colours=colours)}"


def _event_and_fields(record: Record, *, width: int, colours: bool) -> str:
    event = f"{_printable(text_of(record['event'])):<{width}}"
    parts = [f"{_BOLD}{event}{_RESET}" if colours else event]
    for key, value in record.items():
        if key not in HEAD_KEYS and key != EXCEPTION_KEY:
            name = f"{_CYAN}{key}{_RESET}" if colours else key
            parts.append(f"{name}={_quoted(text_of(_for_people(value)))}")
    line = " ".join(parts).rstrip()
    for text in text_of(record.get(EXCEPTION_KEY, "")).splitlines():
        line += f"\n    {_printable(text)}"
    return line


def _for_people(value: object, levels: int = 2) -> object:
    """Return the value with amounts of memory, of which the keys tell, as people write them.

    Records hold {resource: bytes} and {node: {resource: bytes}}, so two `levels` are looked at.
    """
    if not isinstance(value, Mapping) or levels == 0:
        return value
    return {
        key: humanize_bytes(part)
        if type(part) is int and isinstance(key, str) and is_memory_resource(key)
        else _for_people(part, levels - 1)
        for key, part in value.items()
    }


def _quoted(text: str) -> str:
    """Return text as it is when its end is plain to see, else as a JSON string."""
    is_json = text[:1] in ("{", "[") and text.isprintable()
    is_word = bool(text) and text.isprintable() and not any(char in ' "=' for char in text)
    return text if is_json or is_word else json.dumps(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _dump(value: object) -> str:
    return json.dumps(
        value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def _fitting(value: object) -> object:
    """Return the value when JSON has a form for it, else its text."""
    try:
        _dump(value)
    except (TypeError, ValueError, RecursionError):
        return _describe(value)
    return value


def _plain(value: object) -> object:
    """Return what stands for a value of a type that JSON does not know."""
    if isinstance(value, Mapping):
        return {text_of(key): part for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(text_of(part) for part in value)
    return _describe(value)


def _describe(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a broken __str__ must not cost the record
        return f"<unprintable {type(value).__name__}>"
