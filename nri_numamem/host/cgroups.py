"""Find the cgroups of pods and containers, and read their memory placement and limits.

Runtimes name a pod's cgroup in three notations: a literal path (cgroupfs driver), a path of systemd
slices, or only the last slice (CRI-O). They name a container's cgroup as a path below its pod's or
as "slice:prefix:id". Each notation maps to one directory below the cgroup root with cgroup v2, and
to one directory per controller with v1.

A missing cgroup is not an error: it may not exist yet, or no longer.
Source: systemd.slice(5) for nested slices; runc and crun for the scope's name.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from nri_numamem.host.sysfs import MachineError, names_in, read_nodes, read_optional, shorten
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import parse_page_size

# With cgroup v2, crun puts a container's processes into this cgroup below the systemd scope. Older
# versions set limits only here. Any container that may write to its cgroup can make it too, so its
# values count only where the scope has none.
CRUN_CHILD = "container"

_SLICE = ".slice"
# Reservation limits (hugetlb.2MB.rsvd.max) have one more part and do not match.
_HUGEPAGE_LIMIT = re.compile(r"hugetlb\.(\d+[KMGT]?B)\.(?:max|limit_in_bytes)", re.ASCII)
# The kernel's NAME_MAX; systemd's unit names have the same limit.
_NAME_LIMIT_BYTES = 255
# The kernel's PATH_MAX.
_PATH_LIMIT_CHARACTERS = 4096
_COUNT = re.compile(r"\d{1,19}", re.ASCII)
# cgroup v1 shows "no limit" as 2^63 rounded down to whole pages, twice what a machine can have.
_NO_LIMIT_BYTES = 2**62


def cgroup_directory(cgroup_root: Path, cgroup_path: str, controller: str) -> Path | None:
    """Return the directory of a pod's or container's cgroup, whether or not it exists.

    `cgroup_path` is NRI's cgroup_parent or cgroups_path in any notation; `controller` ("cpuset",
    "hugetlb") matters for cgroup v1 only. Return None for an invalid cgroup name.
    """
    name = _directory_name(cgroup_root, cgroup_path, controller)
    return Path(name) if name else None


def controller_directory(cgroup_root: Path, directory: Path, controller: str) -> Path:
    """Return the directory in another controller of the cgroup with this cpuset directory."""
    cpuset_v1 = cgroup_root / "cpuset"
    if not directory.is_relative_to(cpuset_v1):
        return directory
    return cgroup_root / controller / directory.relative_to(cpuset_v1)


def cgroup_exists(cgroup_root: Path, cgroup_path: str) -> bool:
    """Return whether a pod or container has a cgroup, with v1 one of the cpuset controller."""
    name = _directory_name(cgroup_root, cgroup_path, "cpuset")
    return bool(name) and os.path.isdir(name)  # noqa: PTH112 - a string


def _directory_name(cgroup_root: Path, cgroup_path: str, controller: str) -> str:
    # A string, because making a Path takes longer than reading a file, and a Synchronize calls this
    # twice for each container of the host.
    parts = _parts(cgroup_path) if len(cgroup_path) < _PATH_LIMIT_CHARACTERS else ()
    if not parts or not all(map(_is_name, parts)):
        return ""
    root = str(cgroup_root)
    if not os.path.exists(f"{root}/cgroup.controllers"):  # noqa: PTH110 - a string
        root = f"{root}/{controller}"
    return f"{root}/{'/'.join(parts)}"


def pod_hugepage_limits(cgroup_root: Path, cgroup_parent: str) -> Mapping[int, int]:
    """Return page size in bytes -> limit in bytes of the pod's cgroup, ascending.

    Sizes without a limit are left out; a missing cgroup has none. The kubelet writes the pod's sum
    to these files. Raises MachineError for content that no kernel writes.
    """
    directory = _directory_name(cgroup_root, cgroup_parent, "hugetlb")
    limits: dict[int, int] = {}
    for name in names_in(directory) if directory else ():
        found = _HUGEPAGE_LIMIT.fullmatch(name)
        if found is not None:
            path = f"{directory}/{name}"
            limit_bytes = limit_of(path)
            if limit_bytes is not None:
                limits[_page_size(path, found[1])] = limit_bytes
    return dict(sorted(limits.items()))


def pod_memory_limit(cgroup_root: Path, cgroup_parent: str) -> int | None:
    """Return the present memory limit in bytes of the pod's cgroup; None without a limit.

    The kubelet writes the pod's limit and the overhead of its RuntimeClass into it, and changes it
    before a container of the pod gets more memory. A missing cgroup has none. Raises MachineError
    for content that no kernel writes.
    """
    directory = _directory_name(cgroup_root, cgroup_parent, "memory")
    if not directory:
        return None
    limit_bytes = limit_of(f"{directory}/memory.max")
    return limit_of(f"{directory}/memory.limit_in_bytes") if limit_bytes is None else limit_bytes


def limit_of(path: Path | str) -> int | None:
    """Return the limit in bytes in a cgroup's file; None for "max" and for a missing file."""
    text = read_optional(path)
    if text is None or text == "max":
        return None
    if not _COUNT.fullmatch(text):
        raise MachineError(path, f"{shorten(text)} is not a limit in bytes")
    return int(text) if int(text) < _NO_LIMIT_BYTES else None


