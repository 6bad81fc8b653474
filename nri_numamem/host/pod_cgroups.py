"""Find the cgroups of all pods of a host, without a runtime that names them.

The kubelet puts pods below a cgroup named "kubepods", or "kubepods.slice" with the systemd driver,
at the root or below other cgroups (`--cgroup-root`; kind uses kubelet.slice). Guaranteed pods are
directly below it, the others one level deeper. All directories are those of cgroup v2, or of the
cpuset controller with v1.
Source: kubelet cm, qos_container_manager and pod_container_manager.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from nri_numamem.host.containers import pod_directories
from nri_numamem.host.sysfs import names_in

_TOP = "kubepods"
_SLICE = ".slice"
_LEVELS = {"burstable": "Burstable", "besteffort": "BestEffort"}
# kind has kubelet.slice/kubelet-kubepods.slice.
_DEPTH = 3


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
