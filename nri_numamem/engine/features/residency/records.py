"""Records of where the memory of containers is, and of head-room."""

from dataclasses import dataclass
from typing import Annotated

from nri_numamem.engine.features.residency.head_room import HeadRoom
from nri_numamem.engine.features.residency.setting import HeadRoomLimit
from nri_numamem.engine.records.common import ContainerNames, Nodes, PagesShown
from nri_numamem.engine.records.record import Flat, Level, Record, event


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomShown(Flat):
    """The amounts that raise or clear an alarm."""

    nodes: Nodes
    available_bytes: Annotated[int, "bytes that the kernel has free or can reclaim there"]
    unfaulted_bytes: Annotated[int, "bytes that the containers there may still allocate"]
    head_room_bytes: Annotated[int, "the difference; negative if memory is missing"]
    limit_bytes: Annotated[int, "the setting residency.headRoom, in bytes"]


@event(
    "remote_memory_found",
    Level.WARNING,
    remedy="see `cause`; restart the container, or move the pages with migratepages(8)",
    kept=True,
)
class RemoteMemoryFound(Record):
    """Much of a container's memory is on NUMA nodes other than its own
    (residency.remotePercent).
    """

    names: ContainerNames
    nodes: Nodes
    pages: PagesShown
    cause: Annotated[str, "likely causes"]


@event("remote_memory_cleared", kept=True)
class RemoteMemoryCleared(Record):
    """Not much of a container's memory is on other NUMA nodes any more."""

    names: ContainerNames
    nodes: Nodes
    pages: PagesShown


@event(
    "head_room_low",
    Level.WARNING,
    remedy="find what else uses the nodes (nri-numamem status --pages); reserve more with "
    "reservedMemory, or limit pods that are not managed",
)
class HeadRoomLow(Record):
    """Containers may still allocate more on their NUMA nodes than the kernel has available
    there, less the margin residency.headRoom: an OOM kill can follow while other nodes have
    free memory.
    """

    room: RoomShown


@event("head_room_restored")
class HeadRoomRestored(Record):
    """NUMA nodes have enough available memory again for what their containers may allocate."""

    room: RoomShown


def head_room(
    room: HeadRoom, limit: HeadRoomLimit, *, is_low: bool
) -> HeadRoomLow | HeadRoomRestored:
    """Record that an alarm is raised or cleared.

    The amounts are those that decided: the larger of what was available for a raised alarm.
    """
    available = room.most_available_bytes if is_low else room.least_available_bytes
    shown = RoomShown(
        nodes=room.nodes,
        available_bytes=available,
        unfaulted_bytes=room.unfaulted_bytes,
        head_room_bytes=available - room.unfaulted_bytes,
        limit_bytes=limit.warn_below(room.total_bytes),
    )
    return HeadRoomLow(room=shown) if is_low else HeadRoomRestored(room=shown)
