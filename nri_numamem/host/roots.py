"""Where a host's files are; a simulated host has other directories."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostRoots:
    """The mount points of sysfs, procfs and the cgroups, and the kubelet's directory."""

    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")
    kubelet: Path = Path("/var/lib/kubelet")
