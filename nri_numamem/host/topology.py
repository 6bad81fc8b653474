"""Read the machine's NUMA nodes, their memory, hugepage pools and distances from sysfs.

The result has the same facts as cAdvisor's machine information, which the kubelet's Memory Manager
uses: node ids may have gaps, nodes without CPUs or memory are included, and so are pools of 0
pages. Whether a pool fits its node is checked by ``memorymanager``. Two more facts show what kind
of memory a node has: its memory tier, and whether all of it is in ZONE_MOVABLE. ``numa`` classifies
the nodes by them. Kernels before 6.1 show no memory tiers.

Sources for the memory that is available: kernel drivers/base/node.c, node_read_meminfo;
mm/show_mem.c, si_mem_available, which counts page cache and reclaimable slab as available.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.host.hugepages import SYSTEM_POOLS
from nri_numamem.host.sysfs import (
    MachineError,
    names_in,
    node_directories,
    pool_directories,
    read_count,
    read_nodes,
    read_optional,
    read_text,
    shorten,
)
from nri_numamem.numa.idset import CpuSet, NodeSet
from nri_numamem.numa.machine import Machine, NumaNode
from nri_numamem.numa.quantity import MAX_BYTES

MEMORY_TIERS = "devices/virtual/memory_tiering"
"""Below sysfs; kernel Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers."""

_TIER = re.compile(r"memory_tier(\d{1,9})", re.ASCII)
# A distance is one byte in ACPI's SLIT; device trees may hold larger ones.
_DISTANCE = re.compile(r"[1-9]\d{0,4}", re.ASCII)
_MEM_TOTAL = r"^{prefix}MemTotal:\s+(\d{{1,16}}) kB$"
_MEMINFO_LINE = re.compile(r"^Node \d+ ([A-Za-z()]+):\s+(\d{1,16}) kB$", re.ASCII | re.MULTILINE)
_AVAILABLE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")


def read_machine(sysfs_root: Path = Path("/sys"), proc_root: Path = Path("/proc")) -> Machine:
    """Return the machine's NUMA nodes; without NUMA in the kernel, one node with id 0.

    Without the files ``distance``, ``cpulist`` and ``hugepages`` a node has unknown distances, no
    CPUs and no pools. Raises MachineError for a missing sysfs and for content that no kernel
    writes. Source: cAdvisor's machine information (nodes, MemTotal, nr_hugepages); kernel
    drivers/base/node.c.
    """
    directories = node_directories(sysfs_root)
    if not directories:
        system = sysfs_root / "devices/system"
        if not system.is_dir():
            raise MachineError(system, "no such directory", "mount the host's sysfs here")
        return Machine((_read_without_numa(sysfs_root, proc_root),))
    kinds = _read_kinds(sysfs_root)
    node_ids = tuple(directories)
    return Machine(
        tuple(_read_node(node, path, node_ids, kinds) for node, path in directories.items())
    )


@dataclass(frozen=True, slots=True)
class _Kinds:
    """What the kernel shows about the kind of all nodes' memory."""

    normal: NodeSet | None
    """The nodes that have normal memory; None if unknown."""
    tiers: Mapping[int, int]
    """Node id -> number of its memory tier."""


def _read_kinds(sysfs_root: Path) -> _Kinds:
    normal = read_nodes(f"{sysfs_root}/devices/system/node/has_normal_memory")
    tiers: dict[int, int] = {}
    parent = f"{sysfs_root}/{MEMORY_TIERS}"
    for name in names_in(parent):
        if tier := _TIER.fullmatch(name):
            nodes = read_nodes(f"{parent}/{name}/nodelist") or NodeSet()
            tiers.update(dict.fromkeys(nodes, int(tier[1])))
    # Every kernel has normal memory: an empty list means that it is unknown.
    return _Kinds(normal or None, tiers)


