"""Where the memory of containers is: what a round finds, and alarms for memory on remote nodes.

An alarm is raised if more than a share of a container's memory is on remote nodes in two rounds in
a row, because memory that is being moved is remote for a moment. It is cleared at half the share.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.cpusets.check import nodes_of_container
from nri_numamem.engine.features.residency.head_room import HeadRoom
from nri_numamem.engine.records.containers import PinnedWhileRunning
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages

# Less is noise: the kernel batches its counters, and a program's start touches pages anywhere.
LEAST_REMOTE_BYTES = 16 << 20
_ROUNDS = 2
_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Round:
    """What one round over all containers found."""

    pages: Mapping[str, Pages] = field(default_factory=dict)
    """Container id -> its pages."""
    available: Mapping[int, int] = field(default_factory=dict)
    """NUMA node -> bytes that the kernel has free or can reclaim."""
    unfaulted: Mapping[int, int] = field(default_factory=dict)
    """NUMA node -> bytes that containers may still allocate."""
    head_rooms: tuple[HeadRoom, ...] = ()
    low_nodes: frozenset[int] | None = None
    """NUMA nodes with an alarm; None without the setting."""
    remote: Mapping[str, int] = field(default_factory=dict)
    """Container id -> rounds in a row in which it had too much remote memory."""
    per_container: bool = False

    @property
    def remote_containers(self) -> int:
        """Return the number of containers with an alarm."""
        return sum(rounds >= _ROUNDS for rounds in self.remote.values())


@dataclass(frozen=True, slots=True)
class RemoteVerdict:
    """Containers whose alarm is raised or cleared, and the rounds of all others as in Round."""

    raised: tuple[str, ...]
    cleared: tuple[str, ...]
    rounds: Mapping[str, int]


def judge_remote(
    state: EngineState, pages: Mapping[str, Pages], before: Mapping[str, int], percent: int
) -> RemoteVerdict:
    """Return the alarms; `before` has the rounds so far.

    Containers without `cpuset.mems` have a record of their own. One that ended is forgotten.
    """
    unpinned = state.cpusets.unpinned | state.cpusets.repairs.keys()
    raised, cleared = list[str](), list[str]()
    rounds: dict[str, int] = {}
    for container_id, found in pages.items():
        nodes = nodes_of_container(state, container_id)
        if not nodes or container_id in unpinned:
            continue
        known = before.get(container_id, 0)
        is_raised = known >= _ROUNDS
        if _is_remote(found, nodes, percent / 2 if is_raised else percent):
            rounds[container_id] = min(known + 1, _ROUNDS)
            if known + 1 == _ROUNDS:
                raised.append(container_id)
        elif is_raised:
            cleared.append(container_id)
    return RemoteVerdict(tuple(raised), tuple(cleared), rounds)


def _is_remote(pages: Pages, nodes: NodeSet, percent: float) -> bool:
    remote, own = sum(pages.remote(nodes).values()), sum(pages.own.values())
    return remote >= LEAST_REMOTE_BYTES and remote * _PERCENT > own * percent


def likely_causes(
    state: EngineState, container_id: str, pages: Pages, mems: NodeSet | None, *, is_v1: bool
) -> Iterator[str]:
    """Yield why a container may have remote memory; `mems` is the `cpuset.mems` of its cgroup."""
    nodes = nodes_of_container(state, container_id)
    if mems is not None and mems != nodes:
        yield f"its cpuset.mems is {mems}" if mems else "its cpuset.mems is unset"
    if is_v1:
        yield "cgroup v1 moves no pages unless cpuset.memory_migrate is 1"
    reason = state.reasons.pinned.get(container_id)
    if reason is not None and reason.event == PinnedWhileRunning.event:
        yield "it was pinned while it ran"
    if container_id in state.cpusets.with_devices:
        yield "a device may have pinned pages, which never move"
    if any(size and node not in nodes for node, size in pages.shared.items()):
        yield "files of tmpfs that no process maps do not move"
    yield "pages that the kernel has pinned do not move, nor do pages for which there was no room"
