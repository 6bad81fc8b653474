"""The containers that the state file names, compared with their cgroups.

The cgroup shows whether the plugin's nodes are in effect; its parent, the pod's cgroup, shows which
nodes the container may use. Without a state file the cgroups show which containers are pinned, and
the history shows which of them the plugin pinned.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.common import ContainerNames, names_of
from nri_numamem.engine.records.containers import Adopted, Placed, content_of
from nri_numamem.engine.records.running import CpusetMemsConflict, CpusetMemsReapplied, Resized
from nri_numamem.host.cgroups import set_mems
from nri_numamem.host.containers import container_folders
from nri_numamem.host.pod_cgroups import guaranteed_pods, other_pod_directories
from nri_numamem.host.sysfs import read_nodes
from nri_numamem.memorymanager import QosClass
from nri_numamem.memorymanager.holder import container_name
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MEMORY
from nri_numamem.observe.history.records import Recorded

# Where the history has no name of a container, as crictl shows its id.
_SHORT_ID = 13


class Condition(StrEnum):
    """What a container's cgroup shows."""

    PINNED = "pinned"
    """It has the nodes that the plugin assigned."""
    RESET = "reset"
    """It has all nodes of its pod."""
    CHANGED = "changed"
    """Something else set other nodes."""
    ADOPTED = "adopted"
    """It had nodes before this plugin process started, which an earlier one may have set."""
    CONFLICT = "conflict"
    """It has nodes that something else set while the plugin ran."""
    GONE = "gone"
    """It has no cgroup: it ended."""


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
    origin: Condition = Condition.PINNED
    """Who set the nodes: the plugin (PINNED), something else (CONFLICT), or unknown (ADOPTED)."""

    @property
    def condition(self) -> Condition:
        """Return what the cgroup shows."""
        if self.mems is None:
            return Condition.GONE
        if not self.mems or self.mems == self.allowed:
            return Condition.RESET
        if self.mems != self.nodes:
            return Condition.CHANGED
        return self.origin


SentNodes: TypeAlias = Mapping[str, Collection[NodeSet]]
"""Container id -> all nodes that the plugin ever sent for it."""


def sent_nodes(entries: Iterable[Recorded]) -> SentNodes:
    """Return what the plugin sent according to its history."""
    found: dict[str, set[NodeSet]] = {}
    for entry in entries:
        content = content_of(entry.record)
        names, nodes = names_of(content), NodeSet()
        more: tuple[str, ...] = ()
        if isinstance(content, Placed):
            nodes, more = content.adjustment.cpuset_mems, content.extended_container_ids
        elif isinstance(content, Resized) and content.adjustment is not None:
            nodes = content.adjustment.cpuset_mems
        elif isinstance(content, CpusetMemsReapplied):
            nodes = content.nodes
        if nodes and isinstance(names, ContainerNames):
            for key in (names.container_id, *more):
                found.setdefault(key, set()).add(nodes)
    return found


def read_pins(state: EngineState, cgroup_root: Path, sent: SentNodes) -> tuple[Pin, ...]:
    """Return the containers of a state that have not ended, by pod and name.

    The plugin pinned a container that it adopted if it had sent the same nodes before. Raises
    MachineError if cgroups cannot be read.
    """
    held = {
        holder.container_id: (key, blocks)
        for key, holder in sorted(state.holders.items())
        if not holder.ended and (blocks := state.blocks(key))
    }
    directories = find_directories(cgroup_root, held)
    pins = []
    for container_id, (key, blocks) in held.items():
        directory = directories.get(container_id)
        reason = state.reasons.pinned.get(container_id)
        event = None if reason is None else reason.event
        nodes = blocks[0].numa_affinity
        pins.append(
            Pin(
                container_id,
                key[0] if reason is None else f"{reason.namespace}/{reason.pod}",
                container_name(key[1]),
                nodes,
                mems=None if directory is None else set_mems(directory),
                allowed=NodeSet() if directory is None else _allowed(directory.parent),
                hugepages=tuple(
                    block.type for block in blocks if block.type != MEMORY and block.size
                ),
                origin=_origin(nodes, sent.get(container_id, ()), event),
            )
        )
    return tuple(pins)


def find_pins(cgroup_root: Path, entries: Collection[Recorded]) -> tuple[Pin, ...]:
    """Return the pinned containers of a host without a state file, by pod.

    Raises MachineError if cgroups cannot be read.
    """
    sent = sent_nodes(entries)
    known = (names_of(entry.record) for entry in entries)
    names = {each.container_id: each for each in known if isinstance(each, ContainerNames)}
    pins = []
    for uid, directory in _pod_directories(cgroup_root):
        for container_id, folder in container_folders(directory).items():
            found = names.get(container_id)
            mems = set_mems(directory / folder)
            nodes = mems or NodeSet()
            pins.append(
                Pin(
                    container_id,
                    uid if found is None or found.pod is None else f"{found.namespace}/{found.pod}",
                    (found and found.container) or container_id[:_SHORT_ID],
                    nodes,
                    mems=mems,
                    allowed=_allowed(directory),
                    origin=_origin(nodes, sent.get(container_id, ()), Adopted.event),
                )
            )
    return tuple(pin for pin in pins if pin.condition in (Condition.PINNED, Condition.ADOPTED))


def _pod_directories(cgroup_root: Path) -> Iterator[tuple[str, Path]]:
    """Yield uid and cgroup of the pods in which the plugin may pin containers."""
    yield from sorted(guaranteed_pods(cgroup_root).items())
    for uid, (qos, directory) in sorted(other_pod_directories(cgroup_root).items()):
        if qos == QosClass.BURSTABLE:
            yield uid, directory


def find_directories(cgroup_root: Path, container_ids: Iterable[str]) -> Mapping[str, Path]:
    """Return container id -> its cpuset directory, for the containers that have a cgroup."""
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


def _origin(nodes: NodeSet, sent: Collection[NodeSet], event: str | None) -> Condition:
    """Return who set the nodes of a container; `event` is its last record."""
    if event == CpusetMemsConflict.event:
        return Condition.CONFLICT
    is_proven = event != Adopted.event or nodes in sent
    return Condition.PINNED if is_proven else Condition.ADOPTED


def _allowed(directory: Path) -> NodeSet:
    """Return the effective nodes of a pod's cgroup, or of the next one above with a cpuset."""
    for place in (directory, *directory.parents):
        for name in ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems"):
            nodes = read_nodes(str(place / name))
            if nodes:
                return nodes
    return NodeSet()
