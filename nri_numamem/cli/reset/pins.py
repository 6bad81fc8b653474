"""The containers that the state file names, beside their cgroups.

The cgroup says whether the plugin's nodes are in effect, and its parent, the pod's cgroup, which
nodes the container may have at all.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nri_numamem.engine.reason import Reason
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.state import EngineState, Key
from nri_numamem.host.cgroups import read_nodes, set_mems
from nri_numamem.host.containers import container_folders
from nri_numamem.memorymanager import Block
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MEMORY

# The plugin did not choose the nodes of such containers.
_FOUND = (EventName.ADOPTED, EventName.CPUSET_MEMS_CONFLICT)


class Condition(StrEnum):
    """What a cgroup says about a container."""

    PINNED = "pinned"
    """It has the nodes that the plugin assigned."""
    RESET = "reset"
    """It has all nodes of its pod."""
    CHANGED = "changed"
    """Something else set other nodes."""
    ADOPTED = "adopted"
    """It has the assigned nodes, and had them before the plugin knew it."""
    GONE = "gone"
    """There is no cgroup: the container ended."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One container with an assignment."""

    container_id: str
    pod: str
    """Namespace and name of the pod, or its uid."""
    name: str
    nodes: NodeSet
    """Assigned by the plugin."""
    mems: NodeSet | None
    """`cpuset.mems` of its cgroup, empty if it is unset; None without a cgroup."""
    allowed: NodeSet
    """The nodes of its pod's cgroup; empty without a cgroup."""
    hugepages: tuple[str, ...] = ()
    """Resources with a limit that the plugin set, such as "hugepages-2Mi"."""
    is_adopted: bool = False
    """Whether the plugin found it with its nodes."""

    @property
    def condition(self) -> Condition:
        """Return what the cgroup says."""
        if self.mems is None:
            return Condition.GONE
        if not self.mems or self.mems == self.allowed:
            return Condition.RESET
        if self.mems != self.nodes:
            return Condition.CHANGED
        return Condition.ADOPTED if self.is_adopted else Condition.PINNED


def read_pins(state: EngineState, cgroup_root: Path) -> tuple[Pin, ...]:
    """Return the containers of a state that have not ended, by pod and name.

    Raises MachineError for cgroups that cannot be read.
    """
    held = {
        holder.container_id: (key, blocks)
        for key, holder in sorted(state.holders.items())
        if not holder.ended and (blocks := state.blocks(key))
    }
    directories = find_directories(cgroup_root, held)
    return tuple(
        _read_pin(
            container_id,
            key,
            blocks,
            directories.get(container_id),
            state.reasons.pinned.get(container_id),
        )
        for container_id, (key, blocks) in held.items()
    )


def find_directories(cgroup_root: Path, container_ids: Iterable[str]) -> Mapping[str, Path]:
    """Return container id -> its cpuset directory, of those containers that have a cgroup."""
    wanted = set(container_ids)
    top = cgroup_root if (cgroup_root / "cgroup.controllers").exists() else cgroup_root / "cpuset"
    found: dict[str, Path] = {}
    for folder, names, _ in os.walk(top):
        if wanted <= found.keys():
            break
        containers = container_folders(Path(folder))
        found |= {key: Path(folder, containers[key]) for key in wanted & containers.keys()}
        names[:] = [name for name in names if name not in containers.values()]
    return found


def _read_pin(
    container_id: str,
    key: Key,
    blocks: tuple[Block, ...],
    directory: Path | None,
    reason: Reason | None,
) -> Pin:
    mems = None if directory is None else set_mems(directory)
    return Pin(
        container_id,
        key[0] if reason is None else f"{reason.namespace}/{reason.pod}",
        key[1],
        nodes=blocks[0].numa_affinity,
        mems=mems,
        allowed=NodeSet() if directory is None else _allowed(directory.parent),
        hugepages=tuple(block.type for block in blocks if block.type != MEMORY and block.size),
        is_adopted=reason is not None and reason.event in _FOUND,
    )


def _allowed(directory: Path) -> NodeSet:
    """Return the effective nodes of a pod's cgroup, or of the next one above with a cpuset."""
    for place in (directory, *directory.parents):
        for name in ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems"):
            nodes = read_nodes(str(place / name))
            if nodes:
                return nodes
    return NodeSet()
