"""Which process holds the instance lock: the text in the locked file.

The lock is a flock, and the file keeps the text of the last holder after its end.
"""

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path

_TEXT_BYTES = 300
_TEXT = re.compile(r"pid (\d{1,10}), since ([^,]*), (.*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that holds a lock, as it described itself."""

    text: str
    """The whole description, printable; "unknown" if there is none."""
    pid: int | None = None
    since: str = ""
    """Date and time in UTC, ISO 8601."""
    started_as: str = ""


def format_holder(pid: int, since: str, started_as: str) -> str:
    """Return the text of the locked file."""
    return f"pid {pid}, since {since}, {started_as}\n"


def read_holder(descriptor: int) -> LockHolder:
    """Return the description in a locked file."""
    text = os.pread(descriptor, _TEXT_BYTES, 0).decode(errors="replace").strip()
    text = "".join(char for char in text if char.isprintable())
    found = _TEXT.fullmatch(text)
    if found is None:
        return LockHolder(text or "unknown")
    return LockHolder(text, int(found[1]), found[2], found[3])


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file as it was at one moment."""

    file: tuple[int, int]
    """Device and inode: a file that replaced it has others."""
    holder: LockHolder | None
    """The process that held the lock; None if it was free."""


def find_holder(path: Path) -> LockHolder | None:
    """Return the process that holds the lock of a file; None if the lock is free.

    Raises OSError if the file cannot be opened.
    """
    lock = probe(path)
    return None if lock is None else lock.holder


def probe(path: Path) -> Lock | None:
    """Return the lock file; None without one. OSError if the file cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(descriptor)
        file = found.st_dev, found.st_ino
        # A shared lock for an instant: an instance that starts now waits longer than that.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Lock(file, read_holder(descriptor))
    finally:
        os.close(descriptor)
    return Lock(file, None)
