"""Finds what runs in the cgroups of pods, whoever was told of it.

A pod's cgroup holds those of its containers, which runtimes name after their ids, and pods lie
side by side below one parent. This is all that a look at the tree shows: no container's name, and
no pod's name. Directories are given and returned as they are with cgroup v2, or with v1 in the
hierarchy of the cpuset controller. What is missing there was never there, or has just ended.

Sources: the scopes' names of containerd pkg/cri and CRI-O internal/config/cgmgr; the kubelet's
pod container manager for pods.
"""

import os
import re
from pathlib import Path

from nri_numamem.machine.cgroups import CRUN_CHILD, limit_of, set_mems
from nri_numamem.machine.sysfs import MachineError, read_optional
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.values import valueclass

# Both runtimes draw 32 bytes as an id. CRI-O's monitor, "crio-conmon-<id>", is no container.
_CONTAINER = re.compile(r"(?:cri-containerd-|crio-)?([0-9a-f]{64})(?:\.scope)?", re.ASCII)
# systemd escapes "-" inside a level, so the kubelet writes a uid's as "_".
_POD = re.compile(r"(?:.+-pod([0-9a-z_]+)\.slice|pod([0-9a-z-]+))", re.ASCII)


@valueclass(frozen=True, slots=True)
class RunningContainer:
    """What the cgroup of a container with processes says."""

    memory_limit_bytes: int
    mems: NodeSet
    """`cpuset.mems` as somebody set it; empty when nobody did."""


def container_folders(pod_directory: Path) -> dict[str, str]:
    """Return container id -> name of its cgroup in the pod's, the pause container included."""
    found = ((_CONTAINER.fullmatch(name), name) for name in _names(pod_directory))
    return {match[1]: name for match, name in found if match}


def pod_directories(parent: Path) -> dict[str, Path]:
    """Return pod uid -> cgroup of the pods that lie directly below `parent`."""
    found = ((_POD.fullmatch(name), name) for name in _names(parent))
    return {match[2] or match[1].replace("_", "-"): parent / name for match, name in found if match}


def is_populated(directory: Path) -> bool:
    """Tell whether there are processes in a container's cgroup."""
    events = read_optional(directory / "cgroup.events")
    if events is not None:
        return "populated 1" in events.splitlines()
    places = (directory, directory / CRUN_CHILD)
    return any(read_optional(place / "cgroup.procs") for place in places)


def running_container(cgroup_root: Path, directory: Path) -> RunningContainer | None:
    """Return what runs in a container's cgroup.

    None when it has no processes, no cpuset or no memory limit. Raises MachineError for content
    that no kernel writes.
    """
    mems = set_mems(directory) if is_populated(directory) else None
    limit_bytes = None if mems is None else _memory_limit(cgroup_root, directory)
    if mems is None or limit_bytes is None:
        return None
    return RunningContainer(limit_bytes, mems)


def cgroup_path(cgroup_root: Path, directory: Path) -> str:
    """Return the literal path of a directory's cgroup, as cgroup_directory takes it."""
    cpuset_v1 = cgroup_root / "cpuset"
    top = cpuset_v1 if directory.is_relative_to(cpuset_v1) else cgroup_root
    return f"/{directory.relative_to(top)}"


def _memory_limit(cgroup_root: Path, directory: Path) -> int | None:
    cpuset_v1 = cgroup_root / "cpuset"
    if directory.is_relative_to(cpuset_v1):
        directory = cgroup_root / "memory" / directory.relative_to(cpuset_v1)
    for place in (directory, directory / CRUN_CHILD):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit_bytes = limit_of(place / name)
            if limit_bytes is not None:
                return limit_bytes
    return None


def _names(directory: Path) -> list[str]:
    # Names only, which takes a tenth of the time. Files are among them, but none has a name that
    # is looked for.
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        remedy = "run as root with the host's cgroups mounted"
        raise MachineError(directory, error.strerror or type(error).__name__, remedy) from error
