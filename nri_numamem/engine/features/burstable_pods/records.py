"""Records of containers in Burstable pods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from nri_numamem.engine.core.annotations import PINNING
from nri_numamem.engine.core.events import CreateContainer, UpdateContainer
from nri_numamem.engine.core.fields import container_names
from nri_numamem.engine.records.common import (
    WARNED_BEFORE,
    Cause,
    ContainerNames,
    Nodes,
    PreviousNodes,
)
from nri_numamem.engine.records.record import (
    AlternateLevel,
    Amounts,
    Flat,
    Level,
    Record,
    event,
)
from nri_numamem.memorymanager import Block, nodes_of
from nri_numamem.memorymanager.burstable import BurstableFacts, Evidence
from nri_numamem.numa import NodeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(Flat):
    """A container of a Burstable pod, and what its request follows from."""

    names: ContainerNames
    annotation: Annotated[
        str, "the pod's annotation `memory.numamem.io` for the container; empty without one"
    ]
    memory_limit_bytes: Annotated[
        int | None, "memory limit of the container before the request; null if it has none"
    ]
    reserved_bytes: Annotated[
        int | None, "its `memory.low` or `memory.min`; null if the runtime shows neither"
    ]
    oom_score_adj: Annotated[int | None, "its `oom_score_adj`; null if unknown"]


@event("burstable_pinned", kept=True)
class BurstablePinned(Record):
    """A container of a Burstable pod is created and pinned, because its memory request is its
    limit; the record `admitted` shows the decision.
    """

    facts: Facts
    evidence: Annotated[
        str, "what shows the request: `memory-reservation`, `annotation` or `limits`"
    ]
    nodes: Nodes
    new_oom_score_adj: Annotated[
        int | None, "the `oom_score_adj` that the plugin sets; null for no change"
    ]


@event(
    "burstable_not_pinned",
    Level.WARNING,
    alternate=AlternateLevel(
        Level.DEBUG, f"burstablePods is off, or {WARNED_BEFORE} and room is not the cause"
    ),
    remedy="see `cause`, and docs/burstable-pods.md",
    kept=True,
)
class BurstableNotPinned(Record):
    """A container of a Burstable pod starts unpinned, although it has the annotation or its
    memory request is its limit.
    """

    facts: Facts
    cause: Cause
    available_bytes: (
        Annotated[
            Mapping[int, int],
            "bytes by NUMA node that are free or reclaimable; only with "
            "burstablePods.requireFreeMemory",
        ]
        | None
    ) = None
    message: Annotated[str, "what each NUMA node has free"] = ""


@event(
    "burstable_unpinned",
    Level.WARNING,
    remedy="see `cause`; the container is pinned again when it is created again",
    kept=True,
)
class BurstableUnpinned(Record):
    """A container of a Burstable pod is unpinned by a resize. Its memory stays where it is, and
    new memory may come from all NUMA nodes.
    """

    facts: Facts
    new_memory_limit_bytes: Annotated[
        int | None, "the new memory limit; null if it does not change"
    ]
    new_reserved_bytes: Annotated[
        int | None, "the new `memory.low` or `memory.min`; null if not shown"
    ]
    released_bytes: Annotated[Amounts, "bytes by resource that are no longer assigned"]
    previous_nodes: PreviousNodes
    nodes: Nodes
    cause: Cause


def pinned(
    request: CreateContainer, evidence: Evidence, nodes: NodeSet, score: int | None
) -> BurstablePinned:
    """Record a container that is pinned; `score` is its new oom_score_adj, None for no change."""
    return BurstablePinned(
        facts=_facts(request), evidence=evidence.value, nodes=nodes, new_oom_score_adj=score
    )


def not_pinned(
    request: CreateContainer, cause: str, message: str = "", *, is_off: bool = False
) -> BurstableNotPinned:
    """Record a container that starts unpinned; `message` shows what each node has free.

    `is_off` if the settings pin no container of a Burstable pod.
    """
    available = request.available_memory
    return BurstableNotPinned(
        facts=_facts(request),
        cause=cause,
        available_bytes=None if available is None else dict(sorted(available.items())),
        message=message,
        alternate=is_off,
    )


def unpinned(
    request: UpdateContainer, before: tuple[Block, ...], nodes: NodeSet, cause: str
) -> BurstableUnpinned:
    """Record a container that is unpinned because of a resize; `nodes` are its new ones."""
    return BurstableUnpinned(
        facts=_facts(request),
        new_memory_limit_bytes=request.memory_limit_bytes,
        new_reserved_bytes=request.reserved_bytes,
        released_bytes={block.type: block.size for block in before},
        previous_nodes=nodes_of(before),
        nodes=nodes,
        cause=cause,
    )


def _facts(request: CreateContainer | UpdateContainer) -> Facts:
    pod, container = request.pod, request.container
    facts = container.burstable or BurstableFacts()
    return Facts(
        names=container_names(pod, container),
        annotation=pod.annotation(PINNING, container.name),
        memory_limit_bytes=container.memory_limit_bytes,
        reserved_bytes=facts.reserved_bytes,
        oom_score_adj=facts.oom_score_adj,
    )
