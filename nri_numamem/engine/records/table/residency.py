"""Events of the memory of containers, and of the memory that is left on NUMA nodes."""

from nri_numamem.engine.records.events import EventName, EventType, Level
from nri_numamem.engine.records.table.common import CONTAINER, NODES, PAGES

_MEMORY = {**CONTAINER, **NODES, **PAGES}
_HEAD_ROOM = {
    **NODES,
    "available_bytes": "bytes that the kernel has free or can reclaim there",
    "unfaulted_bytes": "bytes that the containers there may still allocate",
    "head_room_bytes": "the difference; negative if memory is missing",
    "limit_bytes": "the setting residency.headRoom, in bytes",
}

CONTAINER_EVENTS = {
    EventName.REMOTE_MEMORY_FOUND: EventType(
        "Much of a container's memory is on NUMA nodes other than its own "
        "(residency.remotePercent).",
        level=Level.WARNING,
        remedy="see `cause`; restart the container, or move the pages with migratepages(8)",
        fields={**_MEMORY, "cause": "likely causes"},
    ),
    EventName.REMOTE_MEMORY_CLEARED: EventType(
        "Not much of a container's memory is on other NUMA nodes any more.", fields=_MEMORY
    ),
}

EVENTS = {
    **CONTAINER_EVENTS,
    EventName.HEAD_ROOM_LOW: EventType(
        "Containers may still allocate more on their NUMA nodes than the kernel has available "
        "there, less the margin residency.headRoom: an OOM kill can follow while other nodes have "
        "free memory.",
        level=Level.WARNING,
        remedy="find what else uses the nodes (nri-numamem status --pages); reserve more with "
        "reservedMemory, or limit pods that are not managed",
        fields=_HEAD_ROOM,
    ),
    EventName.HEAD_ROOM_RESTORED: EventType(
        "NUMA nodes have enough available memory again for what their containers may allocate.",
        fields=_HEAD_ROOM,
    ),
}
