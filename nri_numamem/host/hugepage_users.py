"""Processes outside of pods that have hugepages mapped.

Source: proc_pid_status(5), HugetlbPages; any user may read it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.host.sysfs import MachineError, names_in, read_optional

_PAGES = re.compile(r"^HugetlbPages:\s+(\d{1,16}) kB$", re.ASCII | re.MULTILINE)
_NAME = re.compile(r"^Name:\s+(.*)$", re.MULTILINE)
_POD = re.compile(r"[/-]kubepods[/.-]|[/-]kubepods$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HugepageUser:
    """A process with hugepages of any size."""

    pid: int
    name: str
    """The first 15 characters of its program's name; the process may have set any text."""
    size_bytes: int


def hugepage_users(proc_root: Path) -> tuple[HugepageUser, ...]:
    """Return the processes outside of pods that use hugepages, the largest first."""
    return tuple(sorted(_users(proc_root), key=lambda user: (-user.size_bytes, user.pid)))


def _users(proc_root: Path) -> Iterator[HugepageUser]:
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
        if not _POD.search(cgroup):
            name = _NAME.search(status)
            yield HugepageUser(int(entry), name[1] if name else "", int(pages[1]) * 1024)
