"""Events of a pod's sandbox: start, resize, stop, removal.

The end of a pod releases the memory of its containers. Only their nodes are remembered, for a pod
that starts again with its uid. It is the sandbox that ends, not the uid: a pod keeps its uid when
its sandbox is replaced, and the old sandbox may be removed after the new sandbox's containers were
created.
"""

from nri_numamem.engine.admission import pod_level
from nri_numamem.engine.admission.pod_placement import place_pod
from nri_numamem.engine.core import allowed_nodes
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Transition
from nri_numamem.engine.core.events import (
    PodCgroupGone,
    RemovePodSandbox,
    RunPodSandbox,
    StopPodSandbox,
    UpdatePodSandbox,
)
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import records
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.memorymanager import (
    Rejection,
    Request,
    mask_unavailable_hugepages,
    remove_containers,
)
from nri_numamem.memorymanager.holder import HolderKind, HolderName
from nri_numamem.memorymanager.hugepage_pools import MaskedState


def run_pod_sandbox(context: Context, state: EngineState, event: RunPodSandbox) -> Transition:
    """Add the sandbox; in pod scope also place the pod. Never refused: some runtimes would hang."""
    pod, state = event.pod, state.with_pod(event.pod)
    resources = pod_scope.pod_resources(context, pod)
    if resources is None:
        return Transition(state)
    if (pod.uid, HolderKind.POD) in state.holders:  # of an earlier sandbox that has not ended yet
        return Transition(pod_scope.with_pool(state, pod, state.accounting))
    if pod_scope.container_nodes(state, pod.uid):
        return Transition(state)
    return _place(context, state, event, resources)


def _place(
    context: Context, state: EngineState, event: RunPodSandbox, resources: Request
) -> Transition:
    """Reserve memory for a pod as a whole; a rejection is a record, and reserves nothing.

    The kernel's hugepage pools count here: the pod's containers take over what is reserved.
    """
    pod = event.pod
    masked = MaskedState(state.accounting)
    if event.pool_use is not None:
        masked = mask_unavailable_hugepages(state.accounting, event.pool_use)
    if state.earmarks or context.policy.claims_share_percent:
        masked = allowed_nodes.mask_set_aside(context, state, pod, masked)
    masked = allowed_nodes.mask_others(context, pod, masked)
    seen = state.with_accounting(masked.state)
    for feature in context.features:
        context = feature.preferring(context, seen, pod)
    placed = place_pod(context, seen, pod, resources)
    if isinstance(placed, Rejection):
        placed = allowed_nodes.with_cause(context, pod, placed, masked, resources)
        placed = allowed_nodes.with_set_aside(context, state, pod, placed)
        return Transition(state, (records.rejected(context, seen, pod, resources, placed),))
    after = pod_scope.with_pool(state, pod, masked.unmask(placed.accounting))
    done = Transition(after, (records.admitted(state, after, pod, resources, placed),))
    for feature in context.features:
        done = feature.explained(context, pod, placed, NO_OTHER_PROVIDERS, done)
    return done


def update_pod_sandbox(context: Context, state: EngineState, event: UpdatePodSandbox) -> Transition:
    """Apply the new limits of a pod to its pool and to what its containers hold."""
    pod = event.pod
    if pod.sandbox_id not in state.pods:
        return Transition(state)
    state = pod_level.fill_limit(context, state.with_pod(pod), pod)
    state = pod_scope.take_from_pool(context, state, pod)
    return Transition(pod_limit.release_excess(state, pod))


def end_pod_sandbox(
    _context: Context, state: EngineState, event: StopPodSandbox | RemovePodSandbox | PodCgroupGone
) -> Transition:
    """Release the memory of the sandbox's containers; nothing if that has happened already.

    Containers of the same pod in another sandbox keep their memory.
    """
    pod = event.pod
    ended = [h for h in state.holders.values() if h.sandbox_id == pod.sandbox_id]
    if not ended and pod.sandbox_id not in state.pods:
        return Transition(state)
    next_state = state.without_pod(pod.sandbox_id, state.previous_nodes_with(ended))
    names: dict[str, list[HolderName]] = {}
    for holder in ended:
        names.setdefault(holder.key[0], []).append(holder.key[1])
    accounting = next_state.accounting
    for uid, containers in names.items():  # a runtime's sandbox has one uid
        accounting = remove_containers(accounting, uid, containers)
    next_state = next_state.without_holders(ended, accounting)
    if not ended:
        return Transition(next_state)
    return Transition(next_state, (records.released(state, next_state, pod, ended),))
