"""Which file is the program, and whether it can stay where it is.

A runtime and systemd start a file. An entry script of a Python package needs the packages beside
it, so it is never copied: a link to it also follows its upgrades. A single executable file that a
package put below /usr or /opt stays there for the same reason. Elsewhere, such as in a directory of
downloads, it may go away, or be on a file system that is mounted late: it is copied.
"""

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.cli.host_files import Host
from nri_numamem.config.errors import UsageError
from nri_numamem.version import is_single_file

NAME = "nri-numamem"
# The place of the virtual environment in the README.
COPY = f"/opt/{NAME}/bin/{NAME}"
"""Where a copy of a single file for the service is."""

_PERMANENT = ("/usr/", "/opt/")
_ELF = b"\x7fELF"
_SCRIPT = b"#!"
_SCRIPT_BYTES = 4096
_PACKAGE = b"nri_numamem"
_REMEDY = "name the installed program with --program"


@dataclass(frozen=True, slots=True)
class Program:
    """A file that starts the plugin."""

    path: str
    """On the host; empty if it is only outside of the root directory."""
    file: Path
    """Where it can be read."""
    is_single_file: bool

    @property
    def is_permanent(self) -> bool:
        """Whether links and units may name its path."""
        return bool(self.path) and (not self.is_single_file or self.path.startswith(_PERMANENT))


def find_program(given: str | None, host: Host) -> Program:
    """Return the program that `given` names on the host, or else the running one.

    Raises UsageError if it does not exist on the host, or cannot be started.
    """
    if given is not None:
        path = os.path.normpath(Path(given).absolute())
        return _program(path, host.path(path))
    running = running_program()
    inside = host.path(str(running))
    if not inside.exists() and is_elf(running):
        return Program("", running, is_single_file=True)
    return _program(str(running), inside)


def running_program() -> Path:
    """Return the file that started this process; raise UsageError if there is none."""
    if is_single_file():
        return Path(sys.executable).resolve()
    script = Path(sys.argv[0])
    if script.suffix == ".py":  # python -m nri_numamem
        script = Path(sys.executable).with_name(NAME)
    if not os.access(script, os.X_OK):
        raise UsageError(f"{script}: no such program; {_REMEDY}")
    return script.resolve()


def is_elf(path: Path) -> bool:
    """Return whether a file is an executable by itself, not a script."""
    return _head(path).startswith(_ELF)


def is_program(path: Path) -> bool:
    """Return whether a file is the plugin: a single file, or an entry script of the package."""
    head = _head(path)
    return head.startswith(_ELF) or (head.startswith(_SCRIPT) and _PACKAGE in head)


def _head(path: Path) -> bytes:
    """Return the beginning of a regular file; nothing of other or unreadable files."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(_SCRIPT_BYTES)
    except OSError:
        return b""


def _program(path: str, file: Path) -> Program:
    if not file.exists():
        raise UsageError(f"{file}: no such program; {_REMEDY}")
    if not os.access(file, os.X_OK):
        raise UsageError(f"{file}: not executable; chmod it, or {_REMEDY}")
    return Program(path, file, is_elf(file))


def writable_parts(path: str, host: Host) -> Iterator[str]:
    """Yield the parts of a path that others than root can change, from the file upward."""
    for part in (Path(path), *Path(path).parents):
        try:
            status = host.path(str(part)).stat()
        except OSError:
            continue
        mode = status.st_mode
        is_shared = mode & 0o022 and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)
        if status.st_uid != 0 or is_shared:
            yield str(part)
