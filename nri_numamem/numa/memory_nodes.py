"""Classes of NUMA nodes: which nodes have RAM for containers, and which have other memory.

A node without CPUs is not ordinary RAM: it is CXL memory, persistent memory, high-bandwidth memory,
or the memory of a GPU. So the class follows from the kernel's node states:

===========  ====================================================================================
class        facts (Documentation/ABI/stable/sysfs-devices-node)
===========  ====================================================================================
``dram``     the node is in ``has_cpu``
``cpuless``  the node is not in ``has_cpu``
``movable``  as ``cpuless``, and it is in ``has_memory`` but not in ``has_normal_memory``: all of
             its memory is in ZONE_MOVABLE, as the kernel's dax and GPU drivers put it online
===========  ====================================================================================

The memory tier does not decide. Without HMAT, and on kernels before 6.10, all nodes are in one
tier; a tier that differs is shown beside the class.

The settings decide how nodes without CPUs are used (``WithoutCpus``), and can override the class of
a node. If no node has CPUs, sysfs is incomplete, and every node counts as ``dram``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.machine import Machine, NumaNode


class NodeClass(StrEnum):
    """What a NUMA node is, in the kernel's words."""

    DRAM = "dram"
    CPULESS = "cpuless"
    MOVABLE = "movable"


class WithoutCpus(StrEnum):
    """What nodes without CPUs are for."""

    EXCLUDE = "exclude"
    """They are not used, as if the machine did not have them."""
    LAST_RESORT = "lastResort"
    """They are used for a request that fits nowhere else."""
    USE = "use"
    """They are used as nodes with CPUs."""


class NodeUse(StrEnum):
    """What the plugin does with a NUMA node."""

    USED = "used"
    LAST_RESORT = "last_resort"
    EXCLUDED = "excluded"


class MemoryNodesError(ValueError):
    """Settings that leave no NUMA node; the text is one line with the remedy."""

    path: tuple[str | int, ...] = ("memoryNodes", "override")
    """The setting in question, as keys."""


@dataclass(frozen=True, slots=True)
class MemoryNodes:
    """The setting `memoryNodes`."""

    without_cpus: WithoutCpus = WithoutCpus.EXCLUDE
    override: Mapping[int, NodeClass] = field(default_factory=dict)
    """Node id -> its class, instead of the one that the kernel shows; `dram` or `cpuless`."""


@dataclass(frozen=True, slots=True)
class Classification:
    """The classes of a machine's nodes, and what follows from them."""

    classes: Mapping[int, NodeClass]
    """Node id -> class."""
    excluded: NodeSet
    last_resort: NodeSet
    nearest: Mapping[int, int]
    """Excluded or last-resort node -> the nearest used node with CPUs; of equal ones the lowest."""
    has_cpus: bool
    """Whether any node has CPUs."""

    def use_of(self, node_id: int) -> NodeUse:
        """Return what the plugin does with a node."""
        if node_id in self.excluded:
            return NodeUse.EXCLUDED
        return NodeUse.LAST_RESORT if node_id in self.last_resort else NodeUse.USED

    def project(self, nodes: NodeSet) -> NodeSet:
        """Return the nodes with each excluded or last-resort node replaced by its nearest."""
        if nodes.isdisjoint(self.excluded | self.last_resort):
            return nodes
        return NodeSet(self.nearest.get(node_id, node_id) for node_id in nodes)


def classify(machine: Machine, settings: MemoryNodes) -> Classification:
    """Return the classes of all nodes; MemoryNodesError if the settings exclude every node."""
    has_cpus = any(node.cpus for node in machine.nodes)
    classes = {
        node.node_id: settings.override.get(node.node_id) or _class_of(node, has_cpus=has_cpus)
        for node in machine.nodes
    }
    others = NodeSet(n for n, found in classes.items() if found is not NodeClass.DRAM)
    none = NodeSet()
    is_excluded = settings.without_cpus is WithoutCpus.EXCLUDE
    is_last_resort = settings.without_cpus is WithoutCpus.LAST_RESORT
    if is_excluded and machine.nodes and others == machine.node_set:
        raise MemoryNodesError(
            "memoryNodes.override: it excludes every NUMA node of this machine "
            f"({machine.node_set}); leave at least one node dram"
        )
    nearest = {} if settings.without_cpus is WithoutCpus.USE else _nearest(machine, others)
    return Classification(
        classes,
        others if is_excluded else none,
        others if is_last_resort else none,
        nearest,
        has_cpus,
    )


def without_nodes(machine: Machine, nodes: NodeSet) -> Machine:
    """Return the machine without some of its nodes."""
    return Machine(tuple(n for n in machine.nodes if n.node_id not in nodes)) if nodes else machine


def _class_of(node: NumaNode, *, has_cpus: bool) -> NodeClass:
    if node.cpus or not has_cpus:
        return NodeClass.DRAM
    return NodeClass.MOVABLE if node.is_movable_only else NodeClass.CPULESS


def _nearest(machine: Machine, others: NodeSet) -> dict[int, int]:
    """Return each of the other nodes -> the nearest remaining node, which has CPUs if any has."""
    remaining = [node for node in machine.nodes if node.node_id not in others]
    with_cpus = [node.node_id for node in remaining if node.cpus]
    targets = with_cpus or [node.node_id for node in remaining]
    nodes: Iterable[NumaNode] = (node for node in machine.nodes if node.node_id in others)
    return {
        node.node_id: min(targets, key=lambda other, node=node: (node.distance_to(other), other))  # type: ignore[misc]
        for node in nodes
        if targets
    }
