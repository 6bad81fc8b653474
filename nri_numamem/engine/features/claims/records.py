"""Records of resource claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from nri_numamem.engine.core.claims import ChargedClaim
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import adjustment_shown, container_names, free_bytes
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.records.common import (
    AdjustmentValue,
    Cause,
    ContainerNames,
    FreeBytes,
    Message,
    Nodes,
    Remedy,
)
from nri_numamem.engine.records.record import Amounts, Flat, Level, Record, event
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.claims import Claim, ClaimAmounts, nodes_of
from nri_numamem.numa.quantity import sum_amounts

ChargedBytes = Annotated[
    Mapping[int, Amounts], "bytes by NUMA node and resource, as the scheduler allocated them"
]
Claims = Annotated[tuple[str, ...], "NAMESPACE/NAME of the claims of the container"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames(Flat):
    """The fields that name a claim."""

    claim: Annotated[str, "name of the ResourceClaim"]
    namespace: Annotated[str, "namespace of the claim"]
    claim_uid: Annotated[str, "UID of the claim"]


@event("claim_prepared", kept=True)
class ClaimPrepared(Record):
    """The kubelet prepares a resource claim, whose memory is charged to its NUMA nodes."""

    names: ClaimNames
    charged_bytes: ChargedBytes
    nodes: Nodes
    free_bytes: FreeBytes


@event(
    "claim_rejected",
    Level.WARNING,
    remedy="delete the pod, so that the scheduler chooses again; the ResourceSlice was older than "
    "the last assignment on these NUMA nodes",
    kept=True,
)
class ClaimRejected(Record):
    """A resource claim cannot be prepared, because its NUMA nodes lack room or have a group."""

    names: ClaimNames
    charged_bytes: Annotated[Mapping[int, Amounts], "bytes by NUMA node and resource of the claim"]
    message: Message
    free_bytes: FreeBytes


@event("claim_released", kept=True)
class ClaimReleased(Record):
    """The memory of a resource claim is free again: it is unprepared, and no container uses it."""

    names: ClaimNames
    nodes: Nodes


@event("claim_in_use", Level.DEBUG)
class ClaimInUse(Record):
    """The kubelet unprepared a resource claim that containers use; it stays charged until they
    end.
    """

    names: ClaimNames
    containers: Annotated[tuple[str, ...], "NAMESPACE/POD/CONTAINER of these containers"]


@event("claim_used", kept=True)
class ClaimUsed(Record):
    """A container is created and pinned to the NUMA nodes of its resource claims."""

    names: ContainerNames
    claims: Claims
    claimed_bytes: Annotated[
        Mapping[int, Amounts], "bytes by NUMA node and resource that it may use with others"
    ]
    nodes: Nodes
    adjustment: AdjustmentValue
    memory_limit_bytes: Annotated[int, "memory limit of the container"]
    sets_memory_limit: Annotated[
        bool, "true if the container had no memory limit, and the plugin sets this one"
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused(Record):
    """A container that its claims cannot hold."""

    names: ContainerNames
    claims: Claims
    cause: Cause
    remedy: Remedy


@event("claim_use_rejected", Level.WARNING, remedy="follow `remedy`", kept=True)
class ClaimUseRejected(_Refused):
    """The creation of a container with resource claims is refused."""


@event("claim_resize_rejected", Level.WARNING, remedy="follow `remedy`", kept=True)
class ClaimResizeRejected(_Refused):
    """The resize of a container with resource claims is refused."""


class Use(NamedTuple):
    """What a container gets by its claims."""

    claims: tuple[str, ...]
    """NAMESPACE/NAME of each."""
    amounts: ClaimAmounts
    limit_bytes: int
    """Its memory limit."""


def prepared(accounting: State, claim: Claim) -> ClaimPrepared:
    """Record a claim that is charged in `accounting`."""
    nodes = nodes_of(claim.amounts)
    return ClaimPrepared(
        names=names_of(claim),
        charged_bytes=_plain(claim.amounts),
        nodes=nodes,
        free_bytes=_free(accounting, claim),
    )


def rejected(accounting: State, claim: Claim, message: str) -> ClaimRejected:
    """Record a claim that cannot be prepared."""
    return ClaimRejected(
        names=names_of(claim),
        charged_bytes=_plain(claim.amounts),
        message=message,
        free_bytes=_free(accounting, claim),
    )


def released(claim: Claim) -> ClaimReleased:
    """Record a claim that ended."""
    return ClaimReleased(names=names_of(claim), nodes=nodes_of(claim.amounts))


def in_use(charged: ChargedClaim) -> ClaimInUse:
    """Record a claim that stays, because containers use it."""
    users = (f"{u.namespace}/{u.pod}/{u.container}" for u in charged.users.values())
    return ClaimInUse(names=names_of(charged.claim), containers=(*sorted(users),))


def used(pod: PodSandbox, container: Container, use: Use, adjustment: Adjustment) -> ClaimUsed:
    """Record a container that is pinned by its claims."""
    nodes = nodes_of(use.amounts)
    return ClaimUsed(
        names=container_names(pod, container),
        claims=use.claims,
        claimed_bytes=_plain(use.amounts),
        nodes=nodes,
        adjustment=adjustment_shown(adjustment, nodes),
        memory_limit_bytes=use.limit_bytes,
        sets_memory_limit=adjustment.memory_limit_bytes is not None,
    )


def use_rejected(
    kind: type[_Refused],
    pod: PodSandbox,
    container: Container,
    claims: tuple[str, ...],
    cause: str,
    remedy: str,
) -> Record:
    """Record a container whose creation or resize is refused."""
    return kind(names=container_names(pod, container), claims=claims, cause=cause, remedy=remedy)


def names_of(claim: Claim) -> ClaimNames:
    """Return the fields that name a claim."""
    return ClaimNames(claim=claim.name, namespace=claim.namespace, claim_uid=claim.uid)


def _plain(amounts: ClaimAmounts) -> dict[int, Amounts]:
    return {node_id: dict(wanted) for node_id, wanted in sorted(amounts.items())}


def _free(accounting: State, claim: Claim) -> dict[int, Amounts]:
    amounts = claim.amounts
    resources = sum_amounts((name, 1) for wanted in amounts.values() for name in wanted)
    return free_bytes(accounting, resources, amounts)
