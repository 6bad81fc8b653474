"""Destinations of log records: a stream such as stderr, or a file that is rotated.

``write(record)`` of a sink raises ``BlockingIOError`` if it would have to wait (the record is lost,
the sink works), and any other ``OSError`` if the sink does not work. The caller counts lost records
and falls back to another sink. The journal's sink is in ``observe.log.journal``.
"""

import contextlib
import errno
import os
import select
from pathlib import Path
from typing import Protocol

from nri_numamem.observe.log.render import Record, Renderer

# Half a day of debug logs on a busy host in each, 50 MiB of disk in all.
ROTATE_BYTES = 10 * 1024 * 1024
FILES = 5

# Readable by the group (adm, or a log shipper) only: records contain pod names.
_FILE_MODE = 0o640
_DIRECTORY_MODE = 0o750


class Sink(Protocol):
    """Destination of records."""

    def write(self, record: Record) -> None:
        """Write one record. BlockingIOError if the sink is busy, OSError if it does not work."""

    def close(self) -> None:
        """Release the sink's resources; a later write may raise OSError."""


class StreamSink:
    """Writes lines to an open file descriptor of another owner, such as stderr."""

    def __init__(self, descriptor: int, render: Renderer) -> None:
        self._descriptor = descriptor
        self._render = render
        self._is_incomplete = False

    def write(self, record: Record) -> None:
        """Write one line. BlockingIOError if the reader is too slow.

        Other processes share the descriptor, so it cannot be made non-blocking. A pipe that polls
        as writable accepts PIPE_BUF bytes without blocking (POSIX), hence the small steps.
        """
        line = _encode(self._render(record), start_anew=self._is_incomplete)
        for start in range(0, len(line), select.PIPE_BUF):
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            if not poll.poll(0):
                raise BlockingIOError(errno.EAGAIN, "the reader of the log stream is slow")
            self._is_incomplete = True
            write_all(self._descriptor, line[start : start + select.PIPE_BUF])
        self._is_incomplete = False

    def close(self) -> None:
        """Do nothing: the descriptor has another owner."""


class FileSink:
    """Writes lines to a file that is rotated by size: PATH, PATH.1 (younger) to PATH.4 (oldest).

    logrotate can rotate the file as well, with or without ``copytruncate``: if the file at PATH is
    another one or missing, the next record opens or creates it.
    """

    def __init__(
        self, path: Path, render: Renderer, *, rotate_bytes: int = ROTATE_BYTES, files: int = FILES
    ) -> None:
        self._path = path
        self._render = render
        self._rotate_bytes = rotate_bytes
        self._files = files
        self._descriptor = -1
        self._is_incomplete = False

    def write(self, record: Record) -> None:
        """Append one line; rotate first if the file would become too large."""
        line = _encode(self._render(record), start_anew=self._is_incomplete)
        size_bytes = self._open()
        if size_bytes and size_bytes + len(line) > self._rotate_bytes:
            # Without permission to write the directory the file grows.
            with contextlib.suppress(OSError):
                self._rotate()
            self._open()
        self._is_incomplete = True
        write_all(self._descriptor, line)
        self._is_incomplete = False

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> int:
        """Open the file at the path unless it is open already; return its size."""
        if self._descriptor >= 0:
            with contextlib.suppress(FileNotFoundError):
                named, opened = self._path.stat(), os.fstat(self._descriptor)
                if os.path.samestat(named, opened):
                    return opened.st_size
            self.close()
        self._path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        # Non-blocking in case the path is a pipe; it has no effect on files.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        self._descriptor = os.open(self._path, flags, _FILE_MODE)
        self._is_incomplete = False
        return os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        """Rename every file to the next number; replaces the oldest."""
        for index in range(self._files - 1, 0, -1):
            younger = f"{self._path}.{index - 1}" if index > 1 else self._path
            with contextlib.suppress(FileNotFoundError):
                Path(younger).replace(f"{self._path}.{index}")


def _encode(line: str, *, start_anew: bool) -> bytes:
    """Return the line as bytes; `start_anew` ends an incomplete line first."""
    text = f"\n{line}\n" if start_anew else f"{line}\n"
    return text.encode("utf-8", errors="backslashreplace")


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data. After a short write (the disk is full) the next write raises OSError."""
    while data:
        data = data[os.write(descriptor, data) :]
