"""What uses hugepages outside of pods: processes, and files that no process has mapped.

A process is found by HugetlbPages in its status, which has neither page size nor node. Its
numa_maps has both; the kernel walks all page tables of the process for it, so it is read only for
processes with hugepages, the largest first, up to a limit. A file in hugetlbfs keeps its pages
after the process that wrote them; its nodes are unknown. Segments of System V shared memory that
no process has attached cannot be found: nothing shows their page size.

Sources: proc_pid_status(5), HugetlbPages; proc_pid_numa_maps(5); kernel fs/proc/task_mmu.c,
show_numa_map; Documentation/admin-guide/mm/hugetlbpage.rst for hugetlbfs. `stat` shows the pages of
a file in hugetlbfs as its blocks.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from nri_numamem.host.sysfs import MachineError, names_in, read_optional
from nri_numamem.numa.quantity import hugepages_resource

_PAGES = re.compile(r"^HugetlbPages:\s+(\d{1,16}) kB$", re.ASCII | re.MULTILINE)
_NAME = re.compile(r"^Name:\s+(.*)$", re.MULTILINE)
_POD = re.compile(r"[/-]kubepods[/.-]|[/-]kubepods$", re.MULTILINE)

# Such as "7efc64a00000 default file=/dev/hugepages/a huge dirty=1 N0=1 kernelpagesize_kB=2048"
_PAGE_SIZE = re.compile(r" kernelpagesize_kB=([1-9]\d{0,11})\b", re.ASCII)
_ON_NODE = re.compile(r" N(\d{1,4})=(\d{1,12})\b", re.ASCII)
_FILE = re.compile(r" file=(\S+)")
_ESCAPED = re.compile(r"\\([0-3][0-7]{2})")

# Such as "none /dev/hugepages hugetlbfs rw,relatime,pagesize=1024M 0 0"
_MOUNT = re.compile(r"^\S+ (\S+) hugetlbfs \S*\bpagesize=([1-9]\d{0,8})([KM])\b", re.MULTILINE)
_UNIT_BYTES = {"K": 1 << 10, "M": 1 << 20}
_POD_VOLUME = "/volumes/kubernetes.io~"

_MAPS_LIMIT = 64
_MAPS_LIMIT_BYTES = 4 << 20
_FILES_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class HugepageUser:
    """A process with hugepages of any size."""

    pid: int
    name: str
    """The first 15 characters of its program's name; the process may have set any text."""
    size_bytes: int
    pages: Mapping[int, Mapping[str, int]] | None = None
    """NUMA node id -> resource name -> bytes, > 0; None if unknown."""


@dataclass(frozen=True, slots=True)
class HugepageFile:
    """A file in hugetlbfs that no process has mapped; its NUMA nodes are unknown."""

    path: str
    """On the host."""
    resource: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class HugepageUsers:
    """What uses hugepages outside of pods, the largest first."""

    processes: tuple[HugepageUser, ...] = ()
    files: tuple[HugepageFile, ...] = ()


def hugepage_users(proc_root: Path) -> HugepageUsers:
    """Return what uses hugepages outside of pods, as far as procfs shows it."""
    found = sorted(_users(proc_root), key=lambda one: (-one[0].size_bytes, one[0].pid))
    outside = [user for user, is_in_pod in found if not is_in_pod]
    maps = {user.pid: _read_maps(proc_root, user.pid) for user in outside[:_MAPS_LIMIT]}
    files = _files(proc_root)
    if files:
        for user, is_in_pod in found[:_MAPS_LIMIT]:
            if is_in_pod:
                maps[user.pid] = _read_maps(proc_root, user.pid)
    mapped = {name for known in maps.values() if known is not None for name in known.files}
    return HugepageUsers(
        tuple(_with_pages(user, maps.get(user.pid)) for user in outside),
        tuple(file for file in files if Path(file.path).name not in mapped),
    )


