"""The steps of an installation: values with paths on the host, executed in order or only shown.

If a step fails, the steps before it are undone. A file is written under a temporary name and
without execute permission; it then gets its name, and last its mode. So a runtime never sees an
incomplete program, or one with another name.
"""

import errno
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import systemd
from nri_numamem.config.errors import UsageError
from nri_numamem.observe.files import replace_file

REMEDIES = {
    errno.EACCES: "run as root",
    errno.EPERM: "run as root",
    errno.EROFS: "its file system is read-only",
    errno.ENOSPC: "free some space",
}
_TEXT_MODE = 0o644
_PROGRAM_MODE = 0o755
_DIRECTORY_MODE = 0o755

Undo: TypeAlias = Callable[[], object]
Systemctl: TypeAlias = Callable[[Sequence[str]], None]
"""Runs systemctl with arguments; raises OSError with the first line that it prints."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write a text file; its directory is made if it is missing."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class WriteProgram:
    """Write a program; its directory is made if it is missing."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy a program from `source`, a path of this process that is not below the root directory."""

    path: str
    source: Path


@dataclass(frozen=True, slots=True)
class Link:
    """Make or replace a symbolic link."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Move:
    """Rename a file; its new path does not exist."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a file or a link."""

    path: str


@dataclass(frozen=True, slots=True)
class Service:
    """Run systemctl; `undo` are the arguments that undo it."""

    arguments: tuple[str, ...]
    undo: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The command line, for messages."""
        return " ".join(("systemctl", *self.arguments))


Step: TypeAlias = Write | WriteProgram | Copy | Link | Move | Remove | Service


def describe(step: Step, *, is_done: bool) -> str:
    """Return one line: what was done, or what would be done."""
    match step:
        case Write() | WriteProgram():
            past, verb, what = "wrote", "write", step.path
        case Copy():
            past, verb, what = "copied", "copy", f"{step.source} to {step.path}"
        case Link():
            past, verb, what = "linked", "link", f"{step.path} -> {step.target}"
        case Move():
            past, verb, what = "moved", "move", f"{step.path} to {step.target}"
        case Remove():
            past, verb, what = "removed", "remove", step.path
        case Service():
            past, verb, what = "ran", "run", step.path
    return f"{past if is_done else f'would {verb}'} {what}"


def perform(steps: Sequence[Step], host: Host, *, is_dry_run: bool) -> None:
    """Execute the steps and print a line for each; raise UsageError if one fails."""
    if not is_dry_run:
        apply(steps, host, systemd.run)
    for step in steps:
        print(describe(step, is_done=not is_dry_run))


def print_nothing(*, is_dry_run: bool) -> None:
    """Print that nothing changes."""
    print("nothing to change" if is_dry_run else "nothing changed")


def print_remaining(lines: Sequence[str]) -> None:
    """Print what the user has to do."""
    if lines:
        print("\nremaining:")
        print("".join(f"  {line}\n" for line in lines), end="")


def apply(steps: Sequence[Step], host: Host, run: Systemctl) -> None:
    """Execute the steps in order.

    Raises UsageError after a failed step. The steps before it are undone; the text says what
    failed, and which steps could not be undone.
    """
    for step in steps:
        if not isinstance(step, Service):
            host.entry(step.path)  # raises UsageError for links that cannot be followed
    undos: list[tuple[Step, Undo]] = []
    for step in steps:
        try:
            undos.append((step, _execute(step, host, run)))
        except OSError as error:
            left = _undo_all(undos, run)
            remedy = REMEDIES.get(error.errno or 0, "")
            text = f"{step.path}: {error.strerror or error}{remedy and '; '}{remedy}"
            raise UsageError(f"{text}; {left}") from error
        except BaseException:
            _undo_all(undos, run)
            raise


def _undo_all(undos: list[tuple[Step, Undo]], run: Systemctl) -> str:
    """Undo steps in reverse order; return what is left, as the end of a message."""
    left = []
    for step, undo in reversed(undos):
        try:
            undo()
        except OSError as error:
            left.append(f"{describe(step, is_done=True)} ({error.strerror or error})")
    if any(isinstance(step, Service) for step, _ in undos):
        with suppress(OSError):
            run(("daemon-reload",))
    return f"not undone: {', '.join(left)}" if left else "nothing was changed"


def _execute(step: Step, host: Host, run: Systemctl) -> Undo:
    """Execute one step; return what undoes it. A step that fails leaves nothing."""
    if isinstance(step, Service):
        run(step.arguments)
        return lambda: run(step.undo) if step.undo else None
    path = host.entry(step.path)
    if isinstance(step, Move):
        return _move(path, host.entry(step.target))
    restore = _restorer(path)
    try:
        match step:
            case Write():
                _place(path, step.text.encode(), _TEXT_MODE)
            case WriteProgram():
                _place(path, step.data, _PROGRAM_MODE)
            case Copy():
                _place(path, step.source.read_bytes(), _PROGRAM_MODE)
            case Link():  # for a moment there is none: a second name would be a second plugin
                _make_directories(path.parent)
                path.unlink(missing_ok=True)
                path.symlink_to(step.target)
            case Remove():
                path.unlink()
    except BaseException:
        restore()
        raise
    return restore


def _move(path: Path, target: Path) -> Undo:
    restore = _restorer(target)
    try:
        _make_directories(target.parent)
        path.rename(target)
    except BaseException:
        restore()
        raise

    def move_back() -> None:
        target.rename(path)
        restore()

    return move_back


def _restorer(path: Path) -> Undo:
    """Return what makes the path again what it is now: a file, a link, or missing.

    Directories that are missing now are removed again.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    target = path.readlink() if path.is_symlink() else None
    is_file = target is None and path.exists()
    if is_file and not path.is_file():  # reading a FIFO or a device may never end
        raise OSError(errno.EINVAL, "it is not a regular file")
    before = _content(path) if is_file else None

    def restore() -> None:
        if before is not None:
            if not path.is_file() or _content(path) != before:
                _place(path, *before)
            return
        path.unlink(missing_ok=True)
        if target is not None:
            path.symlink_to(target)
        for folder in filter(Path.exists, missing):
            folder.rmdir()

    return restore


def _content(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), stat.S_IMODE(path.stat().st_mode)


def _place(path: Path, data: bytes, mode: int) -> None:
    """Write a file; the old one stays until the new one is complete."""
    _make_directories(path.parent)
    replace_file(path, data)
    path.chmod(mode)


def _make_directories(path: Path) -> None:
    """Make a directory and those above it, each with the same mode."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(_DIRECTORY_MODE)
