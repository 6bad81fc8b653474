"""Find the cgroups of all pods of a host, without a runtime that names them.

The kubelet puts pods below a cgroup named "kubepods", or "kubepods.slice" with the systemd driver,
at the root or below other cgroups (`--cgroup-root`; kind uses kubelet.slice). Guaranteed pods are
directly below it, the others one level deeper. All directories are those of cgroup v2, or of the
cpuset controller with v1.

A container of a Guaranteed pod requests as much CPU as its limit, which is exact in its CPU quota.
Its weight (cgroup v2) would not be: runtimes compute it by two formulas, and both lose digits. With
cgroup v1 the shares are exact too. Without a quota (the kubelet's `cpuCFSQuota: false`, or CPUs of
its own) the request of a container is unknown with cgroup v2.
Sources: kubelet pkg/kubelet/cm, qos_container_manager, pod_container_manager, MilliCPUToQuota and
MilliCPUToShares; kernel cgroup-v2.rst.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from nri_numamem.engine.core.cpu_requests import MILLICORES
from nri_numamem.host.cgroups import CRUN_CHILD, controller_directory
from nri_numamem.host.containers import container_folders, pod_directories
from nri_numamem.host.sysfs import MachineError, names_in, read_optional, shorten

_TOP = "kubepods"
_SLICE = ".slice"
_LEVELS = {"burstable": "Burstable", "besteffort": "BestEffort"}
# kind has kubelet.slice/kubelet-kubepods.slice.
_DEPTH = 3
_SHARES_PER_CPU = 1024


def has_pod_cgroups(cgroup_root: Path) -> bool:
    """Return whether the kubelet's cgroup of all pods is there; raise MachineError."""
    return next(_tops(cgroup_root), None) is not None


def guaranteed_pods(cgroup_root: Path) -> dict[str, Path]:
    """Return pod uid -> cgroup directory of the Guaranteed pods; raise MachineError."""
    return {uid: path for top in _tops(cgroup_root) for uid, path in pod_directories(top).items()}


def other_pods(cgroup_root: Path) -> dict[str, str]:
    """Return pod uid -> QoS class, of the pods that are not Guaranteed; raise MachineError."""
    return {uid: qos for uid, (qos, _) in other_pod_directories(cgroup_root).items()}


def other_pod_directories(cgroup_root: Path) -> dict[str, tuple[str, Path]]:
    """Return pod uid -> QoS class and cgroup directory of the pods that are not Guaranteed.

    Raises MachineError.
    """
    found: dict[str, tuple[str, Path]] = {}
    for top in _tops(cgroup_root):
        is_slice = top.name.endswith(_SLICE)
        for level, qos in _LEVELS.items():
            name = f"{top.name.removesuffix(_SLICE)}-{level}{_SLICE}" if is_slice else level
            for uid, path in pod_directories(top / name).items():
                found[uid] = qos, path
    return found


def count_other_pods(cgroup_root: Path) -> Mapping[str, int]:
    """Return QoS class -> number of pods, of the classes that are not Guaranteed."""
    counts = dict.fromkeys(_LEVELS.values(), 0)
    for qos in other_pods(cgroup_root).values():
        counts[qos] += 1
    return counts


def _tops(cgroup_root: Path) -> Iterator[Path]:
    cpuset_v1 = cgroup_root / "cpuset"
    is_v2 = (cgroup_root / "cgroup.controllers").exists()
    return _find(cgroup_root if is_v2 else cpuset_v1, _DEPTH)


def _find(parent: Path, depth: int) -> Iterator[Path]:
    for name in sorted(names_in(parent)):
        path = parent / name
        if name in (_TOP, f"{_TOP}{_SLICE}") or name.endswith(f"-{_TOP}{_SLICE}"):
            yield path
        elif depth > 1 and "." not in name.removesuffix(_SLICE) and path.is_dir():
            yield from _find(path, depth - 1)


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
