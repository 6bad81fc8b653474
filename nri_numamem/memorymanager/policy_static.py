"""The policy `Static`: place a container on the nodes of a hint, or reject it with a reason.

The hint comes from the topology manager. It may have no nodes, too few, or nodes of another
group; the rules below turn it into an admissible node set or a rejection, which changes nothing.
Choosing the nodes and recording the allocation are two steps, because only the first one delays
the container's start.
Source: kubelet memorymanager, policy_static.go, Allocate.
"""

from nri_numamem.memorymanager.accounting import (
    assign,
    mark_reusable,
    remove_container,
    unmark_reusable,
)
from nri_numamem.memorymanager.candidates import Hint, candidates_for, crosses_groups, free_bytes
from nri_numamem.memorymanager.hints import kept_blocks
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.pod import ContainerKind, Pod
from nri_numamem.memorymanager.rejection import UNEXPECTED, Rejection, allocation_failed, reject
from nri_numamem.memorymanager.state import Block, Request, State, has_normal_memory
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences

NO_DEFAULT = (
    "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
)
NO_PREFERRED_DEFAULT = "failed to find the default preferred hint"
NO_EXTENDED = "failed to find NUMA nodes to extend the current topology hint"
NO_PREFERRED_EXTENDED = "failed to find the extended preferred hint"
CROSSES_GROUPS = "preferred hint violates NUMA node allocation"


def nodes_of(blocks: tuple[Block, ...]) -> NodeSet:
    """Return all nodes of some blocks.

    Source: kubelet memorymanager, GetMemoryNUMANodes.
    """
    nodes = NodeSet()
    for block in blocks:
        nodes |= block.numa_affinity
    return nodes


def choose_nodes(
    state: State, pod: Pod, name: HolderName, hint: Hint, preferences: Preferences
) -> NodeSet | Rejection:
    """Return the nodes of `hint` for one container of a pod, extended or replaced if necessary.

    A container that is assigned already keeps its nodes, unless other containers have reused its
    bytes. Return the empty set if the pod is not Guaranteed.
    """
    if not pod.guaranteed:
        return NodeSet()
    blocks = kept_blocks(state, pod, name)
    if blocks is not None:
        return nodes_of(blocks)
    without_it = remove_container(state, pod.uid, name)
    return _choose(without_it, pod.uid, pod.container(name).requests, hint, preferences)


def record_allocation(
    state: State, pod: Pod, name: HolderName, nodes: NodeSet, *, is_even: bool = False
) -> State:
    """Record a Guaranteed pod's container on the nodes that choose_nodes() returned.

    If `is_even`, the nodes are an even group (``even_groups``). An ordinary init container is
    reusable at once.
    """
    container = pod.container(name)
    is_init = container.kind is ContainerKind.INIT
    if kept_blocks(state, pod, name) is not None:
        return (mark_reusable if is_init else unmark_reusable)(state, pod.uid, name)
    without_it = remove_container(state, pod.uid, name)
    placed = assign(without_it, pod.uid, name, nodes, container.requests, is_even=is_even)
    return mark_reusable(placed, pod.uid, name) if is_init else placed


def _choose(
    state: State, uid: str, request: Request, hint: Hint, preferences: Preferences
) -> NodeSet | Rejection:
    """Return the nodes of the hint, the best set if it has none, or the best extension of it."""
    nodes = hint.affinity
    is_enough = nodes is not None and all(
        free_bytes(state, nodes, resource) >= size_bytes for resource, size_bytes in request.items()
    )
    is_in_group = nodes is not None and not crosses_groups(state, nodes)
    if nodes is not None and is_enough and is_in_group and has_normal_memory(state, nodes):
        return nodes
    candidates = candidates_for(state, uid, request, preferences.previous_nodes)
    if nodes is None:
        found, problems = candidates.best(preferences), (NO_DEFAULT, NO_PREFERRED_DEFAULT)
    elif not is_enough or is_in_group:
        found, problems = candidates.best(preferences, nodes), (NO_EXTENDED, NO_PREFERRED_EXTENDED)
    else:
        found, problems = None, (CROSSES_GROUPS, CROSSES_GROUPS)
    if found is not None and (candidates.hint(found).preferred or not hint.preferred):
        return found
    sentence = allocation_failed(problems[found is not None])
    return reject(state, uid, request, candidates, preferences, UNEXPECTED, sentence)
