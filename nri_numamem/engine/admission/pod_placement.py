"""Placement in pod scope: a pod as a whole, and a container on the nodes of its pod.

Source: kubelet topologymanager, scope_pod.go (one merge, one hint for all containers).
"""

from nri_numamem.engine.admission.placement import (
    not_aligned_with_pod,
    place_beside_pod,
    place_by_hints,
    place_on_nodes,
)
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.core.request import ToPlace, request_of_pod
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.memorymanager import Rejection
from nri_numamem.memorymanager import Request as Resources
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.topologymanager import Placement


def place_in_pod(
    context: Context, state: EngineState, new: ToPlace
) -> tuple[EngineState, Placement | Rejection]:
    """Place a container in pod scope: on the pod's nodes if the pod is placed as a whole.

    Also return the state that the placement belongs to, in which the pod may have a pool.
    """
    pod, others, resources = new.pod, new.others, new.request.resources
    key = (pod.uid, new.container.name)
    beside = place_beside_pod(context, state, new)
    if beside is not None:
        return beside
    ready = _make_room(context, state, pod, others)
    if isinstance(ready, Rejection):
        return state, ready.of_pod()
    nodes = pod_scope.pool_nodes(ready, pod.uid)
    if nodes is None:
        previous = ready.nodes_before(key)
        return ready, place_by_hints(context, ready.accounting, key, resources, others, previous)
    if context.is_strict and others.is_disjoint_from(nodes):
        return state, not_aligned_with_pod(nodes)
    return ready, place_on_nodes(context, ready.accounting, key, resources, nodes)


def _make_room(
    context: Context, state: EngineState, pod: PodSandbox, others: OtherProviders
) -> EngineState | Rejection:
    """Return the state in which the pod has a pool, if it is placed as a whole.

    The hints of the other providers are known only when the pod's first container is created. The
    pod then moves if it must.
    """
    resources = request_of_pod(pod)
    if resources is None or pod_scope.container_nodes(state, pod.uid):
        return state
    nodes = pod_scope.pool_nodes(state, pod.uid)
    if nodes is not None and not others.is_disjoint_from(nodes):
        return state
    placed = place_pod(context, pod_scope.without_pool(state, pod.uid), pod, resources, others)
    if isinstance(placed, Rejection):
        return placed
    return pod_scope.with_pool(state, pod, placed.accounting)


def place_pod(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    resources: Resources,
    others: OtherProviders = NO_OTHER_PROVIDERS,
) -> Placement | Rejection:
    """Choose the nodes of a pod as a whole; `resources` is its sum."""
    key = (pod.uid, HolderKind.POD)
    accounting, previous = state.accounting, state.nodes_before(key)
    placed = place_by_hints(context, accounting, key, resources, others, previous)
    if isinstance(placed, Rejection) and others != NO_OTHER_PROVIDERS:
        # The first container may have CPUs on a part of the pod's nodes only.
        unmerged = place_by_hints(context, accounting, key, resources, previous_nodes=previous)
        if isinstance(unmerged, Placement) and not others.is_disjoint_from(unmerged.nodes):
            return unmerged
    return placed
