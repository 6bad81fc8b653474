"""Create the cgroups of pods as the kubelet does, and read the values that the kernel enforces.

This module depends on cgroup v2, the kubelet's cgroupfs layout and the hugepage pools, and not on
the CRI or the plugin.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from tests.machines.guest.waiting import wait_until

ROOT = Path("/sys/fs/cgroup")
_CRIO_PREFIX = "crio-"  # of the directories of CRI-O's containers
_HUGEPAGES = Path("/sys/kernel/mm/hugepages")
_QOS_PARENTS = {
    "guaranteed": "/kubepods",
    "burstable": "/kubepods/burstable",
    "besteffort": "/kubepods/besteffort",
}


def pod_parent(qos: str, uid: str) -> str:
    """Return the path below the cgroup root, as of the kubelet's cgroupfs driver."""
    return f"{_QOS_PARENTS[qos]}/pod{uid}"


def create_pod(parent: str, memory_bytes: int, hugepages_bytes: Mapping[str, int]) -> None:
    """Create the pod's directory with the sums of its containers, before the runtime is called.

    `hugepages_bytes` has every page size of the host, as in {"2MB": 4194304, "1GB": 0}.
    """
    path = ROOT
    for part in Path(parent.lstrip("/")).parts:
        path /= part
        path.mkdir(exist_ok=True)
        controllers = (path / "cgroup.controllers").read_text(encoding="ascii").split()
        for controller in controllers:
            (path / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
    if memory_bytes:
        (path / "memory.max").write_text(str(memory_bytes), encoding="ascii")
    for size, limit_bytes in hugepages_bytes.items():
        for suffix in ("max", "rsvd.max"):
            (path / f"hugetlb.{size}.{suffix}").write_text(str(limit_bytes), encoding="ascii")


def grow_pod(parent: str, memory_bytes: int) -> None:
    """Raise the pod's memory limit, as the kubelet does before it resizes a container."""
    (ROOT / parent.lstrip("/") / "memory.max").write_text(str(memory_bytes), encoding="ascii")


def remove_pod(parent: str) -> None:
    """Remove the pod's directory, as the kubelet does after the removal of the sandbox."""

    def is_gone() -> bool:
        path = ROOT / parent.lstrip("/")
        try:
            for child in path.iterdir():
                if child.is_dir():
                    child.rmdir()
            path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:  # busy: a process in it has not been reaped yet
            return False
        return True

    wait_until(is_gone, f"removal of {parent}")


def hugepage_sizes() -> list[str]:
    """Return the host's page sizes as in the CRI and in names of cgroup files: "2MB", "1GB"."""
    sizes = []
    for entry in sorted(_HUGEPAGES.iterdir()):
        kib = int(entry.name.removeprefix("hugepages-").removesuffix("kB"))
        sizes.append(f"{kib >> 20}GB" if kib >= 1 << 20 else f"{kib >> 10}MB")
    return sizes


def hugepage_count(node: int) -> int:
    """Return the number of pages in the 2 MiB pool of a NUMA node."""
    return int(_pool(node).read_text(encoding="ascii"))


def set_hugepage_count(node: int, count: int) -> None:
    """Resize the 2 MiB pool; raise OSError if the kernel lacks contiguous memory."""
    _pool(node).write_text(str(count), encoding="ascii")
    if (found := hugepage_count(node)) != count:
        raise OSError(f"node {node} has {found} hugepages, not {count}")


def _pool(node: int) -> Path:
    pool = f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
    return Path(pool, "nr_hugepages")


def read(parent: str, container_id: str, name: str) -> str:
    """Return the text of a file of a container's cgroup, without the final newline."""
    return (container(parent, container_id) / name).read_text(encoding="ascii").strip()


def container(parent: str, container_id: str) -> Path:
    """Return the directory of a container's cgroup."""
    pod = ROOT / parent.lstrip("/")
    path = pod / f"{_CRIO_PREFIX}{container_id}"
    return path if path.is_dir() else pod / container_id


def nodes(parent: str, container_id: str) -> frozenset[int]:
    """Return `cpuset.mems`; empty for a container that is not managed."""
    return parse_nodes(read(parent, container_id, "cpuset.mems"))


def processes(parent: str, container_id: str) -> dict[int, int]:
    """Return a container's processes: pid -> start in clock ticks after boot, as in proc(5).

    Those that end meanwhile are left out.
    """
    found: dict[int, int] = {}
    for pid in map(int, read(parent, container_id, "cgroup.procs").split()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
            # The second field is a name in parentheses, which may contain any character.
            found[pid] = int(text.rpartition(")")[2].split()[19])
    return found


def parse_nodes(text: str) -> frozenset[int]:
    """Parse the kernel's list format, "0-1,3"."""
    result: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        result.update(range(int(first), int(last or first) + 1))
    return frozenset(result)


def anonymous_bytes(parent: str, container_id: str) -> dict[int, int]:
    """Return NUMA node -> bytes of anonymous memory, from `memory.numa_stat`."""
    return numa_stat(parent, container_id)["anon"]


def numa_stat(parent: str, container_id: str) -> dict[str, dict[int, int]]:
    """Return `memory.numa_stat`: name such as "file" -> NUMA node -> bytes (events: a count)."""
    found = {}
    for line in read(parent, container_id, "memory.numa_stat").splitlines():
        name, *pairs = line.split()
        split = (pair.split("=") for pair in pairs)
        found[name] = {int(node.removeprefix("N")): int(value) for node, value in split}
    return found
