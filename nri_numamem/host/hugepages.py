"""Read the current state of the hugepage pools, per NUMA node and for the whole system.

The figures change while containers run, so they are read each time. The kernel counts reservations
(``resv_hugepages``: reserved for a mapping but not yet faulted in) only for the whole system; their
NUMA nodes are not known before the fault. A pod's cgroup shows the pod's pages per NUMA node since
Linux 5.17.
Sources: kernel Documentation/admin-guide/mm/hugetlbpage.rst; mm/hugetlb_cgroup.c for numa_stat.
"""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nri_numamem.host.cgroups import cgroup_directory
from nri_numamem.host.sysfs import node_directories, pool_directories, read_count, read_optional
from nri_numamem.memorymanager.hugepage_pools import Pool, PoolUse
from nri_numamem.numa.quantity import format_page_size, hugepages_resource

# The directory of the whole system's pools, below the root of sysfs.
SYSTEM_POOLS = "kernel/mm/hugepages"

# "total=4194304 N0=0 N1=4194304". In cgroup v1 the second line includes the pod's containers; the
# kernel misspells its first word.
_NUMA_STAT = re.compile(r"^(?:[a-z]+_)?total=(\d{1,19})((?: N\d{1,4}=\d{1,20})*)$", re.ASCII)


@dataclass(frozen=True, slots=True)
class PoolDirectories:
    """The directories of all hugepage pools; they change only with the machine."""

    by_node: Mapping[int, Mapping[int, str]]
    """NUMA node id -> page size in bytes -> directory. Without NUMA the pools belong to node 0."""
    system: Mapping[int, str]
    """Page size in bytes -> directory of the whole system's pool."""

    @classmethod
    def find(cls, sysfs_root: Path = Path("/sys")) -> Self:
        """List the directories; raise MachineError."""
        whole = f"{sysfs_root}/{SYSTEM_POOLS}"
        nodes = {node: f"{path}/hugepages" for node, path in node_directories(sysfs_root).items()}
        by_node = {node: pool_directories(path) for node, path in (nodes or {0: whole}).items()}
        return cls(by_node, pool_directories(whole))


@dataclass(frozen=True, slots=True)
class HugepagePool:
    """Page counts of one page size on one NUMA node."""

    total_pages: int
    """nr_hugepages, which includes surplus pages."""
    free_pages: int
    """free_hugepages, which includes pages that are reserved for a mapping."""
    surplus_pages: int
    """surplus_hugepages: pages beyond the configured pool, returned to the kernel when freed."""


def read_pools(sysfs_root: Path = Path("/sys")) -> Mapping[int, Mapping[int, HugepagePool]]:
    """Return NUMA node id -> page size in bytes -> pool, for every page size of the kernel.

    Without NUMA in the kernel the pools belong to node 0. Raises MachineError.
    """
    return {
        node: {size: _read_pool(path) for size, path in pools.items()}
        for node, pools in PoolDirectories.find(sysfs_root).by_node.items()
    }


def read_pool_use(directories: PoolDirectories, sizes: Container[int] | None = None) -> PoolUse:
    """Return the pools' use, of all page sizes or of `sizes`; raise MachineError.

    Files are read one after the other while containers run, so the figures may differ by some
    pages.
    """
    pools: dict[int, dict[str, Pool]] = {}
    for node, paths in directories.by_node.items():
        wanted = {size: path for size, path in paths.items() if sizes is None or size in sizes}
        pools[node] = {hugepages_resource(s): _read_use(s, path) for s, path in wanted.items()}
    reserved = _read_reserved_pages(directories, sizes)
    return PoolUse(pools, {hugepages_resource(s): s * pages for s, pages in reserved.items()})


def read_pod_use(
    cgroup_root: Path, cgroup_parent: str, sizes: Iterable[int]
) -> Mapping[int, Mapping[str, int]] | None:
    """Return NUMA node id -> resource name -> bytes, > 0, that a pod uses of `sizes`.

    None when the pod's cgroup has no such file (no cgroup, or Linux before 5.17), or when its
    nodes do not add up to the total: after the removal of a container, pages that remain in a
    file count in the pod's total but on no node. Raises MachineError when a file cannot be read.
    """
    directory = cgroup_directory(cgroup_root, cgroup_parent, "hugetlb")
    if directory is None:
        return None
    found: dict[int, dict[str, int]] = {}
    for size in sizes:
        text = read_optional(directory / f"hugetlb.{format_page_size(size)}.numa_stat") or ""
        line = _NUMA_STAT.match(text.splitlines()[-1]) if text else None
        nodes = [pair[1:].split("=") for pair in line[2].split()] if line else []
        if line is None or sum(int(used) for _, used in nodes) != int(line[1]):
            return None
        for node, used in nodes:
            if int(used):
                found.setdefault(int(node), {})[hugepages_resource(size)] = int(used)
    return found


def _read_use(page_size_bytes: int, path: str) -> Pool:
    free = read_count(f"{path}/free_hugepages")
    total = read_count(f"{path}/nr_hugepages")
    return Pool(max(0, total - free) * page_size_bytes, free * page_size_bytes)


def read_reserved_pages(sysfs_root: Path = Path("/sys")) -> Mapping[int, int]:
    """Return page size in bytes -> reserved pages of the whole system (resv_hugepages).

    Raises MachineError.
    """
    return _read_reserved_pages(PoolDirectories.find(sysfs_root))


def _read_reserved_pages(
    directories: PoolDirectories, sizes: Container[int] | None = None
) -> Mapping[int, int]:
    return {
        size: read_count(f"{path}/resv_hugepages")
        for size, path in directories.system.items()
        if sizes is None or size in sizes
    }


def _read_pool(path: str) -> HugepagePool:
    return HugepagePool(
        total_pages=read_count(f"{path}/nr_hugepages"),
        free_pages=read_count(f"{path}/free_hugepages"),
        surplus_pages=read_count(f"{path}/surplus_hugepages"),
    )
