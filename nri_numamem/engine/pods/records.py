"""Records of decisions on pods."""

from collections.abc import Collection, Mapping
from itertools import chain

from nri_numamem.engine.core.allowed_nodes import partition_of, set_aside_texts
from nri_numamem.engine.core.candidates import Choice, considered, reasons_in
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.fields import free_bytes, pod_names, used_outside_of_pods
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.records.pods import PodAdmitted, PodAdopted, PodRejected, PodReleased
from nri_numamem.memorymanager import Rejection
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import MEMORY, NodeSet
from nri_numamem.topologymanager import Placement

# A user may start thousands of init containers in a pod.
_NAMES_LIMIT = 50


def admitted(
    before: EngineState,
    state: EngineState,
    pod: PodSandbox,
    request: Mapping[str, int],
    placed: Placement,
) -> PodAdmitted:
    """Record a pod that gets NUMA nodes as a whole; `before` is the state of the decision."""
    previous = before.nodes_before((pod.uid, HolderKind.POD))
    choice = Choice(placed.before, pod.uid, request, placed.nodes, previous_nodes=previous)
    return PodAdmitted(
        names=pod_names(pod),
        request_bytes=request,
        considered=considered(choice, state),
        merged_hint=placed.hint,
        nodes=placed.nodes,
    )


def adopted(
    state: EngineState,
    pod: PodSandbox,
    request: Mapping[str, int],
    nodes: NodeSet,
    shortfall: Mapping[str, int],
) -> PodAdopted:
    """Record a pod whose NUMA nodes cannot hold all of its request."""
    return PodAdopted(
        names=pod_names(pod),
        request_bytes=request,
        nodes=nodes,
        free_bytes=free_bytes(state.accounting, request, nodes),
        shortfall_bytes=shortfall,
    )


def rejected(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    request: Mapping[str, int],
    rejection: Rejection,
) -> PodRejected:
    """Record a pod for which no nodes were found; its first container tries again."""
    previous = state.nodes_before((pod.uid, HolderKind.POD))
    choice = Choice(state.accounting, pod.uid, request, previous_nodes=previous)
    rejection = rejection.explained(reasons_in(choice))
    return PodRejected(
        names=pod_names(pod),
        request_bytes=request,
        considered=considered(choice, state),
        used_outside_of_pods_bytes=used_outside_of_pods(state, request),
        partition=partition_of(context, pod),
        set_aside=set_aside_texts(context, state, pod),
        policy=context.policy.topology_manager_policy,
        reason=rejection.reason,
        message=rejection.message,
    )


def released(
    before: EngineState, state: EngineState, pod: PodSandbox, holders: Collection[Holder]
) -> PodReleased:
    """Record a pod that ended; its memory is free again. `state` follows `before`."""
    names = [name for holder in holders if isinstance(name := holder.key[1], str)]
    blocks = chain.from_iterable(before.blocks(holder.key) or () for holder in holders)
    nodes = set(chain.from_iterable(block.numa_affinity for block in blocks))
    return PodReleased(
        names=pod_names(pod),
        containers=(*names[:_NAMES_LIMIT],),
        container_count=len(names) if len(names) > _NAMES_LIMIT else None,
        free_bytes=free_bytes(state.accounting, (MEMORY,), nodes),
    )
