"""Whether a container's cgroup has the nodes of the accounting, and what follows if not.

An update can miss the cgroup of a container that starts at the same time: the runtime stores it,
but makes the cgroup from the older specification. Something else can write `cpuset.mems` as well.
Three states of a cgroup differ: there is none, its `cpuset.mems` is unset, and it is set.

- Unset: the container gets memory from any node. The nodes are sent again, which is a *repair*.
- Set to other nodes: if an update was not confirmed by the cgroup yet, it is repaired once.
  Otherwise something else set the nodes on purpose, so the accounting adopts them.

The write moves the container's memory, and the runtime holds its lock for all pods meanwhile. So
there is no repair where much memory, hugepages or devices are involved; such a container is
recorded as unpinned. A reply contains one repair at most. ``pending`` sends repairs.
"""

from collections.abc import Iterable
from enum import Enum, auto

from nri_numamem.engine.core.events import CgroupUse
from nri_numamem.memorymanager import Block
from nri_numamem.numa import MEMORY, NodeSet

# Moving memory takes some 0.5 s per GiB; runtimes disconnect plugins after 2 s.
MOVED_BYTES_LIMIT = 256 << 20


class Verdict(Enum):
    """What follows from the `cpuset.mems` of a container's cgroup."""

    IN_PLACE = auto()
    REPAIR = auto()
    """The nodes are to be sent again."""
    UNPINNED = auto()
    """It is unset, and an obstacle forbids a repair."""
    CONFLICT = auto()
    """Something else set it."""


def judge(
    nodes: NodeSet, mems: NodeSet, use: CgroupUse | None, *, is_unconfirmed: bool, obstacle: str
) -> Verdict:
    """Return what follows if a container that should have `nodes` has `mems`, empty if unset.

    Where the parents' nodes are the container's own, an unset value has the same effect.
    """
    if mems == nodes or (not mems and use is not None and use.effective_mems == nodes):
        return Verdict.IN_PLACE
    if not mems:
        return Verdict.UNPINNED if obstacle else Verdict.REPAIR
    return Verdict.REPAIR if is_unconfirmed and not obstacle else Verdict.CONFLICT


def repair_obstacle(
    nodes: NodeSet, use: CgroupUse | None, blocks: Iterable[Block], *, has_devices: bool
) -> str:
    """Return why the nodes of a running container must not be written, or ""."""
    if has_devices:
        return "the container has devices"
    if any(block.type != MEMORY and block.size for block in blocks):
        return "the container has hugepages"
    if use is None or use.memory_bytes is None:
        return "its use of memory is unknown"
    if use.has_hugepages:
        return "the container uses hugepages"
    moved = sum(size for node, size in use.memory_bytes.items() if node not in nodes)
    if moved > MOVED_BYTES_LIMIT:
        return f"{moved} bytes of memory would move"
    return ""
