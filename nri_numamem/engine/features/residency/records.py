"""Records of where the memory of containers is, and of head-room."""

from collections.abc import Iterable

from nri_numamem.engine.core.fields import Fields
from nri_numamem.engine.core.plan import Record
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.cpusets.records import holder_fields, page_fields
from nri_numamem.engine.features.residency.head_room import HeadRoom
from nri_numamem.engine.features.residency.setting import HeadRoomLimit
from nri_numamem.engine.records.events import EventName
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages


def remote_memory_found(
    state: EngineState, holder: Holder, nodes: NodeSet, pages: Pages, causes: Iterable[str]
) -> Record:
    """Record that much of a container's memory is on remote nodes."""
    fields = {**_memory(state, holder, nodes, pages), "cause": "; ".join(causes)}
    return Record(EventName.REMOTE_MEMORY_FOUND, fields)


def remote_memory_cleared(
    state: EngineState, holder: Holder, nodes: NodeSet, pages: Pages
) -> Record:
    """Record that not much of it is remote any more."""
    return Record(EventName.REMOTE_MEMORY_CLEARED, _memory(state, holder, nodes, pages))


def head_room(event: EventName, room: HeadRoom, limit: HeadRoomLimit) -> Record:
    """Record that an alarm is raised (`HEAD_ROOM_LOW`) or cleared.

    The amounts are those that decided: the larger of what was available for a raised alarm.
    """
    is_low = event is EventName.HEAD_ROOM_LOW
    available = room.most_available_bytes if is_low else room.least_available_bytes
    return Record(
        event,
        {
            "nodes": str(room.nodes),
            "available_bytes": available,
            "unfaulted_bytes": room.unfaulted_bytes,
            "head_room_bytes": available - room.unfaulted_bytes,
            "limit_bytes": limit.warn_below(room.total_bytes),
        },
    )


def _memory(state: EngineState, holder: Holder, nodes: NodeSet, pages: Pages) -> Fields:
    return {
        **holder_fields(state, holder),
        "nodes": str(nodes),
        **page_fields(nodes, pages),
    }
