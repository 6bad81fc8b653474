"""Events of one container: creation, stop, removal; ``container_update`` has its updates.

A container of a pod that is not managed changes nothing. The memory of a container that ends stays
reserved for its pod; the end of the pod releases it (``pods``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from nri_numamem.engine.admission import (
    alignment,
    duplicates,
    pod_level,
    preset,
    records,
    remedies,
)
from nri_numamem.engine.admission.placement import place_container
from nri_numamem.engine.admission.pod_placement import place_in_pod
from nri_numamem.engine.core import allowed_nodes, reasons
from nri_numamem.engine.core.candidates import reasons_in
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision, Transition
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RemoveContainer,
    StopContainer,
)
from nri_numamem.engine.core.plan import Adjustment, HugepageRoute, Plan, Update
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.request import HugepageSource, Request, ToPlace, request_for
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import outstanding
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.engine.records.containers import Admitted, Rejected, UnpinnedNoCapacity
from nri_numamem.memorymanager import (
    Rejection,
    mark_reusable,
    mask_unavailable_hugepages,
    remove_container,
)
from nri_numamem.memorymanager.burstable import mask_unavailable_memory
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.numa import NodeSet
from nri_numamem.numa.closest.cover import NO_NODES
from nri_numamem.topologymanager import Placement


def create_container(context: Context, state: EngineState, event: CreateContainer) -> Decision:
    """Choose the NUMA nodes of a managed container, or refuse it with the reason."""
    pod, container = event.pod, event.container
    why = context.unmanaged_reason(pod, container)
    if why is not None:
        return _not_managed(state, pod, container, why)
    others = context.other_providers_of(container)
    duplicate = None
    if (pod.uid, container.name) in state.holders:
        state, duplicate = duplicates.separate(state, pod, container)
    if duplicate is not None:
        state = pod_scope.take_from_pool(context, state, pod)
    request = request_for(state, pod, container)
    before = state.holders.get((pod.uid, container.name))
    if before is not None and before.is_shared and not before.ended:
        # Its size is what others left of the pod's limit, not what it needs when it runs again.
        state = state.without_holder(before, remove_container(state.accounting, *before.key))
        request = request_for(state, pod, container)
    if request is None:
        why = "neither it nor its pod has a memory limit, so its request is unknown"
        return _not_managed(state.with_pod(pod), pod, container, why)
    for feature in context.features:
        context = feature.preferring(context, state, pod, container)
        request = feature.request(context, event, request)
    if container.cpuset_mems:
        decision = preset.adopt_preset(context, state.with_pod(pod), event, request)
    else:
        decision = _admit(context, state, event, ToPlace(pod, container, request, others))
    return decision if duplicate is None else decision.with_records(duplicate)


def _not_managed(state: EngineState, pod: PodSandbox, container: Container, why: str) -> Decision:
    """Change nothing; the record is made after the reply."""

    def transition() -> Transition:
        return Transition(state, (records.not_managed(pod, container, why),))

    return Decision(NO_PLAN, transition)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A placement of a new container, and what it sees."""

    context: Context
    state: EngineState
    event: CreateContainer
    new: ToPlace
    kept_free: NodeSet
    """Nodes that it does not use, because other pods need them."""
    available: MaskedState
    """What the kernel can provide now."""
    masked: MaskedState
    """The same on the nodes that it may use."""
    free: EngineState
    """The state with `masked`, without what the pod holds beyond its limit."""


