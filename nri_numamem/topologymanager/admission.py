"""Admission of one container: merge the hints, apply the policy, choose the nodes.

The memory manager is the only provider here that allocates. The hints of the other providers
(device and CPU manager) are arguments. They stand before the memory manager's hints, in the
kubelet's order. Nothing here changes a state: a ``Placement`` computes the accounting that contains
the container when it is read, because a container's start waits for the nodes only.

Source: kubelet topologymanager, scope_container.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nri_numamem.memorymanager.candidates import Hint, candidates_for, crosses_groups
from nri_numamem.memorymanager.hints import NO_OTHER_PROVIDERS, container_hints
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.pod import Pod
from nri_numamem.memorymanager.policy_static import NO_DEFAULT, choose_nodes, record_allocation
from nri_numamem.memorymanager.rejection import (
    NOT_ALIGNED,
    TOPOLOGY,
    UNEXPECTED,
    Rejection,
    allocation_failed,
    reject,
)
from nri_numamem.memorymanager.state import Request, State
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences, Strategy
from nri_numamem.numa.quantity import MEMORY
from nri_numamem.topologymanager.merge import (
    HintList,
    ProviderHints,
    TopologyPolicy,
    merge_hints,
    merged_hints_of,
)


@dataclass(frozen=True, slots=True)
class Topology:
    """Configuration of the Topology Manager."""

    policy: TopologyPolicy = TopologyPolicy.BEST_EFFORT
    preferences: Preferences = field(default_factory=Preferences)
    compares_free_memory: bool = field(init=False, compare=False)
    """Whether a choice between equally close sets depends on the state."""

    def __post_init__(self) -> None:
        compares = self.preferences.strategy is not Strategy.LOWEST_IDS
        object.__setattr__(self, "compares_free_memory", compares)

    def with_previous_nodes(self, previous_nodes: NodeSet) -> "Topology":
        """Return the configuration for a container that had these nodes before."""
        return replace(self, preferences=replace(self.preferences, previous_nodes=previous_nodes))

    def with_memory_of(self, state: State, request: Request) -> "Topology":
        """Return the configuration for a strategy that compares the memory of nodes.

        `request` is that of the container.
        """
        tables = {n: node.table(MEMORY) for n, node in state.machine_state.items()}
        free_bytes = {n: table.free for n, table in tables.items()}
        preferences = self.preferences.with_free_bytes(free_bytes)
        if preferences.balance is not None:
            memory_bytes = {n: table.allocatable for n, table in tables.items()}
            balance = preferences.balance.with_memory(
                memory_bytes, free_bytes, request.get(MEMORY, 0)
            )
            preferences = replace(preferences, balance=balance)
        return replace(self, preferences=preferences)


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes for one container, not yet in the accounting."""

    nodes: NodeSet
    """The nodes for `cpuset.mems`; empty for a container of a pod that is not Guaranteed."""
    hint: Hint
    """The merged hint by which the nodes were chosen."""
    pod: Pod
    name: HolderName
    """Of the container, or the kind POD for the pod as a whole."""
    before: State
    """The accounting for which the nodes were chosen."""
    is_even: bool = False
    """Whether the nodes are an even group, see ``even``."""

    @property
    def accounting(self) -> State:
        """The accounting with the container in it, computed at each access."""
        if not self.pod.guaranteed:
            return self.before
        return record_allocation(self.before, self.pod, self.name, self.nodes, is_even=self.is_even)


def admit(
    state: State,
    pod: Pod,
    name: HolderName,
    topology: Topology,
    others: Sequence[ProviderHints] = (),
) -> Placement | Rejection:
    """Merge the hints for one container of a pod with those of `others`, and choose its nodes."""
    hint, own = _merged(state, pod, name, topology, others)
    if hint is None:
        return _rejection(state, pod, pod.container(name).requests, own, topology)
    nodes, is_offered = hint.affinity, own is not None and hint in own
    is_assigned = name in state.assignments.get(pod.uid, ())
    if nodes is not None and is_offered and not is_assigned:
        # The memory manager offers only sets of nodes that hold the request.
        return Placement(nodes, hint, pod, name, state)
    return admit_with_hint(state, pod, name, hint, topology.preferences)


def admit_beside_groups(
    state: State,
    pod: Pod,
    name: HolderName,
    topology: Topology,
    others: Sequence[ProviderHints],
) -> Placement | None:
    """Place a container whose merged hint has some nodes of a group, but not the whole group.

    The memory manager's hints inside the nodes of `others` win, and then the group. None if the
    merged hint crosses no group, or the group cannot hold the request. The kubelet places the
    container on the node of the group, which breaks the group, or refuses it.
    """
    hint, own = _merged(state, pod, name, topology, others)
    nodes = None if hint is None else hint.affinity
    if hint is None or nodes is None or not own or not crosses_groups(state, nodes):
        return None
    masks = merged_hints_of(others, topology.policy).masks
    inside = [found.affinity for found in own if found.affinity and _is_inside(found, masks)]
    if inside:
        best: NodeSet | None = min(inside, key=topology.preferences.rank)
    else:
        request, previous_nodes = pod.container(name).requests, topology.preferences.previous_nodes
        candidates = candidates_for(state, pod.uid, request, previous_nodes)
        best = candidates.best(topology.preferences, nodes)
    return None if best is None else Placement(best, hint, pod, name, state)


def _is_inside(hint: Hint, masks: Iterable[int]) -> bool:
    return any(hint.affinity is not None and hint.affinity.mask & ~mask == 0 for mask in masks)


def admit_with_hint(
    state: State, pod: Pod, name: HolderName, hint: Hint, preferences: Preferences
) -> Placement | Rejection:
    """Choose the nodes for one container of a pod by a merged hint.

    The nodes are those of the hint, or more or other ones where the hint does not suffice.
    """
    nodes = choose_nodes(state, pod, name, hint, preferences)
    return nodes if isinstance(nodes, Rejection) else Placement(nodes, hint, pod, name, state)


def _merged(
    state: State, pod: Pod, name: HolderName, topology: Topology, others: Sequence[ProviderHints]
) -> tuple[Hint | None, HintList | None]:
    """Return the merged hint and the memory manager's own; no merged hint is a rejection."""
    policy = topology.policy
    merged = merged_hints_of(others, policy) if others else NO_OTHER_PROVIDERS
    own = container_hints(state, pod, name, topology.preferences, merged)
    if own and not others and policy is TopologyPolicy.BEST_EFFORT:
        return own[0], own  # the only hint, on nodes of the machine: a merge returns it unchanged
    if own is not None and not own:
        return None, own
    # The lists of all resources are the same list, which counts once (see memorymanager.hints).
    providers = (*others, {MEMORY: own})
    hint, is_admitted = merge_hints(providers, state.machine_state, policy, topology.preferences)
    return (hint if is_admitted else None), own


def _rejection(
    state: State, pod: Pod, request: Request, own: HintList | None, topology: Topology
) -> Rejection:
    """Return the rejection of a container without an admissible hint."""
    reason, sentence = TOPOLOGY, NOT_ALIGNED
    if not own and topology.policy.admits_all:
        # No allocation can succeed; the text of the kubelet's default case fits best.
        reason, sentence = UNEXPECTED, allocation_failed(NO_DEFAULT)
    candidates = candidates_for(state, pod.uid, request, topology.preferences.previous_nodes)
    is_single = topology.policy is TopologyPolicy.SINGLE_NUMA_NODE
    limitation = f"{topology.policy} allows 1" if is_single else ""
    return reject(
        state, pod.uid, request, candidates, topology.preferences, reason, sentence, limitation
    )
