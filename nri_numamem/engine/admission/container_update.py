"""The update of a container: a new memory limit, a new CPU request, or both."""

from dataclasses import replace
from functools import partial

from nri_numamem.engine.admission import alignment, pod_level
from nri_numamem.engine.admission import resize_records as resizes
from nri_numamem.engine.admission.placement import resize
from nri_numamem.engine.admission.records import TEXT_LIMIT
from nri_numamem.engine.admission.remedy_inputs import pods_on, trial_context, without_pods
from nri_numamem.engine.core import cpu_requests, reasons
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision, Transition
from nri_numamem.engine.core.events import UpdateContainer
from nri_numamem.engine.core.plan import Plan, Update
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.memorymanager import Block, Explanation, Rejection, Resized
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import MEMORY

_MI = 1 << 20

RESIZE_REJECTED = "ResizeRejected"
"""The reason of a rejected resize; the kubelet has none, because it never resizes such pods."""


def update_container(context: Context, state: EngineState, event: UpdateContainer) -> Decision:
    """Record a new memory limit; the reply updates the nodes, or refuses what fits nowhere.

    With RunUnpinned nothing is refused: the record is a warning, and the assignment is capped to
    what is free, as after a Synchronize. A smaller limit is never refused.
    """
    holder, new = state.holder(event.container.container_id), event.memory_limit_bytes
    before = None if holder is None else state.blocks(holder.key)
    if holder is None or holder.ended or not before or new is None:
        return _without_effect(context, state, event, holder)
    if Block(before[0].numa_affinity, MEMORY, new) in before:
        return _without_effect(context, state, event, holder)
    ready, new = pod_level.make_room(context, state, event.pod, holder, new)
    done = resize(context, ready.accounting, holder.key, new)
    if context.rejects and MEMORY in done.shortfall and new > _memory_of(before):
        facts = resizes.rejection_facts(state, event.pod, holder, new, done)
        find = partial(_remedies, context, state, event, done, _memory_of(before))
        rejection = Rejection(RESIZE_REJECTED, partial(Explanation, facts), find_remedies=find)
        text = rejection.message_within(TEXT_LIMIT)
        record = resizes.rejected(state, event.pod, holder, before, done, rejection.remedies)
        return Decision.computed(Plan(refusal=text), state, record, rejection=rejection)
    next_state = replace(state, accounting=done.state).with_pod(event.pod)
    next_state = pod_level.fill_limit(context, next_state, event.pod)
    next_state = pod_scope.take_from_pool(context, next_state, event.pod)
    next_state = pod_limit.release_excess(next_state, event.pod)
    updates: tuple[Update, ...] = ()
    if done.nodes != before[0].numa_affinity:
        wider = alignment.with_nodes(holder, done.nodes)
        next_state = next_state.with_holder(wider, next_state.accounting)
        updates = (Update(holder.container_id, str(done.nodes)),)
        unconfirmed = next_state.cpusets.unconfirmed | {holder.container_id}
        cpusets = replace(next_state.cpusets, unconfirmed=unconfirmed)
        next_state = next_state.with_cpusets(cpusets)
    next_state = cpu_requests.updated(next_state, event)
    resized = resizes.resized(next_state, event.pod, holder, before, done)
    pinned = reasons.pinned(type(resized), next_state, holder)
    return Decision.computed(Plan(updates=updates), next_state, resized, reasons=pinned)


def _remedies(
    context: Context, state: EngineState, event: UpdateContainer, done: Resized, memory_bytes: int
) -> tuple[Remedy, ...]:
    """Return what admits a refused resize, each tried: room on its nodes, or less memory.

    `memory_bytes` is the memory of the container before it.
    """
    if context.is_trial:
        return ()
    trial, found = trial_context(context), list[Remedy]()
    others = pods_on(state, done.nodes, but=event.pod.uid)
    emptied, _ = without_pods(state, None, others)
    tried = update_container(trial, emptied, event) if others else None
    if tried is not None and tried.rejection is None:
        if tried.plan.updates:  # it then gets more nodes, which these pods keep from it
            found.append(Remedy(Kind.EMPTY_NODES, done.nodes))
        else:
            found.append(Remedy(Kind.MAKE_ROOM, done.nodes, {MEMORY: done.shortfall[MEMORY]}))
    most = (event.memory_limit_bytes or 0) - done.shortfall[MEMORY]
    most -= most % _MI
    smaller = replace(event, memory_limit_bytes=most)
    if most > memory_bytes and update_container(trial, state, smaller).rejection is None:
        found.append(Remedy(Kind.REQUEST_LESS, amounts={MEMORY: most}))
    return tuple(found)


def _without_effect(
    context: Context, state: EngineState, event: UpdateContainer, holder: Holder | None
) -> Decision:
    """Reply with nothing; the record, which only the log level debug shows, is made after it."""

    def transition() -> Transition:
        pod, container = event.pod, event.container
        if holder is None or not state.blocks(holder.key):
            cause = context.unmanaged_reason(pod, container) or "it has no assignment"
        elif holder.ended:
            cause = "it has ended"
        else:
            cause = "its memory limit does not change"
        after = cpu_requests.updated(state, event)
        return Transition(after, (resizes.without_effect(pod, container, cause),))

    return Decision(NO_PLAN, transition)


def _memory_of(blocks: tuple[Block, ...]) -> int:
    return sum(block.size for block in blocks if block.type == MEMORY)
