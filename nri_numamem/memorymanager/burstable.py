"""Burstable containers whose memory request is their limit.

Such a container may be pinned like one of a Guaranteed pod, if the administrator allows it. The
runtime shows the limit and not the request, so the settings say which evidence counts:

- memory-reservation: the container's `memory.low` or `memory.min`, which the kubelet sets to the
                      memory request if its feature MemoryQoS is on;
- annotation:         the pod's annotation `memory.numamem.io` with the value `guaranteed`;
- limits:             in the listed namespaces every memory limit is also the request.

A reservation that differs from the limit refutes the other two, and so can `oom_score_adj`.
Sources: kubelet kuberuntime_container_linux.go (memory.min and memory.low), KEP-2570; kubelet
pkg/kubelet/qos/policy.go (GetContainerOOMScoreAdjust).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nri_numamem.memorymanager.hugepage_pools import MaskedState, with_free
from nri_numamem.numa.quantity import MEMORY

GUARANTEED = "guaranteed"
"""The value of the annotation."""

GUARANTEED_OOM_SCORE_ADJ = -997
"""The kubelet's value for containers of Guaranteed pods."""

# The kubelet's bounds for a Burstable container.
_LEAST, _MOST = 3, 999


class Evidence(StrEnum):
    """What shows that a container's memory request is its limit."""

    MEMORY_RESERVATION = "memory-reservation"
    ANNOTATION = "annotation"
    LIMITS = "limits"


@dataclass(frozen=True, slots=True)
class BurstablePods:
    """The setting `burstablePods`."""

    evidence: tuple[Evidence, ...] = ()
    """The evidence that counts; without any no Burstable container is pinned."""
    namespaces: tuple[str, ...] = ()
    """The namespaces whose pods may be pinned; empty: all."""
    oom_score_adj: int | None = None
    """The `oom_score_adj` of pinned containers, if it is lower than the kubelet's; None keeps the
    kubelet's."""
    require_free_memory: bool = True
    """A container is pinned only where its limit is free or reclaimable on its NUMA nodes."""

    @property
    def is_active(self) -> bool:
        """Return whether any Burstable container may be pinned."""
        return bool(self.evidence)

    def allows(self, namespace: str) -> bool:
        """Return whether containers of this namespace may be pinned."""
        return self.is_active and (not self.namespaces or namespace in self.namespaces)


@dataclass(frozen=True, slots=True)
class BurstableFacts:
    """What the runtime shows of a container in a Burstable pod, besides its limits."""

    reserved_bytes: int | None = None
    """`memory.low` or `memory.min`; None if the runtime shows neither, or 0."""
    oom_score_adj: int | None = None
    """None if unknown."""


def find_evidence(
    settings: BurstablePods,
    namespace: str,
    annotation: str,
    limit_bytes: int | None,
    facts: BurstableFacts,
    capacity_bytes: int,
) -> Evidence | str:
    """Return what shows that a container's request is its limit, or why nothing does.

    `annotation` is the pod's for the container, `capacity_bytes` the memory of the whole machine.
    """
    if not settings.is_active:
        return "burstablePods.evidence is empty"
    if not settings.allows(namespace):
        return "burstablePods.namespaces does not list its namespace"
    if not limit_bytes:
        return "the container has no memory limit"
    if facts.reserved_bytes is not None and facts.reserved_bytes != limit_bytes:
        return "its memory.low or memory.min differs from its memory limit"
    found = next((each for each in settings.evidence if _holds(each, annotation, facts)), None)
    if found is None:
        return f"none of burstablePods.evidence ({', '.join(settings.evidence)}) applies"
    if found is not Evidence.MEMORY_RESERVATION and is_refuted(
        limit_bytes, facts.oom_score_adj, capacity_bytes
    ):
        return "its oom_score_adj shows a memory request below its memory limit"
    return found


def is_refuted(limit_bytes: int, oom_score_adj: int | None, capacity_bytes: int) -> bool:
    """Return whether `oom_score_adj` shows that a Burstable container requests less than its limit.

    The kubelet computes 1000 - 1000 * request / capacity, rounded up, within its bounds. Sidecars,
    pod-level resources and critical pods have lower values, so only a higher value shows anything,
    and no value proves the contrary: a step is a thousandth of the capacity.
    """
    if oom_score_adj is None or capacity_bytes <= 0:
        return False
    of_limit = 1000 - 1000 * limit_bytes // capacity_bytes
    return oom_score_adj > min(max(of_limit, _LEAST), _MOST)


def oom_score_adj_of(settings: BurstablePods, facts: BurstableFacts) -> int | None:
    """Return the `oom_score_adj` to set; None to keep the kubelet's, which may be lower."""
    wanted, present = settings.oom_score_adj, facts.oom_score_adj
    return wanted if wanted is not None and present is not None and wanted < present else None


def mask_unavailable_memory(masked: MaskedState, available: Mapping[int, int]) -> MaskedState:
    """Subtract free memory of the accounting that the kernel could not provide now.

    `available` is NUMA node id -> bytes that are free or reclaimable; other nodes do not change.
    Pods that are not pinned use memory that the accounting has as free.
    """
    missing: dict[int, dict[str, int]] = {}
    for node_id, node in masked.state.machine_state.items():
        size_bytes = node.table(MEMORY).free - available.get(node_id, node.table(MEMORY).free)
        if size_bytes > 0:
            missing[node_id] = {MEMORY: size_bytes}
    amounts = {
        node_id: {**masked.amounts.get(node_id, {}), **missing.get(node_id, {})}
        for node_id in masked.amounts.keys() | missing.keys()
    }
    return MaskedState(with_free(masked.state, missing, -1), amounts)


def _holds(evidence: Evidence, annotation: str, facts: BurstableFacts) -> bool:
    """Return whether a container has this evidence; its reservation, if known, is its limit."""
    if evidence is Evidence.MEMORY_RESERVATION:
        return facts.reserved_bytes is not None
    return evidence is Evidence.LIMITS or annotation == GUARANTEED
