"""Events of pods."""

from nri_numamem.engine.records.events import EventName, EventType, Level
from nri_numamem.engine.records.table.common import (
    CANDIDATES,
    ERROR,
    FREE,
    HINTS,
    MERGED_HINT,
    NODES,
    POD,
    REPEATED,
    REQUEST,
    SHORTFALL,
    USED_OUTSIDE,
)
from nri_numamem.engine.records.table.strategies import STRATEGY

EVENTS = {
    EventName.POD_ADMITTED: EventType(
        "A pod gets NUMA nodes as a whole (topologyManagerScope: pod).",
        fields={
            **POD,
            **REQUEST,
            **HINTS,
            **CANDIDATES,
            **FREE,
            **MERGED_HINT,
            **NODES,
            **STRATEGY,
        },
    ),
    EventName.POD_ADOPTED: EventType(
        "A pod keeps its NUMA nodes, which cannot hold all of its request.",
        level=Level.WARNING,
        remedy="move pods away from these NUMA nodes",
        fields={**POD, **REQUEST, **NODES, **FREE, **SHORTFALL},
    ),
    EventName.POD_REJECTED: EventType(
        "No NUMA nodes can hold the request of a pod; the creation of its containers is refused.",
        level=Level.WARNING,
        remedy="free memory on the NUMA nodes, or lower the request",
        fields={
            **POD,
            **REQUEST,
            **HINTS,
            **CANDIDATES,
            **FREE,
            **USED_OUTSIDE,
            "policy": "Topology Manager policy",
            "reason": "the kubelet's reason: TopologyAffinityError or UnexpectedAdmissionError",
            "message": "why each NUMA node was passed over",
            **REPEATED,
        },
    ),
    EventName.POD_RELEASED: EventType(
        "A pod ended; the memory of its containers is free again.",
        fields={
            **POD,
            "containers": "names of its containers, at most 50",
            "container_count": "the number of its containers, if there are more",
            **FREE,
            "detected_by": "how its end was noticed, if not by the runtime's report",
        },
    ),
    EventName.POD_CGROUP_UNREADABLE: EventType(
        "A pod's cgroup cannot be read; its hugepage limits are unknown.",
        level=Level.WARNING,
        remedy="check the permissions of the plugin on the cgroup filesystem",
        fields=ERROR,
    ),
}
