"""Read files of sysfs and procfs strictly, and list directories of NUMA nodes and pools.

Such a file is one short line or a small table. Anything else, such as a truncated copy or a
directory in its place, raises ``MachineError``. The callers interpret the numbers. Paths of many
files are strings: making a ``Path`` takes as long as reading a file.
"""

import errno
import os
import re
from pathlib import Path

from nri_numamem.numa.idset import NODE_ID_LIMIT, NodeSet
from nri_numamem.numa.quantity import MAX_BYTES

# A sysfs file has at most one page, which is up to 64 KiB; /proc/meminfo is smaller.
_FILE_LIMIT_BYTES = 64 * 1024
# No architecture has a larger page size (the largest is 16 GiB, 2^24 kB).
_PAGE_SIZE_LIMIT_KB = 2**40

_NODE = re.compile(r"node(0|[1-9]\d*)", re.ASCII)
_POOL = re.compile(r"hugepages-(\d{1,13})kB", re.ASCII)
_COUNT = re.compile(r"\d{1,19}", re.ASCII)

_BROKEN_REMEDY = "compare it with the same file of a healthy host, and report a kernel bug if real"


class MachineError(Exception):
    """The machine cannot be read; the text is one line, "FILE: PROBLEM; REMEDY"."""

    def __init__(self, path: Path | str, problem: str, remedy: str = _BROKEN_REMEDY) -> None:
        self.path = Path(path)
        name = str(path)  # may contain a runtime's name of a cgroup
        super().__init__(f"{name if name.isprintable() else ascii(name)}: {problem}; {remedy}")


def read_optional(path: Path | str) -> str | None:
    """Return a file's text without surrounding white space; None for a missing file.

    An open file counts as missing if its cgroup is removed (ENODEV). Raises MachineError for a file
    that exists and cannot be read.
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
    """Return a file's content, or its first bytes if it is larger than the limit."""
    # open() takes three times as long, and a container's creation may wait for this.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        content = os.read(descriptor, _FILE_LIMIT_BYTES + 1)
        # One read may return only a part of a long file.
        while content and len(content) <= _FILE_LIMIT_BYTES:
            piece = os.read(descriptor, _FILE_LIMIT_BYTES)
            if not piece:
                break
            content += piece
    finally:
        os.close(descriptor)
    return content


def read_text(path: Path | str) -> str:
    """Return a file's text without surrounding white space; raise MachineError if it is missing."""
    text = read_optional(path)
    if text is None:
        raise MachineError(path, "no such file", "mount the host's sysfs and procfs here")
    return text


def read_count(path: Path | str) -> int:
    """Return a file's only content, a whole number from 0 to the largest int64."""
    text = read_text(path)
    count = int(text) if _COUNT.fullmatch(text) else -1
    if not 0 <= count <= MAX_BYTES:
        raise MachineError(path, f"{shorten(text)} is not a count")
    return count


def read_nodes(path: str) -> NodeSet | None:
    """Return the NUMA nodes in a file; None for a missing file."""
    text = read_optional(path)
    try:
        return None if text is None else NodeSet.parse(text)
    except ValueError as error:
        problem = f"{shorten(text or '')} is not a list of NUMA nodes such as 0-1,3"
        raise MachineError(path, problem) from error


def shorten(text: str) -> str:
    """Return a file's content, quoted, as one short line."""
    return repr(text) if len(text) <= 60 else f"{text[:57]!r}..."


def node_directories(sysfs_root: Path) -> dict[int, str]:
    """Return node id -> directory of the online NUMA nodes, ascending.

    Empty without NUMA in the kernel. Source: kernel drivers/base/node.c, ``node<N>``.
    """
    found: dict[int, str] = {}
    parent = f"{sysfs_root}/devices/system/node"
    for name in names_in(parent):
        match = _NODE.fullmatch(name)
        path = f"{parent}/{name}"
        if match is None or not os.path.isdir(path):  # noqa: PTH112 - a string
            continue
        node_id = int(match[1])
        if node_id >= NODE_ID_LIMIT:
            raise MachineError(path, f"NUMA node ids end at {NODE_ID_LIMIT - 1}")
        found[node_id] = path
    return dict(sorted(found.items()))


def pool_directories(parent: Path | str) -> dict[int, str]:
    """Return page size in bytes -> directory of the hugepage pools below `parent`, ascending.

    Empty for a missing directory (a kernel without hugepages). Source: kernel
    Documentation/admin-guide/mm/hugetlbpage.rst, ``hugepages-<size>kB``.
    """
    found: dict[int, str] = {}
    for name in names_in(parent):
        match, path = _POOL.fullmatch(name), f"{parent}/{name}"
        size_kb = int(match[1]) if match else 0
        if size_kb.bit_count() != 1 or size_kb > _PAGE_SIZE_LIMIT_KB:
            raise MachineError(path, "the name is not that of a hugepage pool")
        found[size_kb * 1024] = path
    return dict(sorted(found.items()))


def names_in(
    directory: Path | str, remedy: str = "run as root with the host's sysfs mounted"
) -> list[str]:
    """Return the names of a directory's entries in no order; none for a missing directory.

    `remedy` is for the error of a directory that cannot be read.
    """
    try:
        return os.listdir(directory)  # noqa: PTH208 - a tenth of the time of Path.iterdir
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise MachineError(directory, error.strerror or type(error).__name__, remedy) from error
