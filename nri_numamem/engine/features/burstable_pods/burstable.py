"""Containers of Burstable pods that are pinned, because their memory request is their limit.

They are placed and charged like those of Guaranteed pods. But pinning is optional for them, so they
are not refused: a container that fits nowhere starts unpinned, and one whose request differs from
its limit after a resize is unpinned. A container that runs unpinned stays so: pinning it would move
memory, and only a creation shows how much memory the nodes could provide.

The sum of a Burstable pod is unknown, so each container is placed by itself, in pod scope too.
``memorymanager.burstable`` has the rules of evidence.
"""

from dataclasses import replace

from nri_numamem.engine.core.annotations import PINNING
from nri_numamem.engine.core.context import Context, is_burstable, qos_of_cgroup_parent
from nri_numamem.engine.core.decision import NO_PLAN, Decision, Transition
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    Event,
    PodSandbox,
    UpdateContainer,
)
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.plan import Plan, Update
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.features.burstable_pods import records
from nri_numamem.memorymanager import QosClass, nodes_of, remove_container
from nri_numamem.memorymanager.burstable import (
    BurstableFacts,
    Evidence,
    find_evidence,
    oom_score_adj_of,
)
from nri_numamem.memorymanager.candidates import crosses_groups, free_bytes
from nri_numamem.numa import MEMORY, NodeSet


