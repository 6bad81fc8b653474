"""The CPU requests of the containers of Guaranteed pods, from their cgroups.

A Guaranteed container requests as much CPU as its limit, which is exact in its CPU quota. Its
weight (cgroup v2) would not be: runtimes compute it by two formulas, and both lose digits. With
cgroup v1 the shares are exact too. Without a quota (the kubelet's `cpuCFSQuota: false`, or CPUs of
its own) the request of a container is unknown with cgroup v2.
Sources: kubelet pkg/kubelet/cm, MilliCPUToQuota and MilliCPUToShares; kernel cgroup-v2.rst.
"""

from pathlib import Path

from nri_numamem.engine.core.cpu_requests import MILLICORES
from nri_numamem.host.cgroups import CRUN_CHILD
from nri_numamem.host.containers import container_folders
from nri_numamem.host.numa_stat import controller_directory
from nri_numamem.host.pod_cgroups import guaranteed_pods
from nri_numamem.host.sysfs import MachineError, read_optional, shorten

_SHARES_PER_CPU = 1024


def cpu_requests(cgroup_root: Path) -> dict[str, int | None]:
    """Return container id -> requested millicores, None if unknown; pause containers included.

    Raises MachineError for cgroups that cannot be read, and for content that no kernel writes.
    """
    return {
        container_id: _cpu_request(cgroup_root, pod / name)
        for pod in guaranteed_pods(cgroup_root).values()
        for container_id, name in container_folders(pod).items()
    }


def _cpu_request(cgroup_root: Path, directory: Path) -> int | None:
    directory = controller_directory(cgroup_root, directory, "cpu")
    for place in (directory, directory / CRUN_CHILD):
        for found in (_of_quota_v2(place), _of_quota_v1(place)):
            if found is not None:
                return found
    shares = _number(directory / "cpu.shares")
    return None if shares is None else _ceil(shares * MILLICORES, _SHARES_PER_CPU)


def _of_quota_v2(directory: Path) -> int | None:
    text = read_optional(directory / "cpu.max")
    if text is None or text.startswith("max"):
        return None
    fields = text.split()
    if len(fields) != 2 or not all(map(_is_count, fields)) or not int(fields[1]):
        problem = f"{shorten(text)} is not a quota and a period in microseconds"
        raise MachineError(directory / "cpu.max", problem)
    return _ceil(int(fields[0]) * MILLICORES, int(fields[1]))


def _of_quota_v1(directory: Path) -> int | None:
    quota = _number(directory / "cpu.cfs_quota_us")
    period = _number(directory / "cpu.cfs_period_us")
    return _ceil(quota * MILLICORES, period) if quota and period else None


def _number(path: Path) -> int | None:
    """Return the number in a file; None for a missing file and for -1."""
    text = read_optional(path)
    if text is None or text == "-1":
        return None
    if not _is_count(text):
        raise MachineError(path, f"{shorten(text)} is not a number")
    return int(text)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _ceil(dividend: int, divisor: int) -> int:
    # The kubelet rounds down.
    return -(-dividend // divisor)
