"""The contents of an archive for a bug report: files of the host, and output of other commands.

In the directories of state and log, only files with the plugin's names are read: others may belong
to another program and contain secrets. Files are never read through a symbolic link; directories
may be links, see ``config.host_paths``. Each file is cut to a limit, and read when it is added to
the archive. A source that cannot be read becomes a remark in the archive's list of contents.
"""

import contextlib
import errno
import importlib.metadata
import io
import os
import platform
import re
import stat
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which

from nri_numamem.cli.host_arguments import config_files
from nri_numamem.cli.render.texts import listed
from nri_numamem.config.errors import UsageError
from nri_numamem.config.host_paths import below, resolved
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.engine.core.text import cut_name, escape
from nri_numamem.observe.files import beside, former_of, lock_file_of, reason_of
from nri_numamem.observe.history.lines import NAMES
from nri_numamem.observe.log.journal import SYSLOG_IDENTIFIER
from nri_numamem.observe.log.sinks import FILES
from nri_numamem.observe.plugin_file import plugin_file_of
from nri_numamem.observe.state_file import is_state_file
from nri_numamem.version import VERSION

# The state file and two segments of the history are the largest.
FILE_LIMIT_BYTES = 16 << 20
LOG_LIMIT_BYTES = 4 << 20
_JOURNAL_LINES = 5000
_JOURNAL_WAIT_S = 20
_CHUNK_BYTES = 1 << 16
# Names of other files in one line of the list.
_LISTED = 10

