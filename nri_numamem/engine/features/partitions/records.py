"""Records of partitions."""

from typing import Annotated

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import container_names, pod_names
from nri_numamem.engine.records.common import (
    Cause,
    ContainerNames,
    Nodes,
    PartitionName,
    PodNames,
)
from nri_numamem.engine.records.record import Level, Record, event
from nri_numamem.numa import NodeSet, PartitionNodes

UNCONFINED_LIMIT = 16


@event(
    "partition_unusable",
    Level.WARNING,
    remedy="correct the setting partitions for this machine; until then the partition's pods are "
    "refused, or run unpinned (whenUnsatisfiable)",
)
class PartitionUnusable(Record):
    """The machine lacks NUMA nodes of a partition."""

    partition: PartitionName
    cause: Cause


@event("partition_ambiguous")
class PartitionAmbiguous(Record):
    """Several partitions match a pod; it belongs to the first one."""

    names: PodNames
    partition: PartitionName
    others: Annotated[tuple[str, ...], "names of the other partitions that match"]


@event("confined", kept=True)
class Confined(Record):
    """A container that is not pinned gets the NUMA nodes of its partition, without charges."""

    names: ContainerNames
    partition: PartitionName
    nodes: Nodes


@event(
    "unconfined_found",
    Level.WARNING,
    remedy="recreate these pods: a container gets its NUMA nodes when it is created",
)
class UnconfinedFound(Record):
    """Containers that are not pinned run on NUMA nodes of which `partitions` keeps them out."""

    container_count: Annotated[int, "number of these containers"]
    containers: Annotated[
        tuple[str, ...], f"NAMESPACE/POD/CONTAINER of the first {UNCONFINED_LIMIT} of them"
    ]


def unusable(found: PartitionNodes) -> PartitionUnusable:
    """Record a partition whose nodes the machine lacks."""
    return PartitionUnusable(partition=found.partition.name, cause=found.problem)


def ambiguous(pod: PodSandbox, names: tuple[str, ...]) -> PartitionAmbiguous:
    """Record a pod that several partitions match, the first of which it belongs to."""
    return PartitionAmbiguous(names=pod_names(pod), partition=names[0], others=names[1:])


def confined(pod: PodSandbox, container: Container, name: str, nodes: NodeSet) -> Confined:
    """Record a container that gets the nodes of its partition."""
    return Confined(names=container_names(pod, container), partition=name, nodes=nodes)


def unconfined(containers: list[str]) -> UnconfinedFound:
    """Record containers, by NAMESPACE/POD/CONTAINER, that run on nodes not meant for them."""
    return UnconfinedFound(
        container_count=len(containers), containers=(*sorted(containers)[:UNCONFINED_LIMIT],)
    )
