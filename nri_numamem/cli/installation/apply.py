"""Executes steps. If one fails, what the steps before it did is taken back.

A file is written beside its place, without any execute bit, and gets its name, then its mode: at no
time a runtime sees an incomplete program, or one with another name.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.steps import (
    PROGRAM_MODE,
    TEXT_MODE,
    Copy,
    Link,
    Move,
    Remove,
    Service,
    Step,
    Write,
    describe,
)
from nri_numamem.config.errors import UsageError

Undo = Callable[[], None]
Systemctl = Callable[[Sequence[str]], None]
"""Runs systemctl with arguments; raises OSError with the first line that it prints."""

REMEDIES = {
    errno.EACCES: "run as root",
    errno.EPERM: "run as root",
    errno.EROFS: "its file system is read-only",
    errno.ENOSPC: "free some space",
}
_RELOAD = ("daemon-reload",)
_DIRECTORY_MODE = 0o755


def apply(steps: Sequence[Step], host: Host, run: Systemctl) -> None:
    """Execute the steps in order.

    Raises UsageError after a failed step; its text says what failed, and what is left of the steps
    before it, which is nothing unless taking back fails too.
    """
    for step in steps:
        if not isinstance(step, Service):
            host.entry(step.path)  # raises UsageError for links that cannot be followed
    undos: list[tuple[Step, Undo]] = []
    for step in steps:
        try:
            undo = _execute(step, host, run)
        except OSError as error:
            left = _undo_all(undos, run)
            remedy = REMEDIES.get(error.errno or 0, "")
            text = f"{step.path}: {error.strerror or error}{remedy and '; '}{remedy}"
            raise UsageError(f"{text}; {left}") from error
        except BaseException:
            _undo_all(undos, run)
            raise
        undos.append((step, undo))


def _undo_all(undos: list[tuple[Step, Undo]], run: Systemctl) -> str:
    """Undo steps in reverse order; return what is left, as the end of a message."""
    left = []
    for step, undo in reversed(undos):
        try:
            undo()
        except OSError as error:
            left.append(f"{describe(step, is_done=True)} ({error.strerror or error})")
    if any(isinstance(step, Service) for step, _ in undos):
        with contextlib.suppress(OSError):
            run(_RELOAD)
    return f"not taken back: {', '.join(left)}" if left else "nothing was changed"


def _execute(step: Step, host: Host, run: Systemctl) -> Undo:
    """Execute one step; return what takes it back."""
    if isinstance(step, Service):
        run(step.arguments)
        return (lambda: run(step.undo)) if step.undo else _nothing
    path = host.entry(step.path)
    match step:
        case Write():
            return _place(path, step.text.encode(), TEXT_MODE)
        case Copy():
            return _place(path, step.source.read_bytes(), PROGRAM_MODE)
        case Link():
            return _link(path, step.target)
        case Move():
            return _move(path, host.entry(step.target))
        case Remove():
            return _remove(path)


def _nothing() -> None:
    """Take nothing back."""


def _in_order(*undos: Undo) -> Undo:
    def undo_in_order() -> None:
        for undo in undos:
            undo()

    return undo_in_order


def _place(path: Path, data: bytes, mode: int) -> Undo:
    """Write a file under its final name; the old one is there until the new one is complete."""
    restore = _restorer(path)
    remove_directories = _make_directories(path.parent)
    temporary = path.with_name(f".{path.name}.new")
    try:
        _write(temporary, data)
        temporary.replace(path)
        path.chmod(mode)
    except BaseException:
        temporary.unlink(missing_ok=True)
        remove_directories()
        raise
    return _in_order(restore, remove_directories)


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _restorer(path: Path) -> Undo:
    """Return what brings back the file or link that is at the path now, or its absence."""
    if path.is_symlink():
        target = path.readlink()

        def restore_link() -> None:
            path.unlink(missing_ok=True)
            path.symlink_to(target)

        return restore_link
    if not path.exists():
        return lambda: path.unlink(missing_ok=True)
    if not path.is_file():  # reading a FIFO or a device may never end
        raise OSError(errno.EINVAL, "it is not a regular file")
    data, mode = path.read_bytes(), path.stat().st_mode & 0o7777

    def restore_file() -> None:
        _place(path, data, mode)

    return restore_file


def _link(path: Path, target: str) -> Undo:
    """Make or replace a link. There is no link for a moment: a second name would be a plugin."""
    restore = _restorer(path)
    remove_directories = _make_directories(path.parent)
    try:
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    except BaseException:
        restore()
        remove_directories()
        raise
    return _in_order(restore, remove_directories)


def _move(path: Path, target: Path) -> Undo:
    remove_directories = _make_directories(target.parent)
    try:
        path.rename(target)
    except BaseException:
        remove_directories()
        raise

    def move_back() -> None:
        target.rename(path)

    return _in_order(move_back, remove_directories)


def _remove(path: Path) -> Undo:
    restore = _restorer(path)
    path.unlink()
    return restore


def _make_directories(path: Path) -> Undo:
    """Make a directory and those above it; return what removes the new ones."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(_DIRECTORY_MODE)

    def remove() -> None:
        for folder in missing:
            folder.rmdir()

    return remove