def _read_node(node_id: int, directory: str, node_ids: tuple[int, ...], kinds: _Kinds) -> NumaNode:
    memory_bytes = _read_mem_total(f"{directory}/meminfo", f"Node {node_id} ")
    has_normal = kinds.normal is None or node_id in kinds.normal
    return NumaNode(
        node_id=node_id,
        memory_bytes=memory_bytes,
        hugepages=_read_page_counts(f"{directory}/hugepages"),
        cpus=_read_cpus(f"{directory}/cpulist"),
        distances=_read_distances(f"{directory}/distance", node_ids),
        is_movable_only=memory_bytes > 0 and not has_normal,
        memory_tier=kinds.tiers.get(node_id),
    )


def _read_without_numa(sysfs_root: Path, proc_root: Path) -> NumaNode:
    """Return the whole machine as one node (CONFIG_NUMA=n)."""
    return NumaNode(
        node_id=0,
        memory_bytes=_read_mem_total(proc_root / "meminfo", ""),
        hugepages=_read_page_counts(sysfs_root / SYSTEM_POOLS),
        cpus=_read_cpus(sysfs_root / "devices/system/cpu/online"),
    )


def read_isolated_cpus(sysfs_root: Path) -> CpuSet:
    """Return the CPUs that the kernel leaves out of load balancing; none for a missing file.

    Raises MachineError. Source: kernel Documentation/admin-guide/cputopology.rst, ``isolated``.
    """
    return _read_cpus(sysfs_root / "devices/system/cpu/isolated")


def _read_mem_total(path: Path | str, prefix: str) -> int:
    """Return the bytes of the line MemTotal, which counts units of 1,024 bytes."""
    pattern = _MEM_TOTAL.format(prefix=prefix)
    found = re.search(pattern, read_text(path), re.ASCII | re.MULTILINE)
    size_bytes = int(found[1]) * 1024 if found else -1
    if not 0 <= size_bytes <= MAX_BYTES:
        raise MachineError(path, f"no line '{prefix}MemTotal: <number> kB'")
    return size_bytes


def _read_page_counts(parent: Path | str) -> dict[int, int]:
    """Return page size in bytes -> number of pages in the pool."""
    counts: dict[int, int] = {}
    for size_bytes, path in pool_directories(parent).items():
        file = f"{path}/nr_hugepages"
        counts[size_bytes] = read_count(file)
        if counts[size_bytes] * size_bytes > MAX_BYTES:
            raise MachineError(file, f"{counts[size_bytes]} pages are more than any machine has")
    return counts


def _read_cpus(path: Path | str) -> CpuSet:
    text = read_optional(path) or ""
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        problem = f"{shorten(text)} is not a list of CPUs such as 0-3,8"
        raise MachineError(path, problem) from error


def _read_distances(path: Path | str, node_ids: tuple[int, ...]) -> dict[int, int]:
    """Return node id -> distance. The file has one number per online node, ascending by id.

    The position is not the node's id. Source: kernel drivers/base/node.c, node_read_distance.
    """
    text = read_optional(path)
    if text is None:
        return {}
    fields = text.split()
    if len(fields) != len(node_ids) or not all(map(_DISTANCE.fullmatch, fields)):
        problem = f"{shorten(text)} is not one distance for each of the {len(node_ids)} nodes"
        raise MachineError(path, problem)
    return dict(zip(node_ids, map(int, fields), strict=True))


def read_available(sysfs_root: Path) -> dict[int, int]:
    """Return NUMA node id -> bytes that are free or reclaimable.

    Empty without NUMA in the kernel. Raises MachineError for a file that cannot be read.
    """
    found: dict[int, int] = {}
    for node_id, directory in node_directories(sysfs_root).items():
        amounts = dict(_MEMINFO_LINE.findall(read_optional(f"{directory}/meminfo") or ""))
        if "MemFree" in amounts:
            found[node_id] = sum(int(amounts.get(name, 0)) for name in _AVAILABLE) * 1024
    return found
