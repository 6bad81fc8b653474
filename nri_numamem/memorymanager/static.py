"""The policy `Static`: place a container on the nodes of a hint, or say why not.

The hint comes from the Topology Manager and may name no nodes, too few, or the wrong ones; the
rules below turn it into an admissible node set or a rejection. A rejection changes nothing.
To choose the nodes and to enter the container in the books are two steps, because the container's
start waits for the first one only.
Source: kubelet memorymanager, policy_static.go, Allocate.
"""

from nri_numamem.memorymanager.books import assign, give_back, remove_container, take_back
from nri_numamem.memorymanager.choices import (
    choices_for,
    crosses_groups,
    free_bytes,
)
from nri_numamem.memorymanager.hint import Hint, Preferences
from nri_numamem.memorymanager.hints import kept_blocks
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.pod import ContainerKind, Pod
from nri_numamem.memorymanager.refusal import UNEXPECTED, Rejection, allocation_failed, reject
from nri_numamem.memorymanager.state import Block, Request, State
from nri_numamem.values import valueclass

NO_DEFAULT = (
    "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
)
NO_PREFERRED_DEFAULT = "failed to find the default preferred hint"
NO_EXTENDED = "failed to find NUMA nodes to extend the current topology hint"
NO_PREFERRED_EXTENDED = "failed to find the extended preferred hint"
CROSSES_GROUPS = "preferred hint violates NUMA node allocation"


@valueclass(frozen=True, slots=True)
class Allocated:
    """A container that was placed, or that the policy leaves alone."""

    state: State
    blocks: tuple[Block, ...]
    """Empty when the container is left alone."""

    @property
    def nodes(self) -> NodeSet:
        """The nodes for `cpuset.mems`; empty is no restriction (kubelet, GetMemoryNUMANodes)."""
        return nodes_of(self.blocks)


def nodes_of(blocks: tuple[Block, ...]) -> NodeSet:
    """Return all nodes on which blocks lie."""
    nodes = NodeSet()
    for block in blocks:
        nodes |= block.numa_affinity
    return nodes


def allocate(
    state: State, pod: Pod, name: str, hint: Hint, preferences: Preferences
) -> Allocated | Rejection:
    """Place one container of a pod on the nodes of `hint`, or on more or better ones if need be.

    A container that is assigned already keeps its place; one that gave back takes its place again
    unless other containers have used up its bytes. An ordinary init container gives back at once.
    """
    nodes = choose_nodes(state, pod, name, hint, preferences)
    if isinstance(nodes, Rejection):
        return nodes
    if not pod.guaranteed:
        return Allocated(state, ())
    placed = enter(state, pod, name, nodes)
    return Allocated(placed, placed.assignments[pod.uid][name])


def choose_nodes(
    state: State, pod: Pod, name: str, hint: Hint, preferences: Preferences
) -> NodeSet | Rejection:
    """Return the nodes for a container's blocks; none for one that is left alone."""
    if not pod.guaranteed:
        return NodeSet()
    blocks = kept_blocks(state, pod, name)
    if blocks is not None:
        return nodes_of(blocks)
    rest = remove_container(state, pod.uid, name)
    return _choose(rest, pod.uid, pod.container(name).requests, hint, preferences)


def enter(state: State, pod: Pod, name: str, nodes: NodeSet) -> State:
    """Enter a Guaranteed pod's container on the nodes that choose_nodes() gave in these books."""
    container = pod.container(name)
    is_init = container.kind is ContainerKind.INIT
    if kept_blocks(state, pod, name) is not None:
        return (give_back if is_init else take_back)(state, pod.uid, name)
    rest = remove_container(state, pod.uid, name)
    placed = assign(rest, pod.uid, name, nodes, container.requests)
    return give_back(placed, pod.uid, name) if is_init else placed


def _choose(
    state: State, uid: str, request: Request, hint: Hint, preferences: Preferences
) -> NodeSet | Rejection:
    """Return the nodes to use: those of the hint, the default, or an extension of the hint."""
    nodes = hint.affinity
    is_enough = nodes is not None and all(
        free_bytes(state, nodes, resource) >= size_bytes for resource, size_bytes in request.items()
    )
    if nodes is not None and is_enough and not crosses_groups(state, nodes):
        return nodes
    choices = choices_for(state, uid, request, preferences.home)
    if nodes is None:
        found, problems = choices.best(preferences), (NO_DEFAULT, NO_PREFERRED_DEFAULT)
    elif not is_enough:
        found, problems = choices.best(preferences, nodes), (NO_EXTENDED, NO_PREFERRED_EXTENDED)
    else:
        found, problems = None, (CROSSES_GROUPS, CROSSES_GROUPS)
    if found is not None and (choices.hint(found).preferred or not hint.preferred):
        return found
    sentence = allocation_failed(problems[found is not None])
    return reject(state, request, choices, preferences, UNEXPECTED, sentence)
