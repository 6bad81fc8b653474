"""The update of a container: a new memory limit, a new CPU request, or both."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from nri_numamem.engine.admission import alignment, pod_level
from nri_numamem.engine.admission.placement import resize
from nri_numamem.engine.admission.records import TEXT_LIMIT
from nri_numamem.engine.admission.remedy_inputs import pods_on, trial_context, without_pods
from nri_numamem.engine.core import allowed_nodes, cpu_requests, reasons
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision, Transition
from nri_numamem.engine.core.events import PodSandbox, UpdateContainer
from nri_numamem.engine.core.fields import (
    PREFIX,
    container_names,
    free_bytes,
    holder_names,
    pod_name,
    remedy_shown,
)
from nri_numamem.engine.core.plan import Plan, Update
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.core.text import cut_name
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.engine.records.common import AdjustmentShown, Candidate
from nri_numamem.engine.records.running import Resized, ResizeRejected, UpdateWithoutEffect
from nri_numamem.memorymanager import Block, Explanation, Rejection
from nri_numamem.memorymanager import Resized as Done
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.memorymanager.node_reasons import Reason, Rule, reason_for
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import MEMORY, NodeSet, humanize_bytes

_MI = 1 << 20

# Of a text of at most 900 characters; names have 63 to 253.
_FREE_CHARACTERS = 240

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
    masked = MaskedState(state.accounting)
    masked = allowed_nodes.mask_set_aside(context, state, event.pod, masked, is_resize=True)
    masked = allowed_nodes.mask_others(context, event.pod, masked)
    is_masked = masked.hidden or masked.earmarks
    seen = state.with_accounting(masked.state) if is_masked else state
    ready, new = pod_level.make_room(context, seen, event.pod, holder, new)
    done = resize(context, ready.accounting, holder.key, new)
    done = replace(done, state=masked.unmask(done.state)) if is_masked else done
    if context.rejects and MEMORY in done.shortfall and new > _memory_of(before):
        facts = _rejection_facts(state, event.pod, holder, new, done)
        find = partial(_remedies, context, state, event, done, _memory_of(before))
        rejection = Rejection(RESIZE_REJECTED, partial(Explanation, facts), find_remedies=find)
        rejection = allowed_nodes.with_cause(context, event.pod, rejection, masked, (MEMORY,))
        rejection = allowed_nodes.with_set_aside(
            context, state, event.pod, rejection, is_resize=True
        )
        text = rejection.message_within(TEXT_LIMIT)
        record = _rejected(state, holder, before, done, rejection.remedies)
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
    resized = _resized(next_state, holder, before, done)
    pinned = reasons.pinned(type(resized), next_state, holder)
    return Decision.computed(Plan(updates=updates), next_state, resized, reasons=pinned)


def _remedies(
    context: Context, state: EngineState, event: UpdateContainer, done: Done, memory_bytes: int
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
        record = UpdateWithoutEffect(names=container_names(pod, container), cause=cause)
        return Transition(after, (record,))

    return Decision(NO_PLAN, transition)


def _memory_of(blocks: tuple[Block, ...]) -> int:
    return sum(block.size for block in blocks if block.type == MEMORY)


def _resized(state: EngineState, holder: Holder, before: tuple[Block, ...], done: Done) -> Resized:
    """Record a changed memory limit; `state` is the state with the new limit."""
    nodes_before = before[0].numa_affinity
    candidates = [_candidate(done.nodes, reason_for(Rule.CHOSEN))]
    adjustment = None
    if done.nodes != nodes_before:
        candidates.insert(0, _candidate(nodes_before, reason_for(Rule.NOT_ENOUGH_FREE)))
        adjustment = AdjustmentShown(cpuset_mems=done.nodes)
    return Resized(
        names=holder_names(state, holder),
        previous_memory_bytes=_memory_of(before),
        request_bytes={block.type: block.size for block in state.blocks(holder.key) or ()},
        previous_nodes=nodes_before,
        candidates=(*candidates,),
        nodes=done.nodes,
        adjustment=adjustment,
        shortfall_bytes=done.shortfall,
        free_bytes=free_bytes(state.accounting, (MEMORY,), nodes_before | done.nodes),
        alternate=bool(done.shortfall),
    )


def _rejected(
    state: EngineState,
    holder: Holder,
    before: tuple[Block, ...],
    done: Done,
    remedies: Sequence[Remedy],
) -> ResizeRejected:
    """Record a resize that is refused; `done` is what it would have resulted in."""
    nodes_before = before[0].numa_affinity
    short = humanize_bytes(done.shortfall[MEMORY], round_up=True)
    reason = Reason(Rule.NOT_ENOUGH_FREE, f"{short} short")
    sets = dict.fromkeys((nodes_before, done.nodes))
    return ResizeRejected(
        names=holder_names(state, holder),
        previous_memory_bytes=_memory_of(before),
        request_bytes={block.type: block.size for block in done.state.blocks(*holder.key) or ()},
        candidates=tuple(_candidate(nodes, reason) for nodes in sets),
        nodes=nodes_before,
        shortfall_bytes=done.shortfall,
        free_bytes=free_bytes(state.accounting, (MEMORY,), nodes_before | done.nodes),
        remedies=tuple(remedy_shown(each) for each in remedies),
    )


def _candidate(nodes: NodeSet, reason: Reason) -> Candidate:
    return Candidate(nodes=nodes, rule=reason.rule.value, reason=reason.text)


def _rejection_facts(
    state: EngineState, pod: PodSandbox, holder: Holder, new_bytes: int, done: Done
) -> str:
    """Return the text of the reply, without remedies."""
    short = humanize_bytes(done.shortfall[MEMORY], round_up=True)
    name, size = cut_name(holder.container_name), humanize_bytes(new_bytes, round_up=True)
    return (
        f"{PREFIX}container {name} of pod {pod_name(pod)} cannot be resized to memory {size}: "
        f"{short} too much for {format_nodes(done.nodes)} ({_free(state, done.nodes)}), and no "
        "larger set of nodes may be used"
    )


def _free(state: EngineState, nodes: NodeSet) -> str:
    """Return the free memory of each node, or if that is too long, the most of one."""
    free = {
        node_id: node.table(MEMORY).free
        for node_id, node in state.accounting.machine_state.items()
        if node_id in nodes
    }
    each = "; ".join(f"NUMA node {n} has {humanize_bytes(size)} free" for n, size in free.items())
    if len(each) <= _FREE_CHARACTERS:
        return each
    return f"at most {humanize_bytes(max(free.values()))} free on one node"
