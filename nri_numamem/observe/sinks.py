"""Where log records go: a stream such as stderr, or a file that is rotated.

A sink has one method, ``write(record)``, and tells by its exception what became of the record:
``BlockingIOError`` when it would have to wait (the record is lost, the sink is well), any other
``OSError`` when it cannot be written here at all. Counting and falling back is the caller's.
The journal has a module of its own.
"""

import contextlib
import errno
import os
import select
from pathlib import Path
from typing import Protocol

from nri_numamem.observe.render import Record, Renderer

# Half a day of debug logs on a busy host in each, 50 MiB of disk in all.
ROTATE_BYTES = 10 * 1024 * 1024
FILES = 5

# The group may read (adm, or a log shipper); pod names are nothing for everybody.
_FILE_MODE = 0o640
_DIRECTORY_MODE = 0o750


class Sink(Protocol):
    """Takes one record; raises BlockingIOError when busy, OSError when broken."""

    def write(self, record: Record) -> None:
        """Write one record, or raise OSError."""

    def close(self) -> None:
        """Give back what the sink holds; a later write may raise OSError."""


class StreamSink:
    """Lines to an open file descriptor that belongs to somebody else, such as stderr."""

    def __init__(self, descriptor: int, render: Renderer) -> None:
        self._descriptor = descriptor
        self._render = render
        self._is_torn = False

    def write(self, record: Record) -> None:
        """Write one line; BlockingIOError when the reader does not keep up.

        The descriptor is shared with other processes, so it cannot be made non-blocking. A pipe
        that polls as writable takes PIPE_BUF bytes at once (POSIX), hence the small steps.
        """
        line = _encode(self._render(record), start_anew=self._is_torn)
        for start in range(0, len(line), select.PIPE_BUF):
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            if not poll.poll(0):
                raise BlockingIOError(errno.EAGAIN, "the reader of the log stream is slow")
            self._is_torn = True
            write_all(self._descriptor, line[start : start + select.PIPE_BUF])
        self._is_torn = False

    def close(self) -> None:
        """Do nothing: the descriptor is not ours."""


class FileSink:
    """Lines to a file, rotated by size: PATH, PATH.1 (younger) … PATH.4 (oldest).

    A file that was moved or removed by logrotate is made anew with the next record.
    """

    def __init__(
        self, path: Path, render: Renderer, *, rotate_bytes: int = ROTATE_BYTES, files: int = FILES
    ) -> None:
        self._path = path
        self._render = render
        self._rotate_bytes = rotate_bytes
        self._files = files
        self._descriptor = -1
        self._is_torn = False

    def write(self, record: Record) -> None:
        """Append one line, after rotating when it would not fit; OSError when it cannot be."""
        line = _encode(self._render(record), start_anew=self._is_torn)
        size_bytes = self._open()
        if size_bytes and size_bytes + len(line) > self._rotate_bytes:
            # A directory that may not be written must not stop the log: the file then grows.
            with contextlib.suppress(OSError):
                self._rotate()
            self._open()
        self._is_torn = True
        write_all(self._descriptor, line)
        self._is_torn = False

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> int:
        """Make sure that the descriptor is that of the path, and return the file's size."""
        if self._descriptor >= 0:
            with contextlib.suppress(FileNotFoundError):
                named, opened = self._path.stat(), os.fstat(self._descriptor)
                if os.path.samestat(named, opened):
                    return opened.st_size
            self.close()
        self._path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        # Non-blocking for the case that somebody put a pipe there; files do not care.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        self._descriptor = os.open(self._path, flags, _FILE_MODE)
        self._is_torn = False
        return os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        """Move every file one number up; the oldest is replaced."""
        for index in range(self._files - 1, 0, -1):
            younger = f"{self._path}.{index - 1}" if index > 1 else self._path
            with contextlib.suppress(FileNotFoundError):
                Path(younger).replace(f"{self._path}.{index}")


def _encode(line: str, *, start_anew: bool) -> bytes:
    """Return the line as bytes; after a torn one it starts on a line of its own."""
    text = f"\n{line}\n" if start_anew else f"{line}\n"
    return text.encode("utf-8", errors="backslashreplace")


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything; a short write (a disk that is just full) is tried again and then raises."""
    while data:
        data = data[os.write(descriptor, data) :]
