"""Reads the history, also while the plugin writes it.

Lines without their checksum are skipped: the last one may be torn. A segment that is replaced
meanwhile is read to its end. Of a segment beyond READ_LIMIT_BYTES only the newest lines are read.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nri_numamem.observe.files import beside
from nri_numamem.observe.history.lines import (
    NAMES,
    READ_LIMIT_BYTES,
    Entry,
    decode_entry,
    header_number,
)

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
        opened = [_open(beside(state_file, name), stack) for name in NAMES]
        files = [file for file in opened if file is not None]
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


def _open(path: Path, stack: ExitStack) -> BinaryIO | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    return stack.enter_context(os.fdopen(descriptor, "rb"))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines after the header."""
    begin = os.fstat(file.fileno()).st_size - READ_LIMIT_BYTES
    if begin > file.tell():
        file.seek(begin)
        file.readline(_LINE_LIMIT_BYTES)  # the end of a line
    return iter(lambda: file.readline(_LINE_LIMIT_BYTES), b"")
