"""The Memory Manager of the kubelet as pure functions over values: books, hints and placement."""

from nri_numamem.memorymanager.books import (
    Adoption,
    adopt,
    drop_reusable_of_others,
    give_back,
    remove_container,
    remove_pod,
)
from nri_numamem.memorymanager.distances import Distances
from nri_numamem.memorymanager.hint import Hint, HintMap, Preferences
from nri_numamem.memorymanager.hints import (
    full_hints,
    hints_for_request,
    pod_topology_hints,
    topology_hints,
)
from nri_numamem.memorymanager.invariants import check_books, check_groups
from nri_numamem.memorymanager.machine import Machine, NumaNode
from nri_numamem.memorymanager.manifest import ManifestError, pod_from_manifest
from nri_numamem.memorymanager.node_allocatable import HostReservation, derive, resolve_reserved
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.pod import Container, ContainerKind, Pod, pod_request
from nri_numamem.memorymanager.pool_use import Outside, Pool, PoolUse, outside, withhold
from nri_numamem.memorymanager.quantity import (
    MEMORY,
    canonical_resource,
    format_page_size,
    format_quantity,
    hugepages_page_size,
    hugepages_resource,
    humanize_bytes,
    is_memory_resource,
    parse_page_size,
    parse_quantity,
)
from nri_numamem.memorymanager.refusal import Explanation, NodeVerdict, Rejection
from nri_numamem.memorymanager.reserved import (
    Reservation,
    ReservedMemoryError,
    check_reserved,
    parse_reserved_memory,
)
from nri_numamem.memorymanager.resize import Resized, resize
from nri_numamem.memorymanager.state import (
    Block,
    NodeState,
    Request,
    Reserved,
    State,
    Table,
    default_state,
    state_as_written,
)
from nri_numamem.memorymanager.static import Allocated, allocate, choose_nodes, enter, nodes_of

__all__ = [
    "MEMORY",
    "Adoption",
    "Allocated",
    "Block",
    "Container",
    "ContainerKind",
    "Distances",
    "Explanation",
    "Hint",
    "HintMap",
    "HostReservation",
    "Machine",
    "ManifestError",
    "NodeSet",
    "NodeState",
    "NodeVerdict",
    "NumaNode",
    "Outside",
    "Pod",
    "Pool",
    "PoolUse",
    "Preferences",
    "Rejection",
    "Request",
    "Reservation",
    "Reserved",
    "ReservedMemoryError",
    "Resized",
    "State",
    "Table",
    "adopt",
    "allocate",
    "canonical_resource",
    "check_books",
    "check_groups",
    "check_reserved",
    "choose_nodes",
    "default_state",
    "derive",
    "drop_reusable_of_others",
    "enter",
    "format_page_size",
    "format_quantity",
    "full_hints",
    "give_back",
    "hints_for_request",
    "hugepages_page_size",
    "hugepages_resource",
    "humanize_bytes",
    "is_memory_resource",
    "nodes_of",
    "outside",
    "parse_page_size",
    "parse_quantity",
    "parse_reserved_memory",
    "pod_from_manifest",
    "pod_request",
    "pod_topology_hints",
    "remove_container",
    "remove_pod",
    "resize",
    "resolve_reserved",
    "state_as_written",
    "topology_hints",
    "withhold",
]
