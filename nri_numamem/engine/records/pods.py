"""Records of decisions on pods."""

from dataclasses import field
from typing import Annotated

from nri_numamem.engine.records.common import (
    Decided,
    EqualNodes,
    Error,
    FreeBytes,
    MergedHint,
    Message,
    Nodes,
    PartitionName,
    PodNames,
    Policy,
    Reason,
    RepeatCount,
    RequestBytes,
    SetAside,
    ShortfallBytes,
    Strategy,
    StrategySource,
    UsedOutsideOfPodsBytes,
)
from nri_numamem.engine.records.record import Level, Record, event


@event("pod_admitted", kept=True)
class PodAdmitted(Decided):
    """A pod gets NUMA nodes as a whole (topologyManagerScope: pod)."""

    names: PodNames
    merged_hint: MergedHint
    nodes: Nodes
    strategy: Strategy = ""
    strategy_source: StrategySource = ""
    equal_nodes: EqualNodes = ()


@event("pod_adopted", Level.WARNING, remedy="move pods away from these NUMA nodes", kept=True)
class PodAdopted(Record):
    """A pod keeps its NUMA nodes, which cannot hold all of its request."""

    names: PodNames
    request_bytes: RequestBytes
    nodes: Nodes
    free_bytes: FreeBytes
    shortfall_bytes: ShortfallBytes


@event(
    "pod_rejected",
    Level.WARNING,
    remedy="free memory on the NUMA nodes, or lower the request",
    kept=True,
)
class PodRejected(Decided):
    """No NUMA nodes can hold the request of a pod; the creation of its containers is refused."""

    names: PodNames
    used_outside_of_pods_bytes: UsedOutsideOfPodsBytes = field(default_factory=dict)
    partition: PartitionName = ""
    set_aside: SetAside = ()
    policy: Policy
    reason: Reason
    message: Message
    repeat_count: RepeatCount | None = None


@event("pod_released", kept=True)
class PodReleased(Record):
    """A pod ended; the memory of its containers is free again."""

    names: PodNames
    containers: Annotated[tuple[str, ...], "names of its containers, at most 50"]
    container_count: Annotated[int, "the number of its containers, if there are more"] | None = None
    free_bytes: FreeBytes
    detected_by: Annotated[str, "how its end was noticed, if not by the runtime's report"] = ""


@event(
    "pod_cgroup_unreadable",
    Level.WARNING,
    remedy="check the permissions of the plugin on the cgroup filesystem",
    kept=True,
)
class PodCgroupUnreadable(Record):
    """A pod's cgroup cannot be read; its hugepage limits are unknown."""

    error: Error