def _users(proc_root: Path) -> Iterator[tuple[HugepageUser, bool]]:
    """Yield the processes that use hugepages, and whether they belong to a pod."""
    for entry in names_in(proc_root):
        if not entry.isdecimal():
            continue
        try:
            status = read_optional(proc_root / entry / "status") or ""
            pages = _PAGES.search(status)
            if pages is None or pages[1] == "0":
                continue
            cgroup = read_optional(proc_root / entry / "cgroup") or ""
        except MachineError:
            continue  # a process that ends just now, or of another user
        name = _NAME.search(status)
        user = HugepageUser(int(entry), name[1] if name else "", int(pages[1]) * 1024)
        yield user, bool(_POD.search(cgroup))


@dataclass(frozen=True, slots=True)
class _Maps:
    """The mappings of a process that have hugepages."""

    pages: Mapping[int, Mapping[str, int]]
    files: frozenset[str]
    """Names of files without their directories, which differ between mount namespaces."""


def _with_pages(user: HugepageUser, maps: _Maps | None) -> HugepageUser:
    return user if maps is None else replace(user, pages=maps.pages)


def _read_maps(proc_root: Path, pid: int) -> _Maps | None:
    """Return the mappings; None if they cannot be read, are too long, or show no hugepages."""
    pages: dict[int, dict[str, int]] = {}
    files: set[str] = set()
    remaining_bytes = _MAPS_LIMIT_BYTES
    try:
        with (proc_root / str(pid) / "numa_maps").open("rb") as file:
            while line := file.readline(remaining_bytes + 1).decode("utf-8", "replace"):
                remaining_bytes -= len(line)
                if remaining_bytes < 0:
                    return None
                if " huge " in line:
                    _add_mapping(line, pages, files)
    except OSError:
        return None
    return _Maps(pages, frozenset(files)) if pages else None


def _add_mapping(line: str, pages: dict[int, dict[str, int]], files: set[str]) -> None:
    size, file = _PAGE_SIZE.search(line), _FILE.search(line)
    if size is None:
        return
    resource = hugepages_resource(int(size[1]) << 10)
    for node, count in _ON_NODE.findall(line):
        on_node = pages.setdefault(int(node), {})
        on_node[resource] = on_node.get(resource, 0) + (int(count) * int(size[1]) << 10)
    if file is not None:
        files.add(_unescaped(file[1]).removesuffix(" (deleted)").rpartition("/")[2])


def _files(proc_root: Path) -> list[HugepageFile]:
    """Return the files with hugepages, the largest first, without those in volumes of pods.

    The root directory and the mounts are those of the host's first process.
    """
    init = proc_root / "1"
    try:
        mounts = read_optional(init / "mounts") or ""
    except MachineError:
        return []
    found: list[HugepageFile] = []
    for escaped, count, unit in _MOUNT.findall(mounts):
        place = _unescaped(escaped)
        if _POD_VOLUME not in place:
            resource = hugepages_resource(int(count) * _UNIT_BYTES[unit])
            top = init / "root" / place.lstrip("/")
            for path, size_bytes in _sizes(top, _FILES_LIMIT - len(found)):
                found.append(HugepageFile(f"{place}{path}", resource, size_bytes))
    return sorted(found, key=lambda file: (-file.size_bytes, file.path))


def _sizes(top: Path, limit: int) -> Iterator[tuple[str, int]]:
    """Yield path and bytes of files below a directory, of at most `limit` entries."""
    directories = [""]
    while directories:
        parent = directories.pop()
        try:
            names = sorted(os.listdir(f"{top}{parent}"))  # noqa: PTH208 - a name may be any bytes
        except OSError:
            continue
        for name in names[: max(0, limit)]:
            limit -= 1
            path = f"{parent}/{name}"
            try:
                status = os.lstat(f"{top}{path}")
            except OSError:
                continue
            if S_ISREG(status.st_mode) and status.st_blocks:
                yield path, status.st_blocks * 512
            elif S_ISDIR(status.st_mode):
                directories.append(path)


def _unescaped(text: str) -> str:
    r"""Return a text of procfs without the escapes \\040 and others."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
