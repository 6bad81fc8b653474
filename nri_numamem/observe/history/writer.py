"""Writes the history: ``append`` on the event loop, ``write`` on the thread of the state file.

A segment that is full stays until the other one is full as well. A new segment is a new file, so
that a reader of the old one can read on. Records that cannot be written are dropped and counted;
an entry in the history marks where some are missing.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from nri_numamem.engine.records.files import (
    HistoryRecordsDropped,
    HistoryUnusable,
    StateFileWriteFailed,
    StateFileWriteRecovered,
)
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.files import FILE_MODE, beside, kind_and_text, make_directory
from nri_numamem.observe.history import lines
from nri_numamem.observe.history.lines import NAMES, READ_LIMIT_BYTES, Entry
from nri_numamem.observe.log.bounds import bounded
from nri_numamem.observe.log.sinks import write_all

SEGMENT_BYTES = 4 << 20

# More than the records of a Synchronize of the largest hosts; some 5 KiB each.
QUEUE_LIMIT = 4096

# Records that are encoded at once. More would leave the process larger than it needs to be.
BATCH = 64

# A record of 1,024 NUMA nodes has some 64 KiB.
_LINE_LIMIT_BYTES = 256 << 10

_Item: TypeAlias = tuple[float, Record]


class HistoryWriter:
    """The history beside a state file. `emit` logs records, from any thread."""

    def __init__(
        self,
        state_file: Path,
        emit: Callable[[Record], None],
        segment_bytes: int = SEGMENT_BYTES,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        self._overflowed = 0
        """Records that found the queue full; counted by the thread that appends."""
        self._failed = 0
        """Records that could not be written; counted by the thread that writes."""
        self._paths = tuple(beside(state_file, name) for name in NAMES)
        self._emit = emit
        self._segment_bytes = segment_bytes
        self._queue_limit = queue_limit
        self._queue: deque[_Item] = deque()
        self._shown_dropped = 0
        """Dropped records that an entry in the history counts."""
        self._reported: set[str] = set()
        """Kinds of errors in the log since the last successful write."""
        self._is_open = False
        self._current = 0
        """Index of the segment that is written."""
        self._number = 0
        self._size = 0
        """Bytes of that segment; 0 if it does not exist."""

    @property
    def dropped(self) -> int:
        """Number of records that were not written, since the start."""
        return self._overflowed + self._failed

    @property
    def is_pending(self) -> bool:
        """Whether there is something to write."""
        return bool(self._queue)

    @property
    def has_batch(self) -> bool:
        """Whether so much waits that it should be written before the next regular time."""
        return len(self._queue) >= BATCH

    def append(self, time_s: float, record: Record) -> None:
        """Have a record written, at this Unix time; never waits."""
        if len(self._queue) >= self._queue_limit:
            self._overflowed += 1
        else:
            self._queue.append((time_s, record))

    def write(self) -> None:
        """Write what was appended so far; raises no Exception."""
        # The event loop goes on to append; deques are safe between threads.
        left = len(self._queue)
        while left:
            items = [self._queue.popleft() for _ in range(min(BATCH, left))]
            self._write_batch(items)
            left -= len(items)

    def _write_batch(self, items: list[_Item]) -> None:
        try:
            if not self._is_open:
                self._open()
            self._write(items)
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            self._failed += len(items)
            self._report(error)
        else:
            if self._reported:
                self._reported.clear()
                path, failed = str(self._paths[self._current]), self.dropped
                self._emit(StateFileWriteRecovered(path=path, failed_writes=failed))

    def _write(self, items: list[_Item]) -> None:
        texts = [text for item in items if len(text := _encode(*item)) <= _LINE_LIMIT_BYTES]
        self._failed += len(items) - len(texts)
        dropped = self.dropped - self._shown_dropped
        if dropped:
            record = HistoryRecordsDropped(dropped_records=dropped)
            texts.insert(0, _encode(items[0][0], record))
        batch: list[bytes] = []
        room = self._segment_bytes - self._size
        for text in texts:
            if batch and room < len(text):
                self._append_to_segment(b"".join(batch))
                batch, room = [], self._segment_bytes
            batch.append(text)
            room -= len(text)
        self._append_to_segment(b"".join(batch))
        if dropped:
            self._shown_dropped += dropped
            self._emit(record)

    def _append_to_segment(self, data: bytes) -> None:
        """Append to the current segment, or begin the next one if the data exceed its room."""
        is_new = not self._size or self._size + len(data) > self._segment_bytes
        if is_new:
            if self._size:
                self._current = 1 - self._current
            self._number += 1
            data = lines.encode_header(self._number) + data
            make_directory(self._paths[self._current])
            self._paths[self._current].unlink(missing_ok=True)
            self._size = 0
        path = self._paths[self._current]
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags | (os.O_CREAT | os.O_EXCL if is_new else 0), FILE_MODE)
        try:
            write_all(descriptor, data)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._size)
            raise
        finally:
            os.close(descriptor)
        self._size += len(data)

    def _open(self) -> None:
        """Continue the newer segment; cut a torn line off, and rename what has no valid header."""
        found: list[tuple[int, int, int]] = []
        for index, path in enumerate(self._paths):
            segment = _examine(path)
            if segment is None:
                continue
            number, size = segment
            if number is None:
                self._put_aside(path)
            else:
                found.append((number, index, size))
        if found:
            self._number, self._current, self._size = max(found)
            os.truncate(self._paths[self._current], self._size)
        self._is_open = True

    def _put_aside(self, path: Path) -> None:
        name = path.with_name(f"{path.name}.corrupt")
        path.replace(name)
        self._emit(HistoryUnusable(path=str(path), renamed_to=name.name))

    def _report(self, error: Exception) -> None:
        """Log an error once per kind."""
        self._is_open = False  # the files may have been removed or replaced
        self._size = 0
        kind, text = kind_and_text(error)
        if kind not in self._reported:
            self._reported.add(kind)
            path = str(self._paths[self._current])
            self._emit(StateFileWriteFailed(path=path, error_kind=kind, error=text))


def _encode(time_s: float, record: Record) -> bytes:
    fields = bounded(fields_of(record))
    return lines.encode_entry(Entry(time_s, record.event, record.request_id, fields))


def _examine(path: Path) -> tuple[int | None, int] | None:
    """Return a segment's number, None without a valid header, and its size without a torn line.

    Return None if there is no segment. The state file waits for this, so the lines of a segment
    beyond READ_LIMIT_BYTES are not examined; it is full, and nothing is appended to it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > READ_LIMIT_BYTES:
            return lines.header_number(file.readline(_LINE_LIMIT_BYTES)), size_bytes
        number = lines.header_number(file.readline(_LINE_LIMIT_BYTES))
        size = file.tell()
        # Readers skip a damaged line; only an end without a newline would damage the next one.
        for line in iter(lambda: file.readline(_LINE_LIMIT_BYTES), b""):
            if line.endswith(b"\n"):
                size = file.tell()
    return number, size
