"""The machine as the managers see it: NUMA nodes with memory, hugepages, CPUs and distances.

These are plain values. ``nri_numamem.host`` reads them from sysfs; scenario files and tests
define their own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from operator import or_

from nri_numamem.numa.idset import CpuSet, NodeSet

# Distance of a node to itself, and the default between two nodes without firmware data (ACPI
# 6.5 section 5.2.17; the kernel's LOCAL_DISTANCE and REMOTE_DISTANCE).
LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One memory node of the machine."""

    node_id: int
    memory_bytes: int
    """MemTotal of the node, including its hugepages; 0 for a node without memory."""
    hugepages: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> number of pages in the node's pool (0 included)."""
    cpus: CpuSet = field(default_factory=CpuSet)
    """The node's CPUs; empty for a memory-only node."""
    distances: Mapping[int, int] = field(default_factory=dict)
    """Node id -> SLIT distance; empty if unknown."""
    is_movable_only: bool = False
    """Whether all of the node's memory is in ZONE_MOVABLE (it is in `has_memory`, but not in
    `has_normal_memory`). The kernel cannot place a container's kernel memory there."""
    memory_tier: int | None = None
    """Number of the node's memory tier; None if the kernel shows none."""

    @property
    def hugepages_bytes(self) -> int:
        """The size of all hugepage pools of the node together."""
        return sum(page_size_bytes * pages for page_size_bytes, pages in self.hugepages.items())

    def distance_to(self, node_id: int) -> int:
        """Return the SLIT distance, or the kernel's default if it is unknown."""
        default = LOCAL_DISTANCE if node_id == self.node_id else REMOTE_DISTANCE
        return self.distances.get(node_id, default)


@dataclass(frozen=True, slots=True)
class Machine:
    """All NUMA nodes, in ascending order of their ids; ValueError for any other order."""

    nodes: tuple[NumaNode, ...]

    def __post_init__(self) -> None:
        ids = [node.node_id for node in self.nodes]
        if ids != sorted(set(ids)):
            raise ValueError(f"NUMA nodes must be ascending and unique, got ids {ids}")

    @property
    def node_set(self) -> NodeSet:
        """The ids of all nodes."""
        return NodeSet(node.node_id for node in self.nodes)


class CpuFollowing(StrEnum):
    """The setting `cpuFollowsMemory`: whether a pinned container gets the CPUs of its nodes."""

    OFF = "off"
    PREFER = "prefer"
    """While the CPU requests on these nodes are at most their CPUs."""
    REQUIRE = "require"
    """Always."""


def cpus_of(machine: Machine, nodes: NodeSet, unusable: CpuSet) -> CpuSet:
    """Return the online CPUs of some nodes, without the unusable ones.

    Containers share them: all containers on these nodes get the same ones.

    If none is left, as for nodes without CPUs, return those of the nearest nodes that have some, by
    distance. The result is empty only if the machine has no usable CPUs.
    """
    usable = {node.node_id: node.cpus - unusable for node in machine.nodes}
    found = _union_of(cpus for node_id, cpus in usable.items() if node_id in nodes)
    if found:
        return found
    distances = {
        target: min((n.distance_to(target) for n in machine.nodes if n.node_id in nodes), default=0)
        for target, cpus in usable.items()
        if cpus
    }
    nearest = min(distances.values(), default=0)
    return _union_of(usable[target] for target, found in distances.items() if found == nearest)


def _union_of(sets: Iterable[CpuSet]) -> CpuSet:
    return reduce(or_, sets, CpuSet())
