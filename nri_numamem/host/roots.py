"""Where a host's kernel file systems are mounted; a simulated host has directories of its own."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostRoots:
    """The mount points of sysfs, procfs and the cgroup file systems."""

    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")
