"""The kubelet's Memory Manager as pure functions over immutable values.

The terms, in the order in which a request meets them:

- A *node* is a NUMA node. For each resource (`memory`, `hugepages-2Mi`, ...) it has a *table* of
  five amounts: total, systemReserved, allocatable, reserved, free. Allocatable is what pods may
  use: the total less systemReserved, for memory also less the node's hugepages. Reserved and free
  add up to allocatable.
- A *request* is what a container needs: bytes per resource. All of it is placed on one node set.
- A container's *assignment* is one *block* per resource: node set, resource, size. The *charges*
  of a block are the bytes of it that each node's table counts as reserved.
- A node has either single-node assignments or assignments of one *group*: containers on several
  nodes must all be on the same nodes. So two groups never compete for the bytes of one node. A
  node is unassigned if it has no blocks.
- A *candidate* is a node set on which the rules allow the request: its nodes could hold it when
  empty, hold it now, and have no assignments of another group.
- A *hint* is a candidate, as input of the topology manager. It is *preferred* if no smaller set of
  nodes could hold the request even when empty. The topology manager merges the hints of memory,
  CPUs and devices into one, and the policy places the container on it, or on an extension.
- Of several candidates the one with the fewest nodes is best, then the previous nodes of the
  container or pod, then the *closest* (``numa.closest``), then the one with the lowest ids.
- A container that ended leaves *reusable* blocks: its pod's next containers on the same nodes use
  their bytes first. A running container that was found on some nodes is *adopted* there. Bytes for
  which its nodes have no room are its *shortfall*; they are charged as soon as there is room.

An example. Nodes 0 to 3 have 8 GiB each; 1 GiB of node 0 is reserved. Nodes 0-1 and nodes 2-3 are
the two sockets: distance 12 within a socket, 21 across. The tables (GiB) in the beginning, and
after each request:

    request          placed on   reserved / free of node 0      1        2        3
                                                    0 / 7    0 / 8    0 / 8    0 / 8
    A   3 GiB        0                              3 / 4    0 / 8    0 / 8    0 / 8
    B  12 GiB        2-3                            3 / 4    0 / 8    8 / 0    4 / 4
    C   5 GiB        1                              3 / 4    5 / 3    8 / 0    4 / 4
    D   4 GiB        0                              7 / 0    5 / 3    8 / 0    4 / 4
    E   6 GiB        rejected                       7 / 0    5 / 3    8 / 0    4 / 4

- A fits on any single node, and all four hints are preferred. The lowest id wins.
- B needs two nodes (8 + 8 >= 12). Node 0 has a single-node assignment, so 1-2, 1,3 and 2-3 are
  the candidates of two nodes. 2-3 is the closest: the distances within it add up to 44, those of
  the others to 62. B's block is charged to the lowest node first: 8 GiB to node 2, 4 to node 3.
  Nodes 2-3 are a group now.
- C fits on node 1 only: node 0 has 4 GiB free, and so has the group 2-3.
- D has two candidates: node 0, and the group 2-3. The hint for 2-3 is not preferred, because one
  empty node could hold 4 GiB.
- E fits on one empty node, but no candidate has 6 GiB free. The rejection names the free bytes of
  each node.

The kubelet's functions (pkg/kubelet/cm/memorymanager) and ours:

=====================================  =========================================================
kubelet                                here
=====================================  =========================================================
getDefaultMachineState                 state.default_state
validateState, areMachineStatesEqual   invariants.check_accounting; the engine does not trust a
                                       stored state, it adopts the running containers
GetTopologyHints                       hints.container_hints
GetPodTopologyHints                    hints.container_hints: the engine places a pod as a
                                       whole as one container with the pod's request
calculateHints                         candidates.Candidates
isHintPreferred                        candidates.Candidates.hint
regenerateHints                        hints.regenerate_hints
getPodRequestedResources               pod.pod_request
Allocate                               policy_static.choose_nodes,
                                       policy_static.record_allocation
getDefaultHint, findBestHint           candidates.Candidates.best
extendTopologyManagerHint              candidates.Candidates.best, with `fixed` nodes
isAffinityViolatingNUMAAllocations     candidates.crosses_groups
updateMachineState                     blocks.add_blocks
updatePodReusableMemory                accounting.mark_reusable
getPodReusableMemory                   state.State.reusable_bytes
updateInitContainersMemoryBlocks       accounting.assign: it removes reused bytes from old blocks
RemoveContainer                        accounting.remove_container
GetMemoryNUMANodes                     policy_static.nodes_of
ReservedMemoryVar                      reserved_memory.parse_reserved_memory
validateReservedMemory                 reserved_memory.check_reserved
getSystemReservedMemory                node_allocatable.resolve_reserved
=====================================  =========================================================
"""

from nri_numamem.memorymanager.accounting import (
    adopt,
    adopt_again,
    mark_reusable,
    release_reusable,
    remove_container,
    remove_containers,
    remove_pod,
    rename_container,
)
from nri_numamem.memorymanager.candidates import Hint
from nri_numamem.memorymanager.hugepage_pools import (
    NonPodHugepages,
    PoolUse,
    mask_unavailable_hugepages,
    non_pod_hugepages,
)
from nri_numamem.memorymanager.invariants import (
    check_accounting,
    check_groups,
    check_shortfalls,
)
from nri_numamem.memorymanager.node_allocatable import HostReservation, derive, resolve_reserved
from nri_numamem.memorymanager.node_verdicts import NodeVerdict
from nri_numamem.memorymanager.pod import Container, ContainerKind, Pod, QosClass, pod_request
from nri_numamem.memorymanager.policy_static import (
    nodes_of,
)
from nri_numamem.memorymanager.rejection import Explanation, Rejection
from nri_numamem.memorymanager.reserved_memory import (
    Reservation,
    ReservedMemoryError,
)
from nri_numamem.memorymanager.resize import Resized, extend_containers, resize_container
from nri_numamem.memorymanager.shortfalls import charge_shortfalls
from nri_numamem.memorymanager.state import (
    AccountingError,
    Block,
    NodeState,
    Request,
    Reserved,
    State,
    Table,
    default_state,
    state_as_written,
)

__all__ = [
    "AccountingError",
    "Block",
    "Container",
    "ContainerKind",
    "Explanation",
    "Hint",
    "HostReservation",
    "NodeState",
    "NodeVerdict",
    "NonPodHugepages",
    "Pod",
    "PoolUse",
    "QosClass",
    "Rejection",
    "Request",
    "Reservation",
    "Reserved",
    "ReservedMemoryError",
    "Resized",
    "State",
    "Table",
    "adopt",
    "adopt_again",
    "charge_shortfalls",
    "check_accounting",
    "check_groups",
    "check_shortfalls",
    "default_state",
    "derive",
    "extend_containers",
    "mark_reusable",
    "mask_unavailable_hugepages",
    "nodes_of",
    "non_pod_hugepages",
    "pod_request",
    "release_reusable",
    "remove_container",
    "remove_containers",
    "remove_pod",
    "rename_container",
    "resize_container",
    "resolve_reserved",
    "state_as_written",
]