class BurstableContainers(Feature):
    """Containers of Burstable pods are pinned (`burstablePods`)."""

    qos_classes = frozenset({QosClass.BURSTABLE})

    def is_on(self, context: Context) -> bool:
        """Return whether any Burstable container may be pinned."""
        return context.policy.burstable_pods.is_active

    def unmanaged_reason(
        self, context: Context, pod: PodSandbox, container: Container | None
    ) -> str | None:
        """Return why a container is not managed; "" for its pod as a whole, None if it is."""
        found = _evidence(context, pod, container)
        return None if isinstance(found, Evidence) else found

    def complete(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        """Return the decision on a container, if its pod is Burstable without a refusal."""
        if isinstance(event, CreateContainer):
            return _create(context, state, event, decision)
        if isinstance(event, UpdateContainer) and is_burstable(event.pod.cgroup_parent):
            return _update(context, state, event, decision)
        return decision

    def keeps_nodes(
        self,
        context: Context,
        old: EngineState,
        pod: PodSandbox,
        container: Container,
        nodes: NodeSet,
    ) -> bool:
        """Return whether a running container, which has these nodes, is recorded.

        Memory that is pinned must be charged, whatever the evidence shows now: the setting may have
        changed, and `oom_score_adj` does not change in a resize. All nodes are those of a container
        that was unpinned, unless it had them before. Nodes for unpinned containers may be those of
        an unpinned one too, so the evidence decides unless it was known, if they have room.
        """
        is_possible = context.is_static and nodes and container.memory_limit_bytes
        if not is_possible or not is_burstable(pod.cgroup_parent):
            return False
        holder = old.holder(container.container_id)
        is_known = holder is not None and not holder.ended
        if holder is not None and is_known and nodes == nodes_of(old.blocks(holder.key) or ()):
            return True
        is_allowed = context.policy.burstable_pods.allows(pod.namespace)
        if not (is_known or is_allowed) or nodes == context.memory_nodes:
            return False
        may_be_confined = nodes == context.unpinned_nodes(pod)
        if may_be_confined and not is_known and not _has_room(context, old, pod, container, nodes):
            return False
        if may_be_confined or (context.limits_nodes and not is_known):
            return isinstance(_evidence(context, pod, container), Evidence)
        return True


def _evidence(context: Context, pod: PodSandbox, container: Container | None) -> Evidence | str:
    """Return what shows that a container of a Burstable pod requests its limit, or why not.

    "" stands for a pod as a whole, and for all containers while burstablePods is off.
    """
    facts = None if container is None else container.burstable
    if container is None or facts is None or not context.policy.burstable_pods.is_active:
        return ""
    return find_evidence(
        context.policy.burstable_pods,
        pod.namespace,
        pod.annotation(PINNING, container.name),
        container.memory_limit_bytes,
        facts,
        context.capacity_bytes,
    )


def _has_room(
    context: Context, old: EngineState, pod: PodSandbox, container: Container, nodes: NodeSet
) -> bool:
    """Return whether a container that is not in the accounting may have been pinned on nodes."""
    allowed = context.allowed_nodes(pod)
    is_allowed = allowed is None or nodes.issubset(allowed.nodes)
    if not is_allowed or crosses_groups(old.accounting, nodes):
        return False
    return (container.memory_limit_bytes or 0) <= free_bytes(old.accounting, nodes, MEMORY)


def _create(
    context: Context, state: EngineState, event: CreateContainer, decision: Decision
) -> Decision:
    """Return the decision without a refusal; an annotation that does not pin is recorded."""
    pod, container = event.pod, event.container
    if qos_of_cgroup_parent(pod.cgroup_parent) is QosClass.GUARANTEED:
        return decision
    rejection, adjustment = decision.rejection, decision.plan.adjustment
    if rejection is not None:
        record = records.not_pinned(event, "no NUMA nodes can hold it", rejection.message)
        return Decision(NO_PLAN, lambda: Transition(state.with_pod(pod), (record,)), rejection)
    settings, facts = context.policy.burstable_pods, container.burstable or BurstableFacts()
    evidence = _evidence(context, pod, container)
    if adjustment is not None and isinstance(evidence, Evidence):
        score = oom_score_adj_of(settings, facts) if event.sets_oom_score_adj else None
        plan = replace(decision.plan, adjustment=replace(adjustment, oom_score_adj=score))
        nodes = NodeSet.parse(adjustment.cpuset_mems)
        pinned = records.pinned(event, evidence, nodes, score)
        return replace(decision, plan=plan).with_records(pinned)
    cause = context.unmanaged_reason(pod, container)
    if cause is None or not pod.annotation(PINNING, container.name):
        return decision
    if context.is_static and not settings.is_active:
        cause += ", and burstablePods.evidence is empty"
    return decision.with_records(records.not_pinned(event, cause, is_off=not settings.is_active))


def _update(
    context: Context, state: EngineState, event: UpdateContainer, decision: Decision
) -> Decision:
    """Return the decision on a resize; a container that no longer requests its limit is unpinned.

    So is one whose resize is refused.
    """
    holder = state.holder(event.container.container_id)
    blocks = None if holder is None else state.blocks(holder.key)
    if holder is None or holder.ended or not blocks or not _is_changed(event):
        return decision
    cause = _obstacle(context, event)
    if not cause and decision.plan.refusal is None:
        return decision
    return _unpin(context, state, event, holder, cause or "its new memory limit fits nowhere")


def _is_changed(event: UpdateContainer) -> bool:
    """Return whether an update changes the memory limit or the reservation."""
    container, new = event.container, event.memory_limit_bytes
    reserved = None if container.burstable is None else container.burstable.reserved_bytes
    return new not in (None, container.memory_limit_bytes) or event.reserved_bytes not in (
        None,
        reserved,
    )


def _obstacle(context: Context, event: UpdateContainer) -> str:
    """Return why the container does not request its limit after an update; "" if it does.

    A reservation that the update does not show is the old one. The kubelet keeps `oom_score_adj`
    in a resize, so it says nothing about the new limit.
    """
    container = event.container
    facts = container.burstable or BurstableFacts()
    new = event.reserved_bytes or facts.reserved_bytes
    found = find_evidence(
        context.policy.burstable_pods,
        event.pod.namespace,
        event.pod.annotation(PINNING, container.name),
        event.memory_limit_bytes or container.memory_limit_bytes,
        replace(facts, reserved_bytes=new, oom_score_adj=None),
        context.capacity_bytes,
    )
    return "" if isinstance(found, Evidence) else found


def _unpin(
    context: Context, state: EngineState, event: UpdateContainer, holder: Holder, cause: str
) -> Decision:
    """Release the assignment, and let the container use all nodes, which moves no memory."""
    nodes = context.unpinned_nodes(event.pod)
    next_state = state.without_holder(holder, remove_container(state.accounting, *holder.key))
    update = Update(holder.container_id, str(nodes))
    record = records.unpinned(event, state.blocks(holder.key) or (), nodes, cause)
    return Decision.computed(Plan(updates=(update,)), next_state, record)


FEATURE = BurstableContainers()
