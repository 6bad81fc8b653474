"""Reads a record back from where logs arrive: JSON lines, or the journal's export formats.

The journal's formats are those of ``journalctl -o export`` and ``-o json --all``; without --all the
second one leaves out the fields that are longer than 4,096 bytes.
Source: systemd, "Journal Export Formats" (JOURNAL_EXPORT_FORMATS).
"""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from nri_numamem.observe.log.journal import FIELD_PREFIX

Record: TypeAlias = dict[str, object]

_EVENT_FIELD = f"{FIELD_PREFIX}EVENT"
_SIZE = struct.Struct("<Q")


class IncompleteRecordError(ValueError):
    """The record is in the log without all of its fields; the text has the remedy."""


def last_record(content: bytes, event: str, names: Mapping[str, str]) -> Record | None:
    """Return the fields `names` of the last record of an event; None if the log has no such record.

    `names` maps the name of a field to its name in the journal. Raises IncompleteRecordError.
    """
    found: Record | None = None
    if content.startswith(b"__CURSOR="):
        for fields in _exported(content):
            if fields.get(_EVENT_FIELD) == event:
                found = dict(fields)
        return None if found is None else _from_journal(found, names)
    for line in content.splitlines():
        record = _parsed(line.decode("utf-8", "replace")) if line[:1] == b"{" else None
        if isinstance(record, dict) and event in (record.get("event"), record.get(_EVENT_FIELD)):
            found = record
    if found is None or "event" in found:
        return found
    return _from_journal(found, names)


def _from_journal(fields: Record, names: Mapping[str, str]) -> Record:
    record: Record = {}
    for name, journal_name in names.items():
        value = fields.get(journal_name)
        if isinstance(value, list):  # bytes that are not printable
            value = bytes(value).decode("utf-8", "replace")
        if not isinstance(value, str):
            problem = f"the journal's field {journal_name} is left out"
            raise IncompleteRecordError(f"{problem}; use journalctl -o export, or -o json --all")
        record[name] = _parsed(value)
    return record


def _parsed(text: str) -> object:
    """Return a JSON value; None if the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _exported(content: bytes) -> Iterator[dict[str, str]]:
    """Yield the entries of the export format; what is cut off at the end is left out."""
    entry: dict[str, str] = {}
    at = 0
    while (end := content.find(b"\n", at)) >= 0:
        line, at = content[at:end], end + 1
        if not line:
            yield entry
            entry = {}
            continue
        name, is_text, value = line.partition(b"=")
        if not is_text:
            if at + _SIZE.size > len(content):
                return
            (size,) = _SIZE.unpack_from(content, at)
            begin = at + _SIZE.size
            value, at = content[begin : begin + size], begin + size + 1
        entry[name.decode("ascii", "replace")] = value.decode("utf-8", "replace")
    if entry:
        yield entry
