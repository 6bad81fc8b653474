"""The machine as the managers see it: NUMA nodes with their memory, hugepages and distances.

Only values; reading them from sysfs is the business of ``nri_numamem.machine``, and a test or a
scenario file makes them up.
"""

from collections.abc import Mapping
from dataclasses import field

from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.values import valueclass

# Distance of a node to itself, and what is assumed between nodes when firmware says nothing
# (ACPI 6.5 section 5.2.17; the kernel's LOCAL_DISTANCE and REMOTE_DISTANCE).
LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20


@valueclass(frozen=True, slots=True)
class NumaNode:
    """One memory node of the machine."""

    node_id: int
    memory_bytes: int
    """MemTotal of the node; hugepages are part of it. 0 for a node without memory."""
    hugepages: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> number of pages in the node's pool (0 included)."""
    cpus: tuple[int, ...] = ()
    """CPU ids of the node, ascending; empty for a memory-only node."""
    distances: Mapping[int, int] = field(default_factory=dict)
    """Node id -> SLIT distance; may be empty when unknown."""

    def distance_to(self, node_id: int) -> int:
        """Return the SLIT distance, with the kernel's defaults where it is unknown."""
        default = LOCAL_DISTANCE if node_id == self.node_id else REMOTE_DISTANCE
        return self.distances.get(node_id, default)


@valueclass(frozen=True, slots=True)
class Machine:
    """All NUMA nodes, in ascending order of their ids; ValueError when ids repeat."""

    nodes: tuple[NumaNode, ...]

    def __post_init__(self) -> None:
        ids = [node.node_id for node in self.nodes]
        if ids != sorted(set(ids)):
            raise ValueError(f"NUMA nodes must be ascending and unique, got ids {ids}")

    @property
    def node_set(self) -> NodeSet:
        """The ids of all nodes."""
        return NodeSet(node.node_id for node in self.nodes)
