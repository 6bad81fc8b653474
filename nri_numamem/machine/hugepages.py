"""Live figures of the hugepage pools, per NUMA node and for the whole system.

They change while containers run, unlike the topology, and are read each time. The kernel keeps
reservations (``resv_hugepages``: promised to a mapping, not yet touched) for the system only;
no file tells on which node they will end.
Source: kernel Documentation/admin-guide/mm/hugetlbpage.rst.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.machine.sysfs import node_directories, pool_directories, read_count

# Where the pools of the whole system are, below the root of sysfs.
SYSTEM_POOLS = "kernel/mm/hugepages"


@dataclass(frozen=True, slots=True)
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
    nodes = {node: path / "hugepages" for node, path in node_directories(sysfs_root).items()}
    nodes = nodes or {0: sysfs_root / SYSTEM_POOLS}
    return {
        node: {size: _read_pool(path) for size, path in pool_directories(parent).items()}
        for node, parent in nodes.items()
    }


def read_reserved_pages(sysfs_root: Path = Path("/sys")) -> Mapping[int, int]:
    """Return page size in bytes -> pages promised to mappings, system-wide; MachineError."""
    pools = pool_directories(sysfs_root / SYSTEM_POOLS)
    return {size: read_count(path / "resv_hugepages") for size, path in pools.items()}


def _read_pool(path: Path) -> HugepagePool:
    return HugepagePool(
        total_pages=read_count(path / "nr_hugepages"),
        free_pages=read_count(path / "free_hugepages"),
        surplus_pages=read_count(path / "surplus_hugepages"),
    )
