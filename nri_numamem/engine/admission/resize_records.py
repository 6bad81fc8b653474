"""Records of changed memory limits of running containers, and the text of a rejection.

A rejection makes only the resize fail: the container runs on as before. The kubelet shows the text
in the pod's condition, and retries.
"""

from collections.abc import Sequence

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import (
    PREFIX,
    Fields,
    adjustment_value,
    container_fields,
    free_bytes,
    pod_fields,
    pod_name,
    remedy_value,
)
from nri_numamem.engine.core.plan import Adjustment, Record, RecordValue
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.core.text import cut_name
from nri_numamem.engine.records.events import EventName
from nri_numamem.memorymanager import Block, Resized
from nri_numamem.memorymanager.node_reasons import Reason, Rule, reason_for
from nri_numamem.memorymanager.remedy import Remedy
from nri_numamem.numa import MEMORY, NodeSet, humanize_bytes

# Of a text of at most 900 characters; names have 63 to 253.
_FREE_CHARACTERS = 240


def resized(
    state: EngineState,
    pod: PodSandbox,
    holder: Holder,
    before: tuple[Block, ...],
    done: Resized,
) -> Record:
    """Record a changed memory limit; `state` is the state with the new limit."""
    nodes_before = before[0].numa_affinity
    candidates: list[RecordValue] = []
    if done.nodes != nodes_before:
        candidates.append(_candidate(nodes_before, reason_for(Rule.NOT_ENOUGH_FREE)))
    candidates.append(_candidate(done.nodes, reason_for(Rule.CHOSEN)))
    fields: Fields = {
        **_who(pod, holder, before),
        "request_bytes": {block.type: block.size for block in state.blocks(holder.key) or ()},
        "previous_nodes": str(nodes_before),
        "candidates": candidates,
        "nodes": str(done.nodes),
        "free_bytes": free_bytes(state, (MEMORY,), nodes_before | done.nodes),
    }
    if done.nodes != nodes_before:
        fields["adjustment"] = adjustment_value(Adjustment(str(done.nodes)))
    if done.shortfall:
        fields["shortfall_bytes"] = dict(done.shortfall)
    return Record(EventName.RESIZED, fields, alternate=bool(done.shortfall))


def without_effect(pod: PodSandbox, container: Container, cause: str) -> Record:
    """Record an update that concerns neither the nodes nor the assignment of its container."""
    fields: Fields = {**container_fields(pod, container), "cause": cause}
    return Record(EventName.UPDATE_WITHOUT_EFFECT, fields)


def rejected(
    state: EngineState,
    pod: PodSandbox,
    holder: Holder,
    before: tuple[Block, ...],
    done: Resized,
    remedies: Sequence[Remedy],
) -> Record:
    """Record a resize that is refused; `done` is what it would have resulted in."""
    sets = dict.fromkeys((before[0].numa_affinity, done.nodes))
    short = humanize_bytes(done.shortfall[MEMORY], round_up=True)
    reason = Reason(Rule.NOT_ENOUGH_FREE, f"{short} short")
    candidates: list[RecordValue] = [_candidate(nodes, reason) for nodes in sets]
    fields: Fields = {
        **_who(pod, holder, before),
        "request_bytes": {block.type: block.size for block in done.state.blocks(*holder.key) or ()},
        "nodes": str(before[0].numa_affinity),
        "candidates": candidates,
        "shortfall_bytes": dict(done.shortfall),
        "remedies": [remedy_value(each) for each in remedies],
        "free_bytes": free_bytes(state, (MEMORY,), before[0].numa_affinity | done.nodes),
    }
    return Record(EventName.RESIZE_REJECTED, fields)


def _candidate(nodes: NodeSet, reason: Reason) -> RecordValue:
    return {"nodes": str(nodes), "rule": reason.rule.value, "reason": reason.text}


def rejection_facts(
    state: EngineState, pod: PodSandbox, holder: Holder, new_bytes: int, done: Resized
) -> str:
    """Return the text of the reply, without remedies."""
    short = humanize_bytes(done.shortfall[MEMORY], round_up=True)
    name, size = cut_name(holder.key[1]), humanize_bytes(new_bytes, round_up=True)
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


def _who(pod: PodSandbox, holder: Holder, before: tuple[Block, ...]) -> Fields:
    return {
        **pod_fields(pod),
        "container": holder.key[1],
        "container_id": holder.container_id,
        "previous_memory_bytes": {block.type: block.size for block in before}.get(MEMORY),
    }