def _admit(
    context: Context,
    state: EngineState,
    event: CreateContainer,
    new: ToPlace,
    kept_free: NodeSet = NO_NODES,
) -> Decision:
    """Place a container in memory that is free in the accounting and in the kernel's pools.

    It gets none of the nodes `kept_free`, which other pods need.
    """
    pod, request = new.pod, new.request
    masked = available = _available(context, state, event)
    if context.limits_nodes:
        masked = allowed_nodes.mask_others(context, pod, available)
        masked = masked.without(kept_free) if kept_free else masked
    is_masked = masked.amounts or masked.hidden or masked.earmarks
    seen = free = state.with_accounting(masked.state) if is_masked else state
    if masked.hidden:
        new = replace(new, others=new.others.within(NodeSet(masked.state.machine_state)))
    excess: Mapping[str, int] = {}
    if pod.uid in state.accounting.reusable:
        excess = pod_limit.excess(seen, pod, new.container.name, request.resources)
        if excess:
            free = pod_limit.release(seen, pod.uid, excess)
    attempt = _Attempt(context, state, event, new, kept_free, available, masked, free)
    place = place_in_pod if context.places_pods else place_container
    ready, placed = place(context, free, new)
    if isinstance(placed, Rejection):
        return _rejected(attempt, placed, free)
    if context.limits_nodes and free.outstanding:
        elsewhere = _elsewhere(attempt, placed)
        if elsewhere is not None:
            return elsewhere
    # A rejection of the container itself is more exact, so it comes first.
    lacking = outstanding.lacking(context, free, available.state, pod, request.resources)
    if lacking is not None:
        return _rejected(attempt, *lacking)
    kept = pod_limit.without_release(seen, free, ready, placed) if excess else None
    if kept is not None:
        ready, placed, excess = seen, kept, {}
    return _admitted(context, seen, ready, new, placed, masked, excess)


def _elsewhere(attempt: _Attempt, placed: Placement) -> Decision | None:
    """Return the decision without nodes that begun pods need; None if `placed` takes none."""
    context, state, pod = attempt.context, attempt.state, attempt.new.pod
    crowded = outstanding.crowded(context, attempt.free, pod, placed.accounting)
    crowded -= allowed_nodes.own_nodes(state.accounting, pod)
    if not crowded:
        return None
    kept_free = attempt.kept_free | crowded
    decision = _admit(context, state, attempt.event, attempt.new, kept_free)
    is_refused = decision.rejection is not None and outstanding.has_begun(state, pod)
    return None if is_refused else decision


def _rejected(attempt: _Attempt, rejection: Rejection, checked: EngineState) -> Decision:
    """Refuse a container; `checked` is the state whose nodes lack room for it or its pod."""
    context, new, free = attempt.context, attempt.new, attempt.free
    if context.limits_nodes:
        outside = allowed_nodes.mask_others(context, new.pod, attempt.available)
        resources = new.request.resources
        rejection = allowed_nodes.with_cause(context, new.pod, rejection, outside, resources)
    if attempt.kept_free:
        needed = format_nodes(attempt.kept_free)
        rejection = rejection.with_fact(f"pods that run in part need {needed}")
    rejection = allowed_nodes.with_set_aside(context, attempt.state, new.pod, rejection)
    choice = records.choice_of_rejected(free, new, rejection)
    refused = remedies.Refused(
        context, attempt.state, attempt.event, choice, attempt.masked.amounts, rejection, checked
    )
    find = partial(remedies.find, refused, _is_admitted)
    rejection = rejection.explained(reasons_in(choice), tuple if context.is_trial else find)
    reject = partial(_reject, context, attempt.state, free, new, rejection)
    return Decision(_refusal(context, new, rejection), reject, rejection)


def _admitted(
    context: Context,
    seen: EngineState,
    ready: EngineState,
    new: ToPlace,
    placed: Placement,
    masked: MaskedState,
    released: Mapping[str, int],
) -> Decision:
    """Pin a container that was placed in `ready`; `seen` is the state before."""
    updates: tuple[Update, ...] = ()
    if new.request.is_shared:
        ready, updates = pod_level.extended(seen, ready, new.pod.uid)
    adjustment = Adjustment(str(placed.nodes))
    if new.request.hugepage_limits:
        adjustment = _with_hugepages(adjustment, new.request)
    enter = partial(_enter, context, ready, new, placed, masked, adjustment, updates, released)
    return Decision(Plan(adjustment, updates), enter)