def _page_size(path: str, text: str) -> int:
    try:
        return parse_page_size(text)
    except ValueError as error:
        raise MachineError(path, str(error)) from error


def container_directory(cgroup_root: Path, cgroups_path: str) -> str:
    """Return the cpuset directory of a container, whether or not it exists; "" if it is invalid."""
    return _directory_name(cgroup_root, cgroups_path, "cpuset")


def set_mems(directory: Path | str) -> NodeSet | None:
    """Return the `cpuset.mems` that was set for a container, empty when it was not set.

    `directory` is that of its cpuset: the scope with the systemd driver. None for a directory
    without a cpuset.
    """
    nodes = read_nodes(f"{directory}/cpuset.mems")
    if nodes is None:
        return None
    # In cgroup v1 `cpuset.mems` is never empty: runtimes initialise it with the parent's. crun
    # makes no child there.
    if os.path.exists(f"{directory}/cpuset.effective_mems"):  # noqa: PTH110 - a string
        inherited = read_nodes(f"{Path(directory).parent}/cpuset.mems")
        return NodeSet() if nodes == inherited else nodes
    return nodes or read_nodes(f"{directory}/{CRUN_CHILD}/cpuset.mems") or nodes


def effective_mems(directory: Path | str) -> NodeSet:
    """Return the nodes from which a container gets memory; empty if unknown.

    `directory` is that of its cpuset. Raises MachineError for content that no kernel writes.
    """
    nodes = read_nodes(f"{directory}/cpuset.mems.effective")
    if nodes is None:
        nodes = read_nodes(f"{directory}/cpuset.effective_mems")
    return nodes or NodeSet()


def _parts(cgroup_path: str) -> list[str]:
    """Return the parts of the cgroup's path below the root; empty for an invalid name."""
    slice_name, colon, scope = cgroup_path.partition(":")
    if colon:
        prefix, colon, container_id = scope.partition(":")
        parent = _parts(slice_name)
        is_scope = colon and container_id and "/" not in scope and slice_name.endswith(_SLICE)
        return [*parent, f"{prefix}-{container_id}.scope"] if parent and is_scope else []
    parts = [part for part in cgroup_path.split("/") if part]
    if not parts or any(part in (".", "..") for part in parts):
        return []
    if len(parts) == 1 and parts[0].endswith(_SLICE):
        return _slice_parts(parts[0])
    return parts


def _is_name(part: str) -> bool:
    """Return whether a cgroup can have this name. Source: kernel cgroup.c, cgroup_mkdir."""
    size_bytes = len(part.encode(errors="replace"))
    return size_bytes <= _NAME_LIMIT_BYTES and "\0" not in part and "\n" not in part


def _slice_parts(name: str) -> list[str]:
    """Return a slice's ancestors and itself: a.slice and a-b.slice for a-b.slice.

    Empty for a name that systemd refuses (with an empty part, or too long).
    Source: systemd.slice(5).
    """
    words = name.removesuffix(_SLICE).split("-")
    if not all(words) or len(name) > _NAME_LIMIT_BYTES:
        return []
    return ["-".join(words[:count]) + _SLICE for count in range(1, len(words) + 1)]
