"""The few kinds of file that sysfs has, read strictly, and the directories worth visiting.

A file of the kernel is one short line or a small table. Anything else (a truncated copy, a
mock-up gone wrong, a directory in its place) is reported as ``MachineError`` and never guessed
at. What the numbers mean is the business of the modules that ask for them.
"""

import errno
import os
import re
from pathlib import Path

from nri_numamem.memorymanager.nodeset import NODE_ID_LIMIT
from nri_numamem.memorymanager.quantity import MAX_BYTES

# A sysfs file is at most one page of the kernel, up to 64 KiB; /proc/meminfo is smaller.
_FILE_LIMIT_BYTES = 64 * 1024
# More is no page size of any architecture (the largest, 16 GiB, has 24 bits in kB).
_PAGE_SIZE_LIMIT_KB = 2**40

_NODE = re.compile(r"node(0|[1-9]\d*)", re.ASCII)
_POOL = re.compile(r"hugepages-(\d{1,13})kB", re.ASCII)
_COUNT = re.compile(r"\d{1,19}", re.ASCII)

_BROKEN_REMEDY = "compare it with the same file of a healthy host, and report a kernel bug if real"


class MachineError(Exception):
    """The machine cannot be read; the text is one line, "FILE: PROBLEM; REMEDY"."""

    def __init__(self, path: Path | str, problem: str, remedy: str = _BROKEN_REMEDY) -> None:
        self.path = Path(path)
        name = str(path)  # may be made of what a runtime called a cgroup
        super().__init__(f"{name if name.isprintable() else ascii(name)}: {problem}; {remedy}")


def read_optional(path: Path | str) -> str | None:
    """Return the file's text without surrounding white space, None when there is no such file.

    A cgroup that is removed while its file is open counts as missing (ENODEV). Raises MachineError
    when the file is there and cannot be read.
    """
    try:
        content = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENODEV:
            return None
        remedy = "run as root with the host's sysfs and procfs mounted"
        raise MachineError(path, error.strerror or type(error).__name__, remedy) from error
    if len(content) > _FILE_LIMIT_BYTES:
        raise MachineError(path, f"more than {_FILE_LIMIT_BYTES} bytes")
    return content.decode("ascii", errors="replace").strip()


def _read(path: Path | str) -> bytes:
    """Return what is in a file, but not much more than the limit."""
    # Not open(), which takes three times as long: a container's creation may wait for it.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        content = os.read(descriptor, _FILE_LIMIT_BYTES + 1)
        # The kernel may tell a long file in pieces.
        while content and len(content) <= _FILE_LIMIT_BYTES:
            piece = os.read(descriptor, _FILE_LIMIT_BYTES)
            if not piece:
                break
            content += piece
    finally:
        os.close(descriptor)
    return content


def read_text(path: Path) -> str:
    """Return the file's text without surrounding white space; MachineError when it is missing."""
    text = read_optional(path)
    if text is None:
        raise MachineError(path, "no such file", "mount the host's sysfs and procfs here")
    return text


def read_count(path: Path) -> int:
    """Return the whole number, at least 0 and within int64, that is all that the file holds."""
    text = read_text(path)
    count = int(text) if _COUNT.fullmatch(text) else -1
    if not 0 <= count <= MAX_BYTES:
        raise MachineError(path, f"{shorten(text)} is not a count")
    return count


def shorten(text: str) -> str:
    """Quote a file's content within one short line."""
    return repr(text) if len(text) <= 60 else f"{text[:57]!r}..."


def node_directories(sysfs_root: Path) -> dict[int, Path]:
    """Return the directory of each online NUMA node by its id, ascending.

    Empty for a kernel without NUMA. Source: kernel drivers/base/node.c, ``node<N>``.
    """
    found: dict[int, Path] = {}
    for path in entries_of(sysfs_root / "devices/system/node"):
        match = _NODE.fullmatch(path.name)
        if match is None or not path.is_dir():
            continue
        node_id = int(match[1])
        if node_id >= NODE_ID_LIMIT:
            raise MachineError(path, f"NUMA node ids end at {NODE_ID_LIMIT - 1}")
        found[node_id] = path
    return dict(sorted(found.items()))


def pool_directories(parent: Path) -> dict[int, Path]:
    """Return the directory of each hugepage pool below `parent` by page size in bytes, ascending.

    Empty when there is no such directory: a kernel without hugepages. Source: kernel
    Documentation/admin-guide/mm/hugetlbpage.rst, ``hugepages-<size>kB``.
    """
    found: dict[int, Path] = {}
    for path in entries_of(parent):
        match = _POOL.fullmatch(path.name)
        size_kb = int(match[1]) if match else 0
        if size_kb.bit_count() != 1 or size_kb > _PAGE_SIZE_LIMIT_KB:
            raise MachineError(path, "the name is not that of a hugepage pool")
        found[size_kb * 1024] = path
    return dict(sorted(found.items()))


def entries_of(directory: Path) -> list[Path]:
    """Return what is in a directory, in no order; nothing when there is no such directory."""
    return [directory / name for name in names_in(directory)]


def names_in(directory: Path | str) -> list[str]:
    """Return the same as names, which takes a tenth of the time."""
    try:
        return os.listdir(directory)  # noqa: PTH208 - see above
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        remedy = "run as root with the host's sysfs mounted"
        raise MachineError(directory, error.strerror or type(error).__name__, remedy) from error
