"""Records of containers after their creation: cpusets, resizes, changes of the machine."""

from dataclasses import dataclass, field
from typing import Annotated

from nri_numamem.engine.records.common import (
    AdjustmentValue,
    Candidates,
    Cause,
    ContainerNames,
    Error,
    ExcludedNodes,
    FreeBytes,
    Nodes,
    PagesShown,
    PodNames,
    PreviousMemoryBytes,
    PreviousNodes,
    RefusalId,
    Remedies,
    Remedy,
    RepeatCount,
    RequestBytes,
    ShortfallBytes,
)
from nri_numamem.engine.records.record import AlternateLevel, Amounts, Flat, Level, Record, event
from nri_numamem.numa import NodeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned(Flat):
    """The assignment of a container, or of a pod as a whole, when the machine changed."""

    names: ContainerNames | PodNames
    ended: Annotated[
        bool | None, "whether the container has ended, so that its pod may reuse the memory"
    ] = None
    request_bytes: RequestBytes
    nodes: Nodes
    removed_nodes: Annotated[
        NodeSet, "NUMA nodes of the container that the machine no longer has"
    ] = field(default_factory=NodeSet)


@event(
    "pod_not_listed",
    Level.WARNING,
    remedy="none at first: containerd could not read the state of the pod's sandbox when it "
    "started, and the kubelet recreates such a sandbox. If it repeats, the host is overloaded",
    kept=True,
)
class PodNotListed(Record):
    """The runtime lists running containers of a pod, but not the pod. The allocation state keeps
    the pod as it was.
    """

    names: PodNames


@event(
    "cpuset_mems_conflict",
    Level.WARNING,
    remedy="find what writes it: the kubelet's own Memory Manager, another plugin, an operator",
    kept=True,
)
class CpusetMemsConflict(Record):
    """Something else set cpuset.mems of a running container; the allocation state follows."""

    names: ContainerNames
    previous_nodes: Annotated[
        NodeSet, "NUMA nodes in the allocation state before; `remote_bytes` are not on these"
    ]
    nodes: Nodes
    shortfall_bytes: ShortfallBytes = field(default_factory=dict)
    pages: PagesShown | None = None


@event(
    "cpuset_mems_missing",
    Level.WARNING,
    alternate=AlternateLevel(Level.INFO, "an update sets it with the next reply"),
    remedy="at level warning: see `remedy`",
    kept=True,
)
class CpusetMemsMissing(Record):
    """The cgroup of a running container has no cpuset.mems; it gets memory from any NUMA node."""

    names: ContainerNames
    nodes: Nodes
    outcome: Annotated[str, "repair_deferred (with the next reply) or unpinned"]
    cause: Cause = ""
    remedy: Remedy = ""
    pages: PagesShown | None = None


@event("cpuset_mems_reapplied", kept=True)
class CpusetMemsReapplied(Record):
    """A running container's cpuset.mems is not in its cgroup, or not in the runtime; the update
    is repeated.
    """

    names: ContainerNames
    nodes: Nodes
    runtime_cpuset_mems: Annotated[str, "cpuset.mems that the runtime shows"] | None = None
    cgroup_cpuset_mems: Annotated[str, "cpuset.mems of the cgroup"]
    cause: Cause


@event("cpuset_mems_restored", kept=True)
class CpusetMemsRestored(Record):
    """The cgroup of a running container has its NUMA nodes again, after cpuset_mems_missing."""

    names: ContainerNames
    nodes: Nodes
    pages: PagesShown | None = None


CpusetRecord = CpusetMemsConflict | CpusetMemsMissing | CpusetMemsRestored
"""Records that show where the memory of the container is, if that is known."""


@event(
    "resized",
    alternate=AlternateLevel(Level.WARNING, "the NUMA nodes cannot hold the new limit"),
    kept=True,
)
class Resized(Record):
    """The memory limit of a running container changed."""

    names: ContainerNames
    previous_memory_bytes: PreviousMemoryBytes
    request_bytes: RequestBytes
    previous_nodes: PreviousNodes
    candidates: Candidates
    nodes: Nodes
    adjustment: AdjustmentValue | None = None
    shortfall_bytes: ShortfallBytes = field(default_factory=dict)
    free_bytes: FreeBytes


@event("resize_rejected", Level.WARNING, remedy="see `remedies`; the kubelet retries", kept=True)
class ResizeRejected(Record):
    """A larger memory limit of a running container is refused; the container runs on as before."""

    names: ContainerNames
    previous_memory_bytes: PreviousMemoryBytes
    request_bytes: RequestBytes
    previous_nodes: PreviousNodes | None = None
    candidates: Candidates
    nodes: Nodes
    adjustment: AdjustmentValue | None = None
    shortfall_bytes: ShortfallBytes
    free_bytes: FreeBytes
    remedies: Remedies
    refusal_id: RefusalId = ""
    repeat_count: RepeatCount | None = None


@event("update_without_effect", Level.DEBUG, kept=True)
class UpdateWithoutEffect(Record):
    """A container is updated, but not its memory limit, or it is not managed; the plugin changes
    nothing.
    """

    names: ContainerNames
    cause: Cause


@event("container_ended", kept=True)
class ContainerEnded(Record):
    """A container ended; its pod may reuse the memory."""

    names: ContainerNames
    reusable_bytes: Annotated[Amounts, "bytes by resource that stay reserved for the pod"]


@event(
    "on_excluded_nodes",
    Level.WARNING,
    remedy="recreate the pod to move it, or set memoryNodes.override for the NUMA node",
    kept=True,
)
class OnExcludedNodes(Record):
    """The machine changed, and a NUMA node of a container is now excluded; it is not moved."""

    assigned: Assigned
    excluded_nodes: ExcludedNodes


@event(
    "overcommitted",
    Level.WARNING,
    alternate=AlternateLevel(Level.DEBUG, "only the size of the shortfall changed"),
    remedy="move pods away from these NUMA nodes",
    kept=True,
)
class Overcommitted(Record):
    """The machine changed, and the NUMA nodes of a container no longer hold its request."""

    assigned: Assigned
    shortfall_bytes: ShortfallBytes = field(default_factory=dict)


@event(
    "overcommit_resolved",
    alternate=AlternateLevel(Level.DEBUG, "the shortfall was small"),
    kept=True,
)
class OvercommitResolved(Record):
    """The NUMA nodes of a container hold its request again."""

    assigned: Assigned
    shortfall_bytes: ShortfallBytes = field(default_factory=dict)


@event("stale_reservation_dropped", Level.WARNING, kept=True)
class StaleReservationDropped(Record):
    """A reservation that the state file kept for a pod is dropped."""

    pod_uid: Annotated[str, "UID of the pod"]
    container: Annotated[str, "name of the container"]
    request_bytes: RequestBytes
    nodes: Nodes
    cause: Cause


@event(
    "container_cgroup_unreadable",
    Level.WARNING,
    remedy="check the permissions of the plugin on the cgroup filesystem",
    kept=True,
)
class ContainerCgroupUnreadable(Record):
    """A container's cgroup cannot be read; the runtime's figures are used."""

    error: Error
