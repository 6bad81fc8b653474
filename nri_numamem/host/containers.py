"""Find running containers by the cgroups of their pods.

A pod's cgroup contains the cgroups of its containers, which have the container ids in their names;
pods are siblings below one parent. The tree has no names of pods or containers. All directories are
those of cgroup v2, or of the cpuset controller with v1. A missing directory means that the pod or
container does not exist or has just ended.

Sources: containerd pkg/cri and CRI-O internal/config/cgmgr for scope names; the kubelet's pod
container manager for names of pod cgroups.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.host.cgroups import CRUN_CHILD, controller_directory, limit_of, set_mems
from nri_numamem.host.sysfs import MachineError, names_in, read_optional
from nri_numamem.numa.idset import NodeSet

# Both runtimes use 32 random bytes as an id. "crio-conmon-<id>" is CRI-O's monitor process.
_CONTAINER = re.compile(r"(?:cri-containerd-|crio-)?([0-9a-f]{64})(?:\.scope)?", re.ASCII)
# systemd reserves "-" as separator, so the kubelet writes the "-" of a uid as "_".
_POD = re.compile(r"(?:.+-pod([0-9a-z_]+)\.slice|pod([0-9a-z-]+))", re.ASCII)

# The index of `starttime` in the fields after the name.
_START_AFTER_NAME = 19


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """Placement and limit of a container that has processes."""

    memory_limit_bytes: int
    mems: NodeSet
    """The `cpuset.mems` that was set; empty when it was not set."""


def container_folders(pod_directory: Path) -> dict[str, str]:
    """Return container id -> directory name in the pod's cgroup, the pause container included."""
    found = ((_CONTAINER.fullmatch(name), name) for name in _names(pod_directory))
    return {match[1]: name for match, name in found if match}


def pod_directories(parent: Path) -> dict[str, Path]:
    """Return pod uid -> cgroup directory of the pods directly below `parent`."""
    found = ((_POD.fullmatch(name), name) for name in _names(parent))
    return {match[2] or match[1].replace("_", "-"): parent / name for match, name in found if match}


def is_populated(directory: Path) -> bool:
    """Return whether a container's cgroup has processes."""
    events = read_optional(directory / "cgroup.events")
    if events is not None:
        return "populated 1" in events.splitlines()
    places = (directory, directory / CRUN_CHILD)
    return any(read_optional(place / "cgroup.procs") for place in places)


def running_container(cgroup_root: Path, directory: Path) -> RunningContainer | None:
    """Return the container that runs in a cgroup.

    None when the cgroup has no processes, no cpuset or no memory limit. Raises MachineError for
    content that no kernel writes.
    """
    mems = set_mems(directory) if is_populated(directory) else None
    limit_bytes = None if mems is None else memory_limit(cgroup_root, directory)
    if mems is None or limit_bytes is None:
        return None
    return RunningContainer(limit_bytes, mems)


def process_start(proc_root: Path, pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if there is no such process.

    Source: proc_pid_stat(5), field 22; the name in field 2 may contain any character.
    """
    try:
        text = read_optional(proc_root / str(pid) / "stat") if pid > 0 else None
        return 0 if text is None else int(text.rpartition(")")[2].split()[_START_AFTER_NAME])
    except (MachineError, ValueError, IndexError):
        return 0


def cgroup_path(cgroup_root: Path, directory: Path) -> str:
    """Return the literal cgroup path of a directory, the inverse of ``cgroup_directory``."""
    cpuset_v1 = cgroup_root / "cpuset"
    top = cpuset_v1 if directory.is_relative_to(cpuset_v1) else cgroup_root
    return f"/{directory.relative_to(top)}"


def memory_limit(cgroup_root: Path, directory: Path) -> int | None:
    """Return the memory limit in bytes of a container; `directory` is that of its cpuset.

    None without a limit. Raises MachineError for content that no kernel writes.
    """
    directory = controller_directory(cgroup_root, directory, "memory")
    for place in (directory, directory / CRUN_CHILD):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit_bytes = limit_of(place / name)
            if limit_bytes is not None:
                return limit_bytes
    return None


def _names(directory: Path) -> list[str]:
    # The names include files, but no file matches the patterns above.
    return sorted(names_in(directory, "run as root with the host's cgroups mounted"))
