"""Converts log records to text: a JSON line for programs, an aligned line for people.

A record is a mapping with ``ts``, ``level`` and ``event`` first, then the fields, then optionally
``exception`` with a traceback. A field may have any value, and rendering never fails: a value that
JSON does not support becomes its text. Neither form contains control characters, line separators or
other characters that are not printable, because pods choose some of the names.
"""

import json
from collections.abc import Callable, Mapping

from nri_numamem.engine.core.text import escape
from nri_numamem.numa.quantity import humanize_bytes, is_memory_resource

Record = Mapping[str, object]
Renderer = Callable[[Record], str]

# Keys with a fixed place in a line.
HEAD_KEYS = ("ts", "level", "event")
EXCEPTION_KEY = "exception"

# Of a message, the first of them that a record has.
_SENTENCES = ("message", "cause", "error")
_NAMES = ("namespace", "pod", "container", "pod_uid", "container_id", "request_id")
_IN_MESSAGE = {*HEAD_KEYS, EXCEPTION_KEY, *_SENTENCES, *_NAMES}

_JSON_TYPES = (str, int, float, list, tuple, dict, type(None))

# The longest level, and the length of most events.
_LEVEL_WIDTH = 7
_EVENT_WIDTH = 28
# "2026-01-31T12:00:00.000Z": only the time of day.
_TIME_OF_DAY = slice(11, 23)

_RESET, _BOLD, _DIM, _CYAN = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[36m"
_LEVEL_COLOURS = {"debug": _DIM, "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m"}


def render_json(record: Record) -> str:
    """Return one line of JSON, keys in the order of the record."""
    try:
        line = _dump(record)
    except (TypeError, ValueError, RecursionError):
        # Some field has a value that JSON does not support (NaN, a cycle, keys of another type).
        line = _dump({key: _fitting(value) for key, value in record.items()})
    return escape(line)  # such characters are only in strings, where JSON has the same escapes


def render_console(record: Record) -> str:
    """Return one aligned line without colours, followed by the indented traceback if any."""
    return _render_console(record, colours=False)


def render_colours(record: Record) -> str:
    """Return the text of render_console() with colours for a terminal."""
    return _render_console(record, colours=True)


def render_message(record: Record) -> str:
    """Return a line for people: "rejected telco/upf/dpdk [1-17]: requested memory 40Gi; ...".

    A record without a sentence has its fields in its place, without the nested ones; a record with
    a cause or an error has both. An indented traceback follows, if any.
    """
    head = [escape(sentence_of(text_of(record["event"]))), *_who(record)]
    if record.get("request_id"):
        head.append(f"[{escape(text_of(record['request_id']))}]")
    sentence = next((text for key in _SENTENCES if (text := text_of(record.get(key) or ""))), "")
    parts = [escape(sentence)] if sentence else []
    if not record.get("message"):
        parts += [
            f"{key}={_quoted(text_of(_with_suffixes(key, value)))}"
            for key, value in record.items()
            if key not in _IN_MESSAGE and isinstance(value, str | int | float) and value != ""
        ]
    line = " ".join(head) + (f": {' '.join(parts)}" if parts else "")
    return f"{line}{_traceback(record)}"


def _who(record: Record) -> list[str]:
    """Return NAMESPACE/POD/CONTAINER, the pod's uid if its name is unknown, or nothing."""
    pod = record.get("pod") or record.get("pod_uid")
    if not pod:
        return []
    names = (record.get("namespace"), pod, record.get("container"))
    return ["/".join(escape(text_of(name)) for name in names if name)]


def text_of(value: object) -> str:
    """Return a field's value as text: a string unchanged, any other value as JSON."""
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
    event = f"{escape(sentence_of(text_of(record['event']))):<{width}}"
    parts = [f"{_BOLD}{event}{_RESET}" if colours else event]
    for key, value in record.items():
        if key not in HEAD_KEYS and key != EXCEPTION_KEY:
            name = f"{_CYAN}{key}{_RESET}" if colours else key
            value_text = text_of(_with_suffixes(key, value))
            parts.append(f"{name}={_quoted(value_text)}")
    return " ".join(parts).rstrip() + _traceback(record)


def _traceback(record: Record) -> str:
    lines = text_of(record.get(EXCEPTION_KEY, "")).splitlines()
    return "".join(f"\n    {escape(text)}" for text in lines)


def sentence_of(event: str) -> str:
    """Return the name of an event as words: "request_timed_out" -> "request timed out"."""
    return event.replace("_", " ")


def _with_suffixes(key: object, value: object) -> object:
    """Return a field's value with amounts of memory as quantities: 2097152 -> "2Mi".

    A key that is a resource name or ends in "_bytes" precedes amounts, at any depth.
    """
    try:
        return _quantities(value, is_amount=_names_amounts(key))
    except RecursionError:  # a cycle
        return value


def _quantities(value: object, *, is_amount: bool) -> object:
    if type(value) is int:
        return humanize_bytes(value) if is_amount else value
    if isinstance(value, list | tuple):
        return [_quantities(part, is_amount=is_amount) for part in value]
    if not isinstance(value, Mapping):
        return value
    # A block of the kubelet's state file is {"numaAffinity", "type", "size"}.
    sized = value.get("type")
    is_block = isinstance(sized, str) and is_memory_resource(sized)
    return {
        name: _quantities(
            part,
            is_amount=is_amount or _names_amounts(name) or (is_block and name == "size"),
        )
        for name, part in value.items()
    }


def _names_amounts(key: object) -> bool:
    return isinstance(key, str) and (key.endswith("_bytes") or is_memory_resource(key))


def _quoted(text: str) -> str:
    """Return text unchanged if its end is visible in a line, else as a JSON string."""
    is_json = text[:1] in ("{", "[") and text.isprintable()
    is_word = bool(text) and text.isprintable() and not any(char in ' "=' for char in text)
    return text if is_json or is_word else json.dumps(text)


def _dump(value: object) -> str:
    return json.dumps(
        value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def _fitting(value: object) -> object:
    """Return the value if JSON supports it, else its text."""
    try:
        _dump(value)
    except (TypeError, ValueError, RecursionError):
        return _describe(value)
    return value


def _plain(value: object) -> object:
    """Return a replacement for a value of a type that JSON does not support."""
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
