"""Head-room: whether NUMA nodes can still give the memory that is assigned there.

A container that is assigned 40 GiB and has 2 GiB resident may allocate 38 GiB more: its *unfaulted*
bytes. If less is available on its nodes, because the system or pods that are not pinned use them,
the kernel kills a process there while other nodes have free memory. Unfaulted bytes are compared
with the available bytes of the whole group, because a container may use each of its nodes.

Page cache counts as available and not as resident: a container that allocates more gives it back.
Hugepages have pools of their own and do not count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.features.residency.setting import HeadRoomLimit
from nri_numamem.memorymanager import Block
from nri_numamem.numa import MEMORY, NodeSet


@dataclass(frozen=True, slots=True)
class HeadRoom:
    """The amounts of one group of nodes, in bytes."""

    nodes: NodeSet
    total_bytes: int
    unfaulted_bytes: int
    least_available_bytes: int
    """The smaller of what was available before and after the containers were read."""
    most_available_bytes: int
    """The larger of both."""

    @property
    def least_bytes(self) -> int:
        """Return the smallest head-room that the amounts allow; negative if memory is missing."""
        return self.least_available_bytes - self.unfaulted_bytes

    @property
    def most_bytes(self) -> int:
        """Return the largest head-room that the amounts allow."""
        return self.most_available_bytes - self.unfaulted_bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What changed: groups whose alarm is raised or cleared, and the nodes with an alarm."""

    raised: tuple[HeadRoom, ...]
    cleared: tuple[HeadRoom, ...]
    low_nodes: frozenset[int]


def head_rooms(
    state: EngineState,
    resident: Mapping[str, int],
    available: Mapping[int, int],
    available_before: Mapping[int, int] | None = None,
) -> tuple[HeadRoom, ...]:
    """Return the head-room of each group whose available bytes are known.

    `resident` maps container ids to bytes without page cache and hugepages. Running containers that
    it lacks do not count: an alarm must not come from amounts that are unknown.
    """
    before = available if available_before is None else available_before
    unfaulted = unfaulted_bytes(state, resident)
    machine = state.accounting.machine_state
    found: list[HeadRoom] = []
    for nodes in dict.fromkeys(node.cells for node in machine.values()):
        if not all(node in available and node in before for node in nodes):
            continue
        sums = [sum(amounts[node] for node in nodes) for amounts in (before, available)]
        total = sum(machine[node].table(MEMORY).total for node in nodes)
        size = sum(unfaulted[node] for node in nodes)
        found.append(HeadRoom(nodes, total, size, min(sums), max(sums)))
    return tuple(found)


def unfaulted_bytes(state: EngineState, resident: Mapping[str, int]) -> dict[int, int]:
    """Return node -> unfaulted bytes; `resident` as in head_rooms().

    A container on several nodes has its unfaulted bytes there in proportion to its charges. What a
    pod keeps for its next containers is unfaulted.
    """
    machine = state.accounting.machine_state
    sums = dict.fromkeys(machine, 0)
    for holder, block in _memory_blocks(state):
        size = block.size
        if not holder.ended and isinstance(holder.key[1], str):
            known = resident.get(holder.container_id)
            size = 0 if known is None else max(0, size - known)
        for node, share in _shares(block, size):
            if node in sums:
                sums[node] += share
    return sums


def judge(rooms: tuple[HeadRoom, ...], limit: HeadRoomLimit, low_nodes: frozenset[int]) -> Verdict:
    """Return the alarms that are raised or cleared; `low_nodes` are those with an alarm so far.

    An alarm is raised if even the largest head-room is below the limit, and cleared if the smallest
    one is well above it. Nodes that are in no group any more have no alarm.
    """
    raised, cleared = list[HeadRoom](), list[HeadRoom]()
    low: set[int] = set()
    for room in rooms:
        known = low_nodes.intersection(room.nodes)
        if room.most_bytes < limit.warn_below(room.total_bytes):
            low.update(room.nodes)
            if not known:
                raised.append(room)
        elif room.least_bytes >= limit.clear_above(room.total_bytes):
            if known:
                cleared.append(room)
        elif known:
            low.update(room.nodes)
    return Verdict(tuple(raised), tuple(cleared), frozenset(low))


def _memory_blocks(state: EngineState) -> Iterator[tuple[Holder, Block]]:
    for key, holder in state.holders.items():
        for block in state.blocks(key) or ():
            if block.type == MEMORY:
                yield holder, block


def _shares(block: Block, size: int) -> Iterator[tuple[int, int]]:
    """Yield node and bytes: `size` in proportion to the charges, the rest on the first node."""
    charges = block.charges or tuple((node, 0) for node in block.numa_affinity)[:1]
    charged, left = block.charged, size
    for node, part in charges[1:]:
        share = size * part // charged
        left -= share
        yield node, share
    for node, _ in charges[:1]:
        yield node, left
