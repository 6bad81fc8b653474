"""Placement: the one module of the engine that calls the two managers to choose nodes.

A container for which a feature chooses nodes goes there. Another one goes, in this order,

1. near the hugepages that its pod's containers share, if only their sum is known;
2. onto the nodes of its pod's live containers, if it shares their memory (pod-level resources);
3. where the hints of all providers lead; of equal nodes onto one with room for the pod's rest.

In pod scope ``pod_placement`` has another rule 3. Nothing here changes a state. The runtime's
events and all steps of ``simulate`` come here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from nri_numamem.engine.admission.equal_nodes import place_with_room
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.providers import (
    NO_OTHER_PROVIDERS,
    OtherProviders,
    format_nodes,
    have_common_node,
)
from nri_numamem.engine.core.request import HugepageSource, NodeChooser, ToPlace
from nri_numamem.engine.core.state import NO_PREVIOUS_NODES, EngineState
from nri_numamem.memorymanager import Container as ManagedContainer
from nri_numamem.memorymanager import (
    ContainerKind,
    Hint,
    Pod,
    Rejection,
    Resized,
    State,
    extend_containers,
    remove_container,
    resize_container,
)
from nri_numamem.memorymanager import Request as Resources
from nri_numamem.memorymanager.hints import kept_blocks
from nri_numamem.memorymanager.holder import HolderKey, HolderName
from nri_numamem.memorymanager.rejection import not_aligned
from nri_numamem.memorymanager.state import views
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MEMORY
from nri_numamem.topologymanager import (
    Placement,
    ProviderHints,
    Topology,
    TopologyPolicy,
    admit,
    admit_beside_groups,
    admit_with_hint,
)


def place_container(
    context: Context, state: EngineState, new: ToPlace
) -> tuple[EngineState, Placement | Rejection]:
    """Choose the nodes of a container; also return the state that the placement belongs to.

    That state differs from `state` only where room was made for the container's pod: its containers
    have more nodes.
    """
    pod, request = new.pod, new.request
    key = (pod.uid, new.container.name)
    if request.chooser is not None:
        return state, _place_by_chooser(context, state, new, request.chooser)
    if request.is_shared or request.hugepage_source is HugepageSource.POD:
        beside = place_beside_pod(context, state, new)
        if beside is not None:
            return beside
    previous = state.nodes_before(key) if state.previous_nodes else NO_PREVIOUS_NODES
    place = partial(place_by_hints, context, state.accounting, key, request.resources, new.others)
    if request.resources.get(MEMORY) == pod.memory_limit_bytes and not pod.hugepage_limits:
        return state, place(previous)  # nothing is left for other containers of the pod
    return state, place_with_room(context, state, pod, request.resources, place, previous)


def place_beside_pod(
    context: Context, state: EngineState, new: ToPlace
) -> tuple[EngineState, Placement | Rejection] | None:
    """Place a container that shares hugepages or memory with its pod; None if no rule applies."""
    near, request = None, new.request
    if request.hugepage_source is HugepageSource.POD:
        near = _shared_hugepages_nodes(state, new.key)
    if near is not None and not (context.is_strict and new.others.is_disjoint_from(near)):
        placed = place_on_nodes(context, state.accounting, new.key, request.resources, near)
        if not isinstance(placed, Rejection):
            return state, placed
    sets = nodes_of_live_others(state, new.key) if request.is_shared else ()
    return _place_beside(context, state, new, sets) if sets else None


def place_by_hints(
    context: Context,
    accounting: State,
    key: HolderKey,
    resources: Resources,
    others: OtherProviders = NO_OTHER_PROVIDERS,
    previous_nodes: NodeSet = NO_PREVIOUS_NODES,
) -> Placement | Rejection:
    """Place a container by the merged hints of the memory manager and the other providers.

    Among equally good sets `previous_nodes` win. With `best-effort`, a hint for a part of a group
    is extended to the group, and hints that leave no place are ignored in turn, devices first.
    With `single-numa-node`, a container that has several nodes from before, as by another policy,
    returns to them: a restart is no admission.
    """
    topology, pod = context.topology, _pod_of(key, resources)
    if topology.compares_free_memory:
        topology = topology.with_memory_of(accounting, resources)
    if previous_nodes is not NO_PREVIOUS_NODES:
        topology = topology.with_previous_nodes(previous_nodes)
    if topology.policy is TopologyPolicy.SINGLE_NUMA_NODE:
        kept = kept_blocks(accounting, pod, key[1])
        nodes = kept[0].numa_affinity if kept else NodeSet()
        if len(nodes) > 1 and not others.is_disjoint_from(nodes):
            return place_with_hint(context, accounting, pod, key[1], Hint(nodes, preferred=False))
    place = partial(_admit, pod=pod, name=key[1], topology=topology, others=others)
    return _place_in_views(context, accounting, pod, key[1], place)


def _place_by_chooser(
    context: Context, state: EngineState, new: ToPlace, chooser: NodeChooser
) -> Placement | Rejection:
    """Place a container where a feature chooses."""
    topology, resources, name = context.topology, new.request.resources, new.container.name
    pod = _pod_of(new.key, resources)
    if topology.compares_free_memory:
        topology = topology.with_memory_of(state.accounting, resources)
    topology = topology.with_previous_nodes(state.nodes_before(new.key))

    def place(view: State) -> Placement | Rejection:
        providers = new.others.within(NodeSet(view.machine_state)).providers()
        return chooser.place(view, pod, name, topology, providers)

    return _place_in_views(context, state.accounting, pod, name, place)


def _place_in_views(
    context: Context,
    accounting: State,
    pod: Pod,
    name: HolderName,
    place: Callable[[State], Placement | Rejection],
) -> Placement | Rejection:
    """Place a container without last-resort nodes, or if nothing fits, with them.

    A container that keeps its assignment is not placed anew.
    """
    last_resort = context.topology.preferences.last_resort
    if not last_resort.mask or kept_blocks(accounting, pod, name) is not None:
        return place(accounting)
    for view in views(remove_container(accounting, pod.uid, name), last_resort):
        placed = place(view)
        if not isinstance(placed, Rejection):
            return replace(placed, before=accounting)
    return placed


def _admit(
    accounting: State, pod: Pod, name: HolderName, topology: Topology, others: OtherProviders
) -> Placement | Rejection:
    """Place a container, with `best-effort` without the hints that leave no place."""
    if others is NO_OTHER_PROVIDERS:
        return admit(accounting, pod, name, topology)
    if topology.preferences.last_resort.mask:
        others = others.within(NodeSet(accounting.machine_state))
    for providers in _attempts(topology.policy, others.providers()):
        placed = admit(accounting, pod, name, topology, providers)
        if isinstance(placed, Rejection) and topology.policy is TopologyPolicy.BEST_EFFORT:
            placed = admit_beside_groups(accounting, pod, name, topology, providers) or placed
        if not isinstance(placed, Rejection):
            break
    return placed


def place_on_nodes(
    context: Context, accounting: State, key: HolderKey, resources: Resources, nodes: NodeSet
) -> Placement | Rejection:
    """Place a container on these nodes, or if they are too full, on more nodes around them."""
    # Not preferred: a container of a pod on two nodes may be small enough for one.
    hint = Hint(nodes, preferred=False)
    return place_with_hint(context, accounting, _pod_of(key, resources), key[1], hint)


def place_with_hint(
    context: Context, accounting: State, pod: Pod, name: HolderName, hint: Hint
) -> Placement | Rejection:
    """Place a container by a merged hint that is known already."""
    preferences = context.topology.preferences
    place = partial(admit_with_hint, pod=pod, name=name, hint=hint, preferences=preferences)
    return _place_in_views(context, accounting, pod, name, place)


def resize(context: Context, accounting: State, key: HolderKey, memory_bytes: int) -> Resized:
    """Change the memory of a running container; on more nodes if necessary and admitted.

    A container on an excluded node keeps its nodes; that node may hold any number of bytes.
    """
    topology = context.topology
    admits = topology.policy.admits_several_nodes
    done = resize_container(accounting, *key, memory_bytes, topology.preferences, admits)
    return done if context.uses(done.nodes) else replace(done, shortfall={})


def not_aligned_with_pod(nodes: NodeSet) -> Rejection:
    """Return the rejection of a container that must not be on `nodes`, where its pod is."""
    return not_aligned(f"the pod's memory is on {format_nodes(nodes)}")


def _shared_hugepages_nodes(state: EngineState, key: HolderKey) -> NodeSet | None:
    """Return the nodes of the hugepages that the containers of a pod share; None before the first.

    Only the pod's sum is known. The first container took all of it, and the others should reach
    those pages.
    """
    for blocks in state.blocks_of_live_others(key):
        for block in blocks:
            if block.type.startswith("hugepages-"):
                return block.numa_affinity
    return None


def _place_beside(
    context: Context, state: EngineState, new: ToPlace, sets: Sequence[NodeSet]
) -> tuple[EngineState, Placement | Rejection]:
    """Place a container on the nodes of live containers whose memory it shares.

    `sets` are the node sets of these containers. If the nodes are too full, all containers on them
    get more nodes.
    """
    key, resources = new.key, new.request.resources
    usable = [n for n in sets if not new.others.is_disjoint_from(n)]
    usable += [] if context.is_strict else [n for n in sets if n not in usable]
    placed: Placement | Rejection = not_aligned_with_pod(sets[0])
    for nodes in usable:
        placed = place_on_nodes(context, state.accounting, key, resources, nodes)
        if isinstance(placed, Placement):
            return state, placed
    found = extended(context, state, key, resources, usable)
    if found is not None:
        state, nodes = found
        placed = place_on_nodes(context, state.accounting, key, resources, nodes)
    return state, placed


def _attempts(
    policy: TopologyPolicy, providers: Sequence[ProviderHints]
) -> Iterator[Sequence[ProviderHints]]:
    """Yield the providers to merge with, one attempt after the other; at least one attempt."""
    if policy is not TopologyPolicy.BEST_EFFORT:
        yield providers
        return
    for ignored in range(len(providers) + 1):
        attempt = providers[ignored:]
        if len(attempt) < 2 or have_common_node(attempt):
            yield attempt


def nodes_of_live_others(state: EngineState, key: HolderKey) -> list[NodeSet]:
    """Return the node sets of a pod's other live containers, without excluded and lost nodes."""
    usable = NodeSet(state.accounting.machine_state)
    sets = [b[0].numa_affinity for b in state.blocks_of_live_others(key) if b]
    return [nodes for nodes in dict.fromkeys(sets) if nodes.issubset(usable)]


def extended(
    context: Context,
    state: EngineState,
    key: HolderKey,
    request: Resources,
    sets: Iterable[NodeSet],
) -> tuple[EngineState, NodeSet] | None:
    """Give more nodes to all of a pod's containers on one of `sets`, so that `request` fits.

    Also return the nodes; None if the policy admits no larger set.
    """
    topology = context.topology
    admits = topology.policy.admits_several_nodes
    without_it = remove_container(state.accounting, *key)
    for nodes in sets:
        found = extend_containers(without_it, key[0], nodes, request, topology.preferences, admits)
        if found is not None:
            return state.with_accounting(found[0]), found[1]
    return None


def _pod_of(key: HolderKey, resources: Resources) -> Pod:
    uid, name = key
    container = ManagedContainer(str(name), ContainerKind.APP, resources)
    return Pod(uid, guaranteed=True, containers=(container,))