def _available(context: Context, state: EngineState, event: CreateContainer) -> MaskedState:
    """Return the accounting without what the kernel could not provide now, or is set aside."""
    masked = MaskedState(state.accounting)
    if event.pool_use is not None:
        masked = mask_unavailable_hugepages(state.accounting, event.pool_use)
    if event.available_memory is not None:
        masked = mask_unavailable_memory(masked, event.available_memory)
    if state.earmarks or context.policy.claims_share_percent:
        masked = allowed_nodes.mask_set_aside(context, state, event.pod, masked)
    return masked


def _refusal(context: Context, new: ToPlace, rejection: Rejection) -> Plan:
    """Return the plan for a container that fits nowhere; with RunUnpinned it is created."""
    if not context.rejects:
        return NO_PLAN
    if context.is_trial:
        return Plan(refusal=rejection.reason)
    text = records.rejection_text(context, new.pod, new.container, rejection, new.others)
    return Plan(refusal=text)


def _is_admitted(context: Context, state: EngineState, event: CreateContainer) -> bool:
    return create_container(context, state, event).rejection is None


def _reject(
    context: Context, state: EngineState, seen: EngineState, new: ToPlace, rejection: Rejection
) -> Transition:
    """Record a rejection; `seen` is the state of the decision.

    It lacks the hugepages that the kernel lacks, and what the pod holds beyond its limit.
    """
    after, kind = state.with_pod(new.pod), Rejected if context.rejects else UnpinnedNoCapacity
    record = records.unplaced_as(kind, context, seen, new, rejection)
    if context.rejects:
        return Transition(after, (record,))
    holder = Holder(new.container.container_id, new.pod.sandbox_id, new.key)
    return Transition(after, (record,), reasons=reasons.unpinned(kind, after, holder))


def _enter(
    context: Context,
    state: EngineState,
    new: ToPlace,
    placed: Placement,
    masked: MaskedState,
    adjustment: Adjustment,
    updates: tuple[Update, ...],
    released: Mapping[str, int],
) -> Transition:
    """Record a container that was placed in `state`, for which memory was `released`.

    `context` is that of the placement.
    """
    pod = new.pod
    holder, more = alignment.placed(state, new, placed)
    after = state.with_pod(pod).with_holder(holder, masked.unmask(placed.accounting))
    if new.container.has_devices:
        after = after.with_devices(holder.container_id)
    excess = pod_limit.excess(after, pod)
    if excess:
        after, released = pod_limit.release(after, pod.uid, excess), excess
    record = records.placed_as(Admitted, state, after, new, placed, adjustment, updates, released)
    pinned = reasons.pinned(Admitted, after, holder)
    done = Transition(after, (record, *more), reasons=pinned)
    for feature in context.features:
        done = feature.explained(context, pod, placed, new.others, done)
    return done


def _with_hugepages(adjustment: Adjustment, request: Request) -> Adjustment:
    source = request.hugepage_source
    # NRI fails a creation in which two plugins set the same unified key.
    if source is HugepageSource.UNIFIED:
        return adjustment
    is_shown = source is HugepageSource.CONTAINER
    route = HugepageRoute.LIMITS if is_shown else HugepageRoute.UNIFIED
    return replace(adjustment, hugepage_limits=request.hugepage_limits, hugepage_route=route)


def end_container(
    _context: Context, state: EngineState, event: StopContainer | RemoveContainer
) -> Transition:
    """Reserve the memory of a container that ended for the next containers of its pod."""
    holder = state.holder(event.container.container_id)
    if holder is None or holder.ended:
        return Transition(state)
    accounting = mark_reusable(state.accounting, *holder.key)
    next_state = state.with_holder(replace(holder, ended=True), accounting)
    record = records.ended(next_state, holder)
    return Transition(pod_limit.release_oldest_ended(next_state, holder.key[0]), (record,))
