"""Read the machine's NUMA nodes, their memory, hugepage pools and distances from sysfs.

The result is what the kubelet's Memory Manager takes from cAdvisor: node ids may have gaps,
nodes without CPUs or without memory count, and pools of 0 pages are listed. Nothing is judged:
whether a pool fits its node is the managers' business.
"""

import re
from pathlib import Path

from nri_numamem.machine.hugepages import SYSTEM_POOLS
from nri_numamem.machine.sysfs import (
    MachineError,
    node_directories,
    pool_directories,
    read_count,
    read_optional,
    read_text,
    shorten,
)
from nri_numamem.memorymanager.machine import Machine, NumaNode
from nri_numamem.memorymanager.quantity import MAX_BYTES

# Linux can be built for 8,192 CPUs (x86 CONFIG_NR_CPUS); a longer list is no list of CPUs.
_CPU_LIMIT = 8192

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
# A distance is one byte in ACPI's SLIT; device trees may hold larger ones.
_DISTANCE = re.compile(r"[1-9]\d{0,4}", re.ASCII)
_MEM_TOTAL = r"^{prefix}MemTotal:\s+(\d{{1,16}}) kB$"


def read_machine(sysfs_root: Path = Path("/sys"), proc_root: Path = Path("/proc")) -> Machine:
    """Return the machine's NUMA nodes; a kernel without NUMA shows as one node, node 0.

    Missing ``distance``, ``cpulist`` and ``hugepages`` mean unknown, no CPUs and no pools. Raises
    MachineError when a file is not what the kernel writes. Source: cAdvisor's machine information
    (nodes, MemTotal, nr_hugepages); kernel drivers/base/node.c.
    """
    directories = node_directories(sysfs_root)
    if not directories:
        return Machine((_read_without_numa(sysfs_root, proc_root),))
    node_ids = tuple(directories)
    return Machine(tuple(_read_node(node, path, node_ids) for node, path in directories.items()))


def _read_node(node_id: int, directory: Path, node_ids: tuple[int, ...]) -> NumaNode:
    return NumaNode(
        node_id=node_id,
        memory_bytes=_read_mem_total(directory / "meminfo", f"Node {node_id} "),
        hugepages=_read_page_counts(directory / "hugepages"),
        cpus=_read_cpus(directory / "cpulist"),
        distances=_read_distances(directory / "distance", node_ids),
    )


def _read_without_numa(sysfs_root: Path, proc_root: Path) -> NumaNode:
    """Read the whole machine as one node (CONFIG_NUMA=n)."""
    return NumaNode(
        node_id=0,
        memory_bytes=_read_mem_total(proc_root / "meminfo", ""),
        hugepages=_read_page_counts(sysfs_root / SYSTEM_POOLS),
        cpus=_read_cpus(sysfs_root / "devices/system/cpu/online"),
    )


def _read_mem_total(path: Path, prefix: str) -> int:
    """Return the bytes of the line MemTotal, which counts in units of 1,024 bytes."""
    pattern = _MEM_TOTAL.format(prefix=prefix)
    found = re.search(pattern, read_text(path), re.ASCII | re.MULTILINE)
    size_bytes = int(found[1]) * 1024 if found else -1
    if not 0 <= size_bytes <= MAX_BYTES:
        raise MachineError(path, f"no line '{prefix}MemTotal: <number> kB'")
    return size_bytes


def _read_page_counts(parent: Path) -> dict[int, int]:
    """Return page size in bytes -> number of pages in the pool."""
    counts: dict[int, int] = {}
    for size_bytes, path in pool_directories(parent).items():
        file = path / "nr_hugepages"
        counts[size_bytes] = read_count(file)
        if counts[size_bytes] * size_bytes > MAX_BYTES:
            raise MachineError(file, f"{counts[size_bytes]} pages are more than any machine has")
    return counts


def _read_cpus(path: Path) -> tuple[int, ...]:
    """Return the CPU ids of a list such as "0-3,8-11", ascending."""
    text = read_optional(path)
    cpus: set[int] = set()
    for part in text.split(",") if text else ():
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first or last >= _CPU_LIMIT:
            raise MachineError(path, f"{shorten(text or '')} is not a list of CPUs such as 0-3,8")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def _read_distances(path: Path, node_ids: tuple[int, ...]) -> dict[int, int]:
    """Return node id -> distance; the file has one number per online node, ascending by id.

    Source: kernel drivers/base/node.c, node_read_distance: position is not the node's id.
    """
    text = read_optional(path)
    if text is None:
        return {}
    fields = text.split()
    if len(fields) != len(node_ids) or not all(map(_DISTANCE.fullmatch, fields)):
        problem = f"{shorten(text)} is not one distance for each of the {len(node_ids)} nodes"
        raise MachineError(path, problem)
    return dict(zip(node_ids, map(int, fields), strict=True))
