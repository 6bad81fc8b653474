"""Reads what is added to the history while the plugin writes it.

A segment is read from where the last reading ended, so that a reader need not parse megabytes for
each new line. A line without its end is left for the next reading.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nri_numamem.observe.files import beside
from nri_numamem.observe.history.lines import NAMES, Entry, decode_entry, open_segment

FIRST_BYTES = 256 << 10
"""What the first reading takes of the end of each segment: some hundred decisions."""


class HistoryTail:
    """The history beside a state file, which need not exist."""

    def __init__(self, state_file: Path) -> None:
        self._paths = tuple(beside(state_file, name) for name in NAMES)
        self._ends: dict[int, int] | None = None
        """Inode of a segment -> where the last reading ended; None before the first one."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of the segments."""
        return self._paths

    def read(self) -> list[Entry]:
        """Return the intact entries that are new, oldest first.

        The first reading returns the latest ones. Raises OSError.
        """
        before, ends = self._ends, dict[int, int]()
        found: list[Entry] = []
        for path in self._paths:
            segment = open_segment(path)
            if segment is None:
                continue
            with segment as file:
                status = os.fstat(file.fileno())
                begin = _begin(before, status)
                ends[status.st_ino] = begin
                for line, end in _complete_lines(file, begin):
                    ends[status.st_ino] = end
                    entry = decode_entry(line)
                    if entry is not None:
                        found.append(entry)
        self._ends = ends
        return sorted(found, key=lambda entry: entry.time_s)


def _begin(before: dict[int, int] | None, status: os.stat_result) -> int:
    if before is None:
        return max(0, status.st_size - FIRST_BYTES)
    end = before.get(status.st_ino, 0)
    return end if end <= status.st_size else 0


def _complete_lines(file: BinaryIO, begin: int) -> Iterator[tuple[bytes, int]]:
    """Yield each line and where it ends; the first one may be the rest of a line."""
    file.seek(begin)
    for line in file:
        begin += len(line)
        if line.endswith(b"\n"):
            yield line, begin
