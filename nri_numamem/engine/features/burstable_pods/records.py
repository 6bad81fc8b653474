"""Records of containers in Burstable pods."""

from nri_numamem.engine.core.events import PINNING, CreateContainer, UpdateContainer
from nri_numamem.engine.core.fields import Fields, container_fields
from nri_numamem.engine.core.plan import Record
from nri_numamem.engine.records.events import EventName
from nri_numamem.memorymanager import Block, nodes_of
from nri_numamem.memorymanager.burstable import BurstableFacts, Evidence
from nri_numamem.numa import NodeSet


def pinned(event: CreateContainer, evidence: Evidence, nodes: str, score: int | None) -> Record:
    """Record a container that is pinned; `score` is its new oom_score_adj, None for no change."""
    fields: Fields = {
        **_fields(event),
        "evidence": evidence.value,
        "nodes": nodes,
        "new_oom_score_adj": score,
    }
    return Record(EventName.BURSTABLE_PINNED, fields)


def not_pinned(
    event: CreateContainer, cause: str, message: str = "", *, is_off: bool = False
) -> Record:
    """Record a container that starts unpinned; `message` shows what each node has free.

    `is_off` if the settings pin no container of a Burstable pod.
    """
    fields: Fields = {**_fields(event), "cause": cause}
    if event.available_memory is not None:
        available = sorted(event.available_memory.items())
        fields["available_bytes"] = {str(node_id): size for node_id, size in available}
    if message:
        fields["message"] = message
    return Record(EventName.BURSTABLE_NOT_PINNED, fields, alternate=is_off)


def unpinned(
    event: UpdateContainer, before: tuple[Block, ...], nodes: NodeSet, cause: str
) -> Record:
    """Record a container that is unpinned because of a resize; `nodes` are its new ones."""
    fields: Fields = {
        **_fields(event),
        "new_memory_limit_bytes": event.memory_limit_bytes,
        "new_reserved_bytes": event.reserved_bytes,
        "released_bytes": {block.type: block.size for block in before},
        "previous_nodes": str(nodes_of(before)),
        "nodes": str(nodes),
        "cause": cause,
    }
    return Record(EventName.BURSTABLE_UNPINNED, fields)


def _fields(event: CreateContainer | UpdateContainer) -> Fields:
    pod, container = event.pod, event.container
    facts = container.burstable or BurstableFacts()
    return {
        **container_fields(pod, container),
        "annotation": pod.annotation(PINNING, container.name),
        "memory_limit_bytes": container.memory_limit_bytes,
        "reserved_bytes": facts.reserved_bytes,
        "oom_score_adj": facts.oom_score_adj,
    }
