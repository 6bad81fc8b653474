"""Find the cgroups of pods and containers, and read what they say about memory placement.

The runtime names a cgroup in three notations: a literal path (cgroupfs driver), a path of systemd
slices, or only the last slice of it (CRI-O); a container's is a path below its pod's, or
"slice:prefix:id". All of them lead to one directory below the cgroup root: cgroup v2, or with v1
the directory of the controller in question.

A cgroup that is not there (yet, or any more) is an ordinary answer, not an error.
Source: systemd.slice(5) for nested slices; runc and crun for the scope's name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nri_numamem.machine.sysfs import MachineError, entries_of, read_optional, shorten
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.quantity import parse_page_size

CGROUP_ROOT = Path("/sys/fs/cgroup")

_SLICE = ".slice"
# Reservation limits (hugetlb.2MB.rsvd.max) have one part more and do not match.
_HUGEPAGE_LIMIT = re.compile(r"hugetlb\.(\d+[KMGT]?B)\.(?:max|limit_in_bytes)", re.ASCII)
# The kernel's NAME_MAX, which systemd's names of units keep as well.
_NAME_LIMIT_BYTES = 255
_COUNT = re.compile(r"\d{1,19}", re.ASCII)
# cgroup v1 has no word for "no limit": it shows 2^63 rounded down to whole pages. No machine has
# half of that.
_NO_LIMIT_BYTES = 2**62


@dataclass(frozen=True, slots=True)
class CpusetMems:
    """The NUMA nodes of a cgroup."""

    configured: NodeSet
    """cpuset.mems as written; empty when nobody wrote it (the parent's nodes are used)."""
    effective: NodeSet
    """The nodes that the kernel allocates from."""


def cgroup_directory(cgroup_root: Path, cgroup_path: str, controller: str) -> Path | None:
    """Return the directory of a pod's or container's cgroup; it need not exist.

    `cgroup_path` is NRI's cgroup_parent or cgroups_path in any notation; `controller` ("cpuset",
    "hugetlb") is looked at with cgroup v1 only. None for a name that can be no cgroup's.
    """
    relative = _relative_path(cgroup_path)
    if relative is None or not all(map(_is_name, relative.parts)):
        return None
    is_v2 = (cgroup_root / "cgroup.controllers").exists()
    return (cgroup_root if is_v2 else cgroup_root / controller) / relative


def pod_hugepage_limits(cgroup_root: Path, cgroup_parent: str) -> Mapping[int, int]:
    """Return page size in bytes -> limit in bytes of the pod's cgroup, ascending.

    Sizes without a limit are left out; empty when there is no such cgroup. The kubelet writes the
    pod's sum here. Raises MachineError for content that no kernel writes.
    """
    directory = cgroup_directory(cgroup_root, cgroup_parent, "hugetlb")
    limits: dict[int, int] = {}
    for path in entries_of(directory) if directory else ():
        found = _HUGEPAGE_LIMIT.fullmatch(path.name)
        text = read_optional(path) if found else None
        if found is None or text is None or text == "max":
            continue
        if not _COUNT.fullmatch(text):
            raise MachineError(path, f"{shorten(text)} is not a limit in bytes")
        if int(text) < _NO_LIMIT_BYTES:
            limits[_page_size(path, found[1])] = int(text)
    return dict(sorted(limits.items()))


def _page_size(path: Path, text: str) -> int:
    try:
        return parse_page_size(text)
    except ValueError as error:
        raise MachineError(path, str(error)) from error


def container_cpuset_mems(cgroup_root: Path, cgroups_path: str) -> CpusetMems | None:
    """Return the NUMA nodes of a container's cgroup; None when there is no such cgroup.

    Raises MachineError for content that no kernel writes.
    """
    directory = cgroup_directory(cgroup_root, cgroups_path, "cpuset")
    if directory is None:
        return None
    configured = _read_nodes(directory / "cpuset.mems")
    effective = _read_nodes(directory / "cpuset.mems.effective")
    if effective is None:
        effective = _read_nodes(directory / "cpuset.effective_mems")  # cgroup v1
    if configured is None or effective is None:
        return None
    return CpusetMems(configured, effective)


def _read_nodes(path: Path) -> NodeSet | None:
    text = read_optional(path)
    try:
        return None if text is None else NodeSet.parse(text)
    except ValueError as error:
        raise MachineError(path, f"{shorten(text or '')} is not a list of NUMA nodes") from error


def _relative_path(cgroup_path: str) -> PurePosixPath | None:
    """Return the cgroup's path below the root, None for a name that can be no cgroup's."""
    slice_name, colon, scope = cgroup_path.partition(":")
    if colon:
        prefix, colon, container_id = scope.partition(":")
        parent = _relative_path(slice_name)
        is_scope = colon and container_id and "/" not in scope and slice_name.endswith(_SLICE)
        return parent / f"{prefix}-{container_id}.scope" if parent and is_scope else None
    parts = [part for part in cgroup_path.split("/") if part]
    if not parts or any(part in (".", "..") for part in parts):
        return None
    if len(parts) == 1 and parts[0].endswith(_SLICE):
        parts = _slice_parts(parts[0])
    return PurePosixPath(*parts) if parts else None


def _is_name(part: str) -> bool:
    """Tell whether a cgroup can have this name. Source: kernel cgroup.c, cgroup_mkdir."""
    size_bytes = len(part.encode(errors="replace"))
    return size_bytes <= _NAME_LIMIT_BYTES and "\0" not in part and "\n" not in part


def _slice_parts(name: str) -> list[str]:
    """Return the slices that a slice lies in, and itself: a-b.slice is in a.slice.

    Empty for a name that systemd refuses (an empty part, or too long). Source: systemd.slice(5).
    """
    words = name.removesuffix(_SLICE).split("-")
    if not all(words) or len(name) > _NAME_LIMIT_BYTES:
        return []
    return ["-".join(words[:count]) + _SLICE for count in range(1, len(words) + 1)]
