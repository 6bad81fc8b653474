"""The format of a segment: lines, each with a checksum; the first one is the header.

A line is the CRC-32 of the rest in eight hexadecimal digits, a space, a JSON object, and a newline.
The header has the version and the number of the segment; of two segments the larger number is the
newer one.

Commands read the history also while the plugin writes it. Lines without their checksum are skipped:
the last one may be torn. A segment that is replaced meanwhile is read to its end. Of a segment
beyond READ_LIMIT_BYTES only the newest lines are read.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from nri_numamem.observe.files import beside

VERSION = 1

NAMES = ("history-0.log", "history-1.log")

READ_LIMIT_BYTES = 16 << 20
"""Four times a segment. More of a segment, which this plugin did not write, is never read."""

_CRC_CHARACTERS = 8

# The year 10000, which no formatter of times takes.
_TIME_LIMIT_S = 253_402_300_800


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the history."""

    time_s: float
    """Unix time."""
    event: str
    """Name of an event, which may be of a later release."""
    request_id: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pod_uid(self) -> str:
        """UID of the pod that the record is about; "" if it is about none."""
        return str(self.fields.get("pod_uid", ""))


def encode_header(number: int) -> bytes:
    """Return the first line of a segment."""
    return _sealed({"history": VERSION, "number": number})


def encode_entry(entry: Entry) -> bytes:
    """Return the line of an entry."""
    document = {"time": round(entry.time_s, 3), "event": entry.event}
    if entry.request_id:
        document["request_id"] = entry.request_id
    return _sealed({**document, "fields": entry.fields})


def is_intact(line: bytes) -> bool:
    """Return whether a line is complete and has its checksum."""
    rest = line[_CRC_CHARACTERS + 1 : -1]
    return line.endswith(b"\n") and line[: _CRC_CHARACTERS + 1] == _crc(rest) + b" "


def header_number(line: bytes) -> int | None:
    """Return the number in a header; None for any other line and other versions."""
    document = _opened(line)
    if document is None or document.get("history") != VERSION:
        return None
    number = document.get("number")
    return number if type(number) is int and number >= 0 else None


def decode_entry(line: bytes) -> Entry | None:
    """Return the entry in a line; None if it is damaged or none."""
    document = _opened(line)
    if document is None:
        return None
    time_s, event, fields = (document.get(key) for key in ("time", "event", "fields"))
    is_entry = isinstance(time_s, int | float) and isinstance(event, str)
    if not is_entry or not isinstance(fields, dict):
        return None
    if not 0 <= cast("float", time_s) < _TIME_LIMIT_S:
        return None
    request_id = document.get("request_id", "")
    return Entry(float(cast("float", time_s)), cast("str", event), str(request_id), fields)


def _sealed(document: Mapping[str, object]) -> bytes:
    # Texts are ASCII with escapes, so a newline ends a line only.
    text = json.dumps(document, separators=(",", ":"), default=str).encode("ascii")
    return _crc(text) + b" " + text + b"\n"


def _opened(line: bytes) -> dict[str, Any] | None:
    if not is_intact(line):
        return None
    try:
        document = json.loads(line[_CRC_CHARACTERS + 1 :])
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _crc(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


_LINE_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class History:
    """The entries of both segments, oldest first."""

    entries: tuple[Entry, ...]
    skipped_lines: int = 0
    """Damaged lines."""


def read_history(state_file: Path) -> History:
    """Return the history beside a state file; empty without one.

    Raises OSError, such as PermissionError.
    """
    with ExitStack() as stack:
        # Both are opened before either is read: a segment that is begun meanwhile is left out.
        opened = [open_segment(beside(state_file, name)) for name in NAMES]
        files = [stack.enter_context(file) for file in opened if file is not None]
        segments = [(header_number(file.readline(_LINE_LIMIT_BYTES)), file) for file in files]
        numbered = sorted(
            (number, index) for index, (number, _) in enumerate(segments) if number is not None
        )
        skipped = sum(number is None and file.tell() > 0 for number, file in segments)
        entries: list[Entry] = []
        for _number, index in numbered:
            for line in _lines(segments[index][1]):
                entry = decode_entry(line)
                if entry is None:
                    skipped += 1
                else:
                    entries.append(entry)
    return History(tuple(entries), skipped)


def open_segment(path: Path) -> BinaryIO | None:
    """Open the file of a segment; return None if it does not exist. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    return os.fdopen(descriptor, "rb")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines after the header."""
    begin = os.fstat(file.fileno()).st_size - READ_LIMIT_BYTES
    if begin > file.tell():
        file.seek(begin)
        file.readline(_LINE_LIMIT_BYTES)  # the end of a line
    return iter(lambda: file.readline(_LINE_LIMIT_BYTES), b"")
