"""What an archive for a bug report has: files of the host, and the output of other commands.

A source that cannot be read becomes a remark in the archive's list of contents.
"""

import contextlib
import importlib.metadata
import io
import os
import platform
import stat
import subprocess
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from nri_numamem.cli.host_arguments import config_files
from nri_numamem.config.documents import open_without_waiting
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.observe.log.journal import SYSLOG_IDENTIFIER
from nri_numamem.version import VERSION

# The state file and two segments of the history are the largest.
FILE_LIMIT_BYTES = 16 << 20
LOG_LIMIT_BYTES = 4 << 20
_JOURNAL_LINES = 5000
_JOURNAL_WAIT_S = 20

_KERNEL_FILES = (
    ("proc", "meminfo"),
    ("proc", "cmdline"),
    ("sys/devices/system/node", "has_*"),
    ("sys/devices/system/node", "online"),
    ("sys/devices/system/node", "possible"),
    ("sys/devices/system/node", "node[0-9]*/cpulist"),
    ("sys/devices/system/node", "node[0-9]*/distance"),
    ("sys/devices/system/node", "node[0-9]*/meminfo"),
    ("sys/devices/system/node", "node[0-9]*/hugepages/*/*_hugepages"),
    ("sys/devices/virtual/memory_tiering", "*/nodelist"),
    ("sys/kernel/mm/hugepages", "*/*_hugepages"),
    ("sys/fs/cgroup", "cgroup.controllers"),
    ("sys/fs/cgroup", "cpuset.mems.effective"),
)
_PACKAGES = ("protobuf", "structlog", "pyroute2", "PyYAML", "rich", "prometheus_client", "h2")


@dataclass(frozen=True, slots=True)
class Item:
    """One file of the archive, or the reason why it is not there."""

    name: str
    description: str
    content: bytes = b""
    problem: str = ""
    """Why there is no content, or not all of it; "" for a whole file."""

    @property
    def is_included(self) -> bool:
        """Return whether the archive has a file of this name."""
        return bool(self.content) or not self.problem


def host_files(root: Path, state_directory: Path) -> Iterator[Item]:
    """Yield the settings, the plugin's state directory and the kernel's files."""
    for path in config_files(root) or [DEFAULT_CONFIG]:
        yield _file(root, root / str(path).lstrip("/"), "settings")
    for path in _matching(state_directory.parent, state_directory.name, "*"):
        yield _file(root, path, "state of the plugin")
    for folder, pattern in _KERNEL_FILES:
        for path in _matching(root, folder, pattern):
            yield _file(root, path, "the kernel's view of the machine")


def log_file(root: Path, path: Path) -> Item:
    """Return the end of a log file."""
    return _file(root, path, "the last lines of the log", from_end=True)


def journal() -> Item:
    """Return the plugin's last lines in the journal; no file without journalctl."""
    name, description = "journal.txt", "the last lines of the journal"
    program = which("journalctl")
    if program is None:
        return Item(name, description, problem="journalctl is not installed")
    command = [program, "-t", SYSLOG_IDENTIFIER, "-n", str(_JOURNAL_LINES), "-o", "cat"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [*command, "--no-pager"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_JOURNAL_WAIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Item(name, description, problem=str(error))
    problem = done.stderr.decode(errors="replace").strip() if done.returncode else ""
    return Item(name, description, done.stdout[-LOG_LIMIT_BYTES:], problem)


def versions() -> Item:
    """Return the versions of plugin, interpreter, libraries and kernel."""
    lines = [f"nri-numamem {VERSION}", f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            lines.append(f"{package} {importlib.metadata.version(package)}")
    lines.append(f"{platform.system()} {platform.release()} {platform.machine()}")
    return Item("versions.txt", "versions", "".join(f"{line}\n" for line in lines).encode())


def output_of(name: str, run: Callable[[list[str]], int], arguments: list[str]) -> Item:
    """Return what a command of this program prints; `run` takes its arguments."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            run(arguments)
        except Exception:  # noqa: BLE001 - a bug of one command must not cost the archive
            traceback.print_exc()
    description = f"output of nri-numamem {' '.join(arguments)}"
    text = out.getvalue() + errors.getvalue()
    return Item(name, description, text.encode(errors="replace"))


def _matching(root: Path, folder: str, pattern: str) -> list[Path]:
    """Return the regular files of a pattern in a folder; symbolic links are left out."""
    try:
        found = sorted((root / folder).glob(pattern))
        return [path for path in found if stat.S_ISREG(path.lstat().st_mode)]
    except OSError:
        return [root / folder]  # reading it gives the reason


def _file(root: Path, path: Path, description: str, *, from_end: bool = False) -> Item:
    limit_bytes = LOG_LIMIT_BYTES if from_end else FILE_LIMIT_BYTES
    inside = path.relative_to(root) if path.is_relative_to(root) else Path(str(path).lstrip("/"))
    name = f"files/{inside}"
    try:
        with open(path, "rb", opener=open_without_waiting) as file:
            if from_end:
                file.seek(max(0, os.fstat(file.fileno()).st_size - limit_bytes))
            content = file.read(limit_bytes + 1)
    except FileNotFoundError:
        return Item(name, description, problem="does not exist")
    except OSError as error:
        return Item(name, description, problem=error.strerror or str(error))
    problem = f"only the first {limit_bytes} bytes" if len(content) > limit_bytes else ""
    return Item(name, description, content[:limit_bytes], problem)
