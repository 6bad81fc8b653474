"""The nodes of a running container in a Synchronize, from three sources that can differ.

The sources are the runtime's list, the container's cgroup, and the accounting before. containerd
stores an update before it writes the cgroup, and can miss the cgroup while the container starts.
CRI-O never stores an update, so after its restart only the cgroup has it.

Where the nodes are in the cgroup, an update brings them only into the runtime's store, and moves no
memory. ``verdict`` describes repairs, conflicts, and containers that stay unpinned.
"""

from dataclasses import dataclass
from enum import Enum, auto

from nri_numamem.engine.core.events import Container
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.cpusets.verdict import Verdict, judge, repair_obstacle
from nri_numamem.numa import NodeSet


class Action(Enum):
    """What a Synchronize does about a container's `cpuset.mems`."""

    NONE = auto()
    STORE = auto()
    """Send the nodes, which the cgroup has, for the runtime's store."""
    REPAIR = auto()
    """Send the nodes, which the cgroup does not have."""
    SHOW_UNPINNED = auto()
    """Send nothing, because the write would move too much."""
    SHOW_CONFLICT = auto()
    """Send nothing, because something else set the nodes."""


@dataclass(frozen=True, slots=True)
class ReportedNodes:
    """The nodes of a container, empty if it has none."""

    nodes: NodeSet
    action: Action = Action.NONE
    cause: str = ""
    """Why the action is taken."""
    previous: NodeSet | None = None
    """In a conflict, the nodes that the container had."""


def reported_nodes(
    old: EngineState, container: Container, listed: ReportedNodes, *, keeps_updates: bool
) -> ReportedNodes:
    """Return the nodes of a container; `old` is the state before the Synchronize.

    `listed` are the nodes in the runtime's list: the result for a container whose cgroup does not
    show other nodes.
    """
    in_cgroup, in_runtime = container.cgroup_mems, listed.nodes
    if in_cgroup is None or in_cgroup == in_runtime:
        return listed
    if not in_runtime:
        return ReportedNodes(in_cgroup, Action.STORE, "the runtime does not have them")
    holder = old.holder(container.container_id)
    blocks = (old.blocks(holder.key) if holder is not None else None) or ()
    assigned = blocks[0].numa_affinity if blocks else None
    if in_cgroup and assigned == in_cgroup:
        cause = "they were given to the container before"
        return ReportedNodes(in_cgroup, Action.STORE, cause)
    if in_cgroup and assigned != in_runtime and not keeps_updates:
        cause = "the runtime shows those of the creation"
        return ReportedNodes(in_cgroup, Action.STORE, cause)
    # CRI-O's list may show older nodes than the accounting.
    nodes = in_runtime if keeps_updates or assigned is None else assigned
    use, has_devices = container.cgroup_use, container.has_devices
    obstacle = repair_obstacle(nodes, use, blocks, has_devices=has_devices)
    # Without known nodes nothing shows whether the runtime's value ever was in the cgroup.
    is_unconfirmed = container.container_id in old.cpusets.unconfirmed or assigned != in_runtime
    verdict = judge(nodes, in_cgroup, use, is_unconfirmed=is_unconfirmed, obstacle=obstacle)
    if verdict is Verdict.REPAIR:
        missed = "the update did not reach the cgroup" if in_cgroup else "the cgroup has none"
        return ReportedNodes(nodes, Action.REPAIR, missed)
    if verdict is Verdict.UNPINNED:
        return ReportedNodes(nodes, Action.SHOW_UNPINNED, obstacle)
    if verdict is Verdict.CONFLICT:
        return ReportedNodes(in_cgroup, Action.SHOW_CONFLICT, previous=nodes)
    return ReportedNodes(nodes)