_KERNEL_FILES = (
    ("proc", "meminfo"),
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
_KERNEL = "the kernel's view of the machine"
# Other words of the kernel's command line may contain passwords, such as those of iSCSI.
_KERNEL_WORD = re.compile(
    r"((default_)?hugepagesz?|hugetlb\w*|transparent_hugepage|numa\w*|mem[\w.]*|movable\w*|"
    r"kernelcore|cgroup\w*|cpuset\w*|systemd\.(unified|legacy)\w*|isolcpus|nohz_full|maxcpus|nosmt)"
    r"(=.*)?",
    re.ASCII,
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


def settings_files(root: Path) -> Iterator[Item]:
    """Yield the plugin's configuration."""
    for path in config_files(root) or [DEFAULT_CONFIG]:
        yield _file(root, path, "settings")


def state_files(root: Path, state_file: Path) -> Iterator[Item]:
    """Yield the files that the plugin wrote beside its state file, and the names of others."""
    history = [beside(state_file, name) for name in NAMES]
    paths = [state_file, lock_file_of(state_file), plugin_file_of(state_file), *history]
    texts = (
        rf"{re.escape(state_file.name)}\.(corrupt|version)-\d{{1,10}}",
        *(rf"{re.escape(path.name)}\.corrupt" for path in history),
    )
    copies = re.compile("|".join(texts), re.ASCII)
    folder = state_file.parent
    try:
        with _opened_directory(root, folder) as descriptor:
            present = sorted(os.listdir(descriptor))  # noqa: PTH208 - no path: links are not followed
    except FileNotFoundError:
        return
    except (OSError, UsageError) as error:
        yield Item(_name(folder), "state of the plugin", problem=_reason(error))
        return
    names = [path.name for path in paths if path.name in present]
    former = former_of(state_file)
    if former is not None and is_state_file(below(root, former)):
        names.append(former.name)
    names += filter(copies.fullmatch, present)
    for name in names:
        yield _file(root, folder / name, "state of the plugin")
    others = [escape(cut_name(name)) for name in present if name not in names]
    if others:
        text = f"left out, not written by the plugin: {listed(others, _LISTED)}"
        yield Item(_name(folder), "state of the plugin", problem=text)


def log_files(root: Path, path: Path) -> Iterator[Item]:
    """Yield the end of a log file, and of the files to which it was rotated."""
    description = "the last lines of the log"
    yield _file(root, path, description, from_end=True)
    for number in range(1, FILES):
        item = _file(root, Path(f"{path}.{number}"), description, from_end=True)
        if item.problem != _MISSING:
            yield item


def kernel_files(root: Path) -> Iterator[Item]:
    """Yield files of sysfs and procfs, and words of the kernel's command line."""
    item = _file(root, Path("/proc/cmdline"), _KERNEL)
    if item.is_included:
        words = item.content.decode(errors="replace").split()
        known = " ".join(filter(_KERNEL_WORD.fullmatch, words))
        problem = "only words about memory, CPUs and cgroups"
        item = replace(item, content=f"{known}\n".encode(), problem=problem)
    yield item
    for folder, pattern in _KERNEL_FILES:
        for path in _matching(root, folder, pattern):
            yield _file(root, path, _KERNEL)


def journal(*, is_this_host: bool) -> Item:
    """Return the plugin's last lines in the journal; no file without journalctl."""
    name, description = "journal.json", "the last records of the journal, one a line"
    program = which("journalctl")
    if not is_this_host:
        return Item(name, description, problem="left out: it is not below another root directory")
    if program is None:
        return Item(name, description, problem="journalctl is not installed")
    command = [program, "-t", SYSLOG_IDENTIFIER, "-n", str(_JOURNAL_LINES)]
    try:
        process = subprocess.Popen(  # noqa: S603 - a fixed command
            [*command, "-o", "json", "--all", "--no-pager"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return Item(name, description, problem=str(error))
    timer = threading.Timer(_JOURNAL_WAIT_S, process.kill)
    timer.start()
    content = bytearray()
    with process:
        while process.stdout and (chunk := process.stdout.read(_CHUNK_BYTES)):
            content += chunk
            if len(content) > 2 * LOG_LIMIT_BYTES:
                del content[:-LOG_LIMIT_BYTES]
    timer.cancel()
    problem = ""
    if process.returncode < 0:
        problem = f"timed out after {_JOURNAL_WAIT_S} s"
    elif process.returncode:
        problem = f"journalctl ended with exit status {process.returncode}"
    return Item(name, description, bytes(content[-LOG_LIMIT_BYTES:]), problem)


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
    return _cut(Item(name, description, text.encode(errors="replace")), FILE_LIMIT_BYTES)


_MISSING = "does not exist"


def _matching(root: Path, folder: str, pattern: str) -> Iterable[Path]:
    """Return the paths on the host of what matches a pattern in a folder."""
    try:
        directory = resolved(root, f"/{folder}")
        return [
            Path("/", folder, x.relative_to(directory)) for x in sorted(directory.glob(pattern))
        ]
    except (OSError, UsageError):
        return [Path("/", folder)]  # reading it gives the reason


def _file(root: Path, path: Path, description: str, *, from_end: bool = False) -> Item:
    """Return the beginning or the end of a regular file of the host."""
    item = Item(_name(path), description)
    limit_bytes = LOG_LIMIT_BYTES if from_end else FILE_LIMIT_BYTES

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=directory)

    try:
        with (
            _opened_directory(root, path.parent) as directory,
            open(path.name, "rb", opener=opener) as file,
        ):
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return replace(item, problem="left out: not a regular file")
            if from_end and found.st_size > limit_bytes:
                file.seek(-limit_bytes, os.SEEK_END)
                problem = f"only the last {limit_bytes} bytes"
                return replace(item, content=file.read(limit_bytes), problem=problem)
            return _cut(replace(item, content=file.read(limit_bytes + 1)), limit_bytes)
    except FileNotFoundError:
        return replace(item, problem=_MISSING)
    except (OSError, UsageError) as error:
        return replace(item, problem=_reason(error))


@contextlib.contextmanager
def _opened_directory(root: Path, path: Path) -> Iterator[int]:
    """Open a directory of the host; raise OSError, or UsageError for its links.

    A part that became a link after its path was resolved is an error.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(root, flags)
    try:
        for part in resolved(root, path).relative_to(root).parts:
            parent = descriptor
            descriptor = os.open(part, flags | os.O_NOFOLLOW, dir_fd=parent)
            os.close(parent)
        yield descriptor
    finally:
        os.close(descriptor)


def _cut(item: Item, limit_bytes: int) -> Item:
    if len(item.content) <= limit_bytes:
        return item
    problem = f"only the first {limit_bytes} bytes"
    return replace(item, content=item.content[:limit_bytes], problem=problem)


def _name(path: Path) -> str:
    return escape(f"files{path.absolute()}")


def _reason(error: OSError | UsageError) -> str:
    if isinstance(error, UsageError):
        return str(error)
    return "left out: a symbolic link" if error.errno == errno.ELOOP else reason_of(error)
