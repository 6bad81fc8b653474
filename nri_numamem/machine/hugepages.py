"""Live figures of the hugepage pools, per NUMA node and for the whole system.

They change while containers run, unlike the topology, and are read each time. The kernel keeps
reservations (``resv_hugepages``: promised to a mapping, not yet touched) for the system only;
no file tells on which node they will end.
Which of the pages are a pod's its cgroup tells, since Linux 5.17.
Sources: kernel Documentation/admin-guide/mm/hugetlbpage.rst; mm/hugetlb_cgroup.c for numa_stat.
"""

import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from nri_numamem.machine.cgroups import cgroup_directory
from nri_numamem.machine.sysfs import (
    node_directories,
    pool_directories,
    read_count,
    read_optional,
)
from nri_numamem.memorymanager.pool_use import Pool, PoolUse
from nri_numamem.memorymanager.quantity import format_page_size, hugepages_resource
from nri_numamem.values import valueclass

# Where the pools of the whole system are, below the root of sysfs.
SYSTEM_POOLS = "kernel/mm/hugepages"

# "total=4194304 N0=0 N1=4194304"; cgroup v1 has the pod's containers in a second line only, whose
# first word the kernel misspells.
_NUMA_STAT = re.compile(r"^(?:[a-z]+_)?total=(\d{1,19})((?: N\d{1,4}=\d{1,20})*)$", re.ASCII)


@valueclass(frozen=True, slots=True)
class HugepagePool:
    """Numbers of pages of one size on one NUMA node."""

    total_pages: int
    """nr_hugepages; surplus pages are part of it."""
    free_pages: int
    """free_hugepages; pages that are reserved for a mapping count as free."""
    surplus_pages: int
    """surplus_hugepages: beyond the configured pool, given back when freed."""


def read_pools(sysfs_root: Path = Path("/sys")) -> Mapping[int, Mapping[int, HugepagePool]]:
    """Return NUMA node id -> page size in bytes -> pool, for every size that the kernel has.

    A kernel without NUMA shows its pools as those of node 0. Raises MachineError.
    """
    return {
        node: {size: _read_pool(path) for size, path in pools.items()}
        for node, pools in _pools_of_nodes(sysfs_root).items()
    }


def read_pool_use(sysfs_root: Path = Path("/sys"), sizes: Container[int] | None = None) -> PoolUse:
    """Return what a placement needs of the pools, of all or some page sizes; MachineError.

    The figures are read one after the other while containers run, so they may be a few pages off.
    """
    pools: dict[int, dict[str, Pool]] = {}
    for node, paths in _pools_of_nodes(sysfs_root).items():
        wanted = {size: path for size, path in paths.items() if sizes is None or size in sizes}
        pools[node] = {hugepages_resource(s): _read_use(s, path) for s, path in wanted.items()}
    promised = read_reserved_pages(sysfs_root, sizes)
    return PoolUse(pools, {hugepages_resource(s): s * pages for s, pages in promised.items()})


def read_pod_use(
    cgroup_root: Path, cgroup_parent: str, sizes: Iterable[int]
) -> Mapping[int, Mapping[str, int]] | None:
    """Return NUMA node id -> resource name -> bytes, > 0, that a pod uses of some page sizes.

    None when its cgroup does not tell (there is none, or Linux is before 5.17), or when its nodes
    do not add up: of a container that was removed, pages that live on in a file are counted for
    the pod without their nodes. Raises MachineError when a file cannot be read.
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


def _pools_of_nodes(sysfs_root: Path) -> Mapping[int, Mapping[int, Path]]:
    """Return NUMA node id -> page size in bytes -> directory of the pool."""
    nodes = {node: path / "hugepages" for node, path in node_directories(sysfs_root).items()}
    nodes = nodes or {0: sysfs_root / SYSTEM_POOLS}
    return {node: pool_directories(parent) for node, parent in nodes.items()}


def _read_use(page_size_bytes: int, path: Path) -> Pool:
    free = read_count(path / "free_hugepages")
    total = read_count(path / "nr_hugepages")
    return Pool(max(0, total - free) * page_size_bytes, free * page_size_bytes)


def read_reserved_pages(
    sysfs_root: Path = Path("/sys"), sizes: Container[int] | None = None
) -> Mapping[int, int]:
    """Return page size in bytes -> pages promised to mappings, system-wide; MachineError.

    Of all page sizes, or of some.
    """
    pools = pool_directories(sysfs_root / SYSTEM_POOLS)
    return {
        size: read_count(path / "resv_hugepages")
        for size, path in pools.items()
        if sizes is None or size in sizes
    }


def _read_pool(path: Path) -> HugepagePool:
    return HugepagePool(
        total_pages=read_count(path / "nr_hugepages"),
        free_pages=read_count(path / "free_hugepages"),
        surplus_pages=read_count(path / "surplus_hugepages"),
    )
