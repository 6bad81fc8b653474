"""NUMA nodes as values: sets of nodes and CPUs, amounts, distances, and machines."""

from nri_numamem.numa.distances import Distances
from nri_numamem.numa.idset import CpuSet, NodeSet
from nri_numamem.numa.machine import CpuFollowing, Machine, NumaNode, cpus_of
from nri_numamem.numa.memory_nodes import (
    Classification,
    MemoryNodes,
    MemoryNodesError,
    NodeClass,
    NodeUse,
    WithoutCpus,
    classify,
    without_nodes,
)
from nri_numamem.numa.memory_policy import (
    MemoryPolicies,
    MemoryPolicy,
    OnUnsupported,
    PolicyMode,
    mode_and_count,
    policy_of,
)
from nri_numamem.numa.partitions import (
    Exclusive,
    Layout,
    Partition,
    PartitionNodes,
    PartitionsError,
    lay_out,
)
from nri_numamem.numa.preferences import PodStrategies, Preferences, Strategy
from nri_numamem.numa.quantity import (
    MEMORY,
    format_page_size,
    format_quantity,
    hugepages_page_size,
    hugepages_resource,
    humanize_bytes,
    is_memory_resource,
    parse_page_size,
)

__all__ = [
    "MEMORY",
    "Classification",
    "CpuFollowing",
    "CpuSet",
    "Distances",
    "Exclusive",
    "Layout",
    "Machine",
    "MemoryNodes",
    "MemoryNodesError",
    "MemoryPolicies",
    "MemoryPolicy",
    "NodeClass",
    "NodeSet",
    "NodeUse",
    "NumaNode",
    "OnUnsupported",
    "Partition",
    "PartitionNodes",
    "PartitionsError",
    "PodStrategies",
    "PolicyMode",
    "Preferences",
    "Strategy",
    "WithoutCpus",
    "classify",
    "cpus_of",
    "format_page_size",
    "format_quantity",
    "hugepages_page_size",
    "hugepages_resource",
    "humanize_bytes",
    "is_memory_resource",
    "lay_out",
    "mode_and_count",
    "parse_page_size",
    "policy_of",
    "without_nodes",
]
