"""Events of containers in Burstable pods."""

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level
from nri_numamem.engine.records.table.common import CAUSE, CONTAINER, NODES, WARNED_BEFORE

_FACTS = {
    **CONTAINER,
    "annotation": "the pod's annotation `memory.numamem.io` for the container; empty without one",
    "memory_limit_bytes": "memory limit of the container before the request; null if it has none",
    "reserved_bytes": "its `memory.low` or `memory.min`; null if the runtime shows neither",
    "oom_score_adj": "its `oom_score_adj`; null if unknown",
}

EVENTS = {
    EventName.BURSTABLE_PINNED: EventType(
        "A container of a Burstable pod is created and pinned, because its memory request is its "
        "limit; the record `admitted` shows the decision.",
        fields={
            **_FACTS,
            "evidence": "what shows the request: `memory-reservation`, `annotation` or `limits`",
            **NODES,
            "new_oom_score_adj": "the `oom_score_adj` that the plugin sets; null for no change",
        },
    ),
    EventName.BURSTABLE_NOT_PINNED: EventType(
        "A container of a Burstable pod starts unpinned, although it has the annotation or its "
        "memory request is its limit.",
        level=Level.WARNING,
        alternate=AlternateLevel(
            Level.DEBUG, f"burstablePods is off, or {WARNED_BEFORE} and room is not the cause"
        ),
        remedy="see `cause`, and docs/burstable-pods.md",
        fields={
            **_FACTS,
            **CAUSE,
            "available_bytes": "bytes by NUMA node that are free or reclaimable; only with "
            "burstablePods.requireFreeMemory",
            "message": "what each NUMA node has free",
        },
    ),
    EventName.BURSTABLE_UNPINNED: EventType(
        "A container of a Burstable pod is unpinned by a resize. Its memory stays where it is, and "
        "new memory may come from all NUMA nodes.",
        level=Level.WARNING,
        remedy="see `cause`; the container is pinned again when it is created again",
        fields={
            **_FACTS,
            "new_memory_limit_bytes": "the new memory limit; null if it does not change",
            "new_reserved_bytes": "the new `memory.low` or `memory.min`; null if not shown",
            "released_bytes": "bytes by resource that are no longer assigned",
            "previous_nodes": "NUMA nodes before the resize",
            **NODES,
            **CAUSE,
        },
    ),
}
