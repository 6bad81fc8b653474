"""Records of decisions on containers that are created, or that run already."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from nri_numamem.engine.records.common import (
    AdjustmentValue,
    Cause,
    ContainerNames,
    Decided,
    EqualNodes,
    EvenNodes,
    ExcludedNodes,
    ExtendedContainerIds,
    FreeBytes,
    Hints,
    Holders,
    HugepageSource,
    MergedHint,
    Message,
    Nodes,
    PartitionName,
    PodRequestBytes,
    Policy,
    Reason,
    RefusalId,
    ReleasedBytes,
    Remedies,
    RepeatCount,
    RequestBytes,
    SetAside,
    SharesPodMemory,
    ShortfallBytes,
    Strategy,
    StrategySource,
    UsedOutsideOfPodsBytes,
)
from nri_numamem.engine.records.record import AlternateLevel, Flat, Level, Record, event


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Decided):
    """A container that was placed, and what was considered."""

    names: ContainerNames
    merged_hint: MergedHint
    nodes: Nodes
    adjustment: AdjustmentValue
    hugepage_source: HugepageSource = ""
    even_nodes: EvenNodes = 0
    shares_pod_memory: SharesPodMemory = False
    extended_container_ids: ExtendedContainerIds = ()
    released_bytes: ReleasedBytes = field(default_factory=dict)
    strategy: Strategy = ""
    strategy_source: StrategySource = ""
    equal_nodes: EqualNodes = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedLater(Flat):
    """A container whose nodes were chosen before, and recorded then."""

    names: ContainerNames
    nodes: Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced(Decided):
    """A container that fits nowhere, and why."""

    names: ContainerNames
    used_outside_of_pods_bytes: UsedOutsideOfPodsBytes = field(default_factory=dict)
    even_nodes: EvenNodes = 0
    partition: PartitionName = ""
    set_aside: SetAside = ()
    policy: Policy
    reason: Reason
    message: Message
    remedies: Remedies
    holders: Holders
    pod_request_bytes: PodRequestBytes = field(default_factory=dict)
    refusal_id: RefusalId = ""
    repeat_count: RepeatCount | None = None


@event("admitted", kept=True)
class Admitted(Placed):
    """A container is created and pinned to NUMA nodes."""


@event(
    "adopted",
    alternate=AlternateLevel(
        Level.WARNING, "the NUMA nodes cannot hold all of its request, or are excluded"
    ),
    remedy="with `shortfall_bytes`: move pods away from these NUMA nodes; with `excluded_nodes`: "
    "the pod stays there until it is recreated",
    kept=True,
)
class Adopted(Record):
    """A container already has its NUMA nodes, which are entered in the allocation state."""

    names: ContainerNames
    request_bytes: RequestBytes
    nodes: Nodes
    free_bytes: FreeBytes
    shortfall_bytes: ShortfallBytes = field(default_factory=dict)
    excluded_nodes: ExcludedNodes | None = None
    cause: Cause = ""


@event(
    "misaligned",
    Level.WARNING,
    remedy="free memory on the nodes of the CPUs and devices, then recreate the pod; the policy "
    "restricted refuses such containers",
    kept=True,
)
class Misaligned(Record):
    """The memory of a container is on no NUMA node of its CPUs, or of one of its devices."""

    names: ContainerNames
    nodes: Nodes
    misaligned: Annotated[
        Hints, "NUMA nodes of the CPUs and devices, by provider: cpu, devices, network"
    ]
    causes: Annotated[
        Mapping[str, str],
        "why, by provider: the rule for these nodes (see rules of candidates), or adopted if the "
        "container had its nodes already",
    ]


@event(
    "rejected",
    Level.WARNING,
    remedy="free memory on the NUMA nodes, or lower the request; `nri-numamem inspect` shows them",
    kept=True,
)
class Rejected(Unplaced):
    """A container's creation is refused because no NUMA nodes can hold its request."""


@event(
    "unpinned_no_capacity",
    Level.WARNING,
    remedy="free memory on the NUMA nodes, or lower the request; `nri-numamem inspect` shows them",
    kept=True,
)
class UnpinnedNoCapacity(Unplaced):
    """A container is created unpinned because no NUMA nodes can hold its request
    (whenUnsatisfiable: RunUnpinned).
    """


@event(
    "running_unpinned_no_capacity",
    Level.WARNING,
    remedy="free memory on the NUMA nodes, then restart the container",
    kept=True,
)
class RunningUnpinnedNoCapacity(Unplaced):
    """A running container stays unpinned because no NUMA nodes can hold its request."""


@event(
    "not_managed",
    Level.DEBUG,
    alternate=AlternateLevel(Level.WARNING, "its cpuset.mems cannot be parsed"),
    kept=True,
)
class NotManaged(Record):
    """A container is not managed; the plugin changes nothing."""

    names: ContainerNames
    cause: Cause
    qos_class: Annotated[
        str, "the pod's class by its cgroup: `Guaranteed`, `Burstable`, `BestEffort`, or `Unknown`"
    ]
    memory_limit_bytes: Annotated[int | None, "memory limit of the container; null if it has none"]
    pod_memory_limit_bytes: Annotated[
        int | None, "memory limit of the pod, or sum of its containers' limits; null if unknown"
    ]
    qos_obstacles: (
        Annotated[
            tuple[str, ...],
            "of a Burstable pod: what of the container keeps the pod from being Guaranteed "
            "(`no_memory_limit`, `no_cpu_limit`, `cpu_request_below_limit`), as far as NRI shows "
            "it; NRI does not show memory requests",
        ]
        | None
    ) = None
    repeat_count: RepeatCount | None = None


@event("pinned_while_running", kept=True)
class PinnedWhileRunning(Record):
    """A running container without NUMA nodes is pinned by an update."""

    placed: Placed | PinnedLater


@event(
    "unreported_container_found",
    Level.WARNING,
    remedy="none; it was created while the plugin was away",
    kept=True,
)
class UnreportedContainerFound(Record):
    """A running container was found that the runtime never reported."""

    found: Placed | Unplaced | Adopted
    outcome: Annotated[str, "adopted, pinning_deferred (with the next reply) or unpinned"]


def content_of(record: Record) -> Flat:
    """Return what a record shows of a placement, if it has that of another record."""
    match record:
        case UnreportedContainerFound():
            return record.found
        case PinnedWhileRunning():
            return record.placed
        case _:
            return record


@event(
    "duplicate_container",
    Level.WARNING,
    remedy="compare `crictl pods` with the kubelet's pods, and stop the sandbox that the kubelet "
    "does not use",
    kept=True,
)
class DuplicateContainer(Record):
    """Two sandboxes of one pod run a container of the same name; both are recorded, the earlier
    one under its ID.
    """

    names: ContainerNames
    sandbox_id: Annotated[str, "the runtime's ID of the sandbox of this container"]
    other_container_id: Annotated[str, "the runtime's ID of the earlier container"]
    other_sandbox_id: Annotated[str, "the runtime's ID of its sandbox"]
