"""CPUs beside memory: which CPUs belong to the NUMA nodes of a container's memory.

These are shared CPUs: every container on the same nodes gets the same ones, and so do all
containers without `cpuset.cpus`.
"""

from collections.abc import Iterable
from enum import StrEnum

from nri_numamem.numa.cpuset import CpuSet
from nri_numamem.numa.machine import Machine
from nri_numamem.numa.nodeset import NodeSet


class CpuFollowing(StrEnum):
    """The setting `cpuFollowsMemory`: whether a pinned container gets the CPUs of its nodes."""

    OFF = "off"
    PREFER = "prefer"
    """While the CPU requests on these nodes are at most their CPUs."""
    REQUIRE = "require"
    """Always."""


def cpus_of(machine: Machine, nodes: NodeSet, unusable: CpuSet) -> CpuSet:
    """Return the online CPUs of some nodes, without the unusable ones.

    If none is left, as for nodes without CPUs, return those of the nearest nodes that have some, by
    distance. The result is empty only if the machine has no usable CPUs.
    """
    usable = {node.node_id: node.cpus - unusable for node in machine.nodes}
    found = _union(cpus for node_id, cpus in usable.items() if node_id in nodes)
    if found:
        return found
    distances = {
        target: min((n.distance_to(target) for n in machine.nodes if n.node_id in nodes), default=0)
        for target, cpus in usable.items()
        if cpus
    }
    nearest = min(distances.values(), default=0)
    return _union(usable[target] for target, found in distances.items() if found == nearest)


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    union = CpuSet()
    for cpus in sets:
        union |= cpus
    return union
