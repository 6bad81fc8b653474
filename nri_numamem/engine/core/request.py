"""The request of a container, computed from what the runtime shows.

CRI has no requests, but the request of a Guaranteed container is its limit. Memory: the
container's own limit. Hugepages: the container's own limits where the runtime shows them, else the
limits of the pod's cgroup. These are the sum of the pod, without the share of each container. So
the pod's first container requests all of the sum that the pod's other containers do not have yet,
and every container of the pod may use the sum.

A pod can have pod-level resources (`spec.resources`): one limit for all its containers, whose own
limits may be larger together, or absent. No runtime shows that field, but it has signs: a container
of a Guaranteed pod without a limit, or limits of live containers that exceed the pod's limit. From
the first sign on each further container requests at most what the live ones leave of the limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Protocol

from nri_numamem.engine.core.context import is_burstable
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import Block, Pod, Rejection, State
from nri_numamem.memorymanager import Request as Resources
from nri_numamem.memorymanager.blocks import sum_blocks
from nri_numamem.memorymanager.holder import HolderKey, HolderName
from nri_numamem.memorymanager.node_reasons import Reason
from nri_numamem.numa import MEMORY, NodeSet, hugepages_resource
from nri_numamem.topologymanager import Placement, ProviderHints, Topology


class NodeChooser(Protocol):
    """Chooses the nodes of a request for a feature, and says which node sets are candidates.

    Without one the two managers choose, by their hints.
    """

    @property
    def node_count(self) -> int:
        """Number of nodes for the request."""

    def place(
        self,
        accounting: State,
        pod: Pod,
        name: HolderName,
        topology: Topology,
        providers: Sequence[ProviderHints],
    ) -> Placement | Rejection:
        """Choose the nodes of a container; `providers` are the hints of the other providers."""

    def fits(self, accounting: State, uid: str, resources: Resources, nodes: NodeSet) -> bool:
        """Return whether a request of pod `uid` may be placed on the set."""

    def reason(self, accounting: State, uid: str, resources: Resources, nodes: NodeSet) -> Reason:
        """Return why the request does not fit the set."""

    def short_bytes(self, size_bytes: int, amounts: Sequence[int]) -> int:
        """Return what nodes with these free bytes of a resource lack; 0 or less for nothing."""

    def most_bytes(self, amounts: Sequence[int]) -> int:
        """Return the most bytes of a resource that nodes with these free bytes can hold."""


class HugepageSource(StrEnum):
    """Source of a container's hugepage request."""

    NONE = "none"
    CONTAINER = "container"
    """The container's hugepage limits."""
    UNIFIED = "unified"
    """Its `unified` keys: set by another plugin, or by an earlier reply."""
    POD = "pod"
    """The pod's cgroup: the sum of its containers."""


@dataclass(frozen=True, slots=True)
class Request:
    """A container's request, and its hugepage limits."""

    resources: Mapping[str, int]
    """Resource name ("memory", "hugepages-2Mi") -> bytes; `memory` first, then by page size."""
    hugepage_source: HugepageSource = HugepageSource.NONE
    hugepage_limits: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> limit for the container's cgroup, > 0."""
    is_shared: bool = False
    """The container shares the memory of its pod with the pod's other containers."""
    chooser: NodeChooser | None = None
    """Of a feature that chooses the nodes; None for as few nodes as possible."""


@dataclass(frozen=True, slots=True)
class ToPlace:
    """A container for which NUMA nodes are to be chosen."""

    pod: PodSandbox
    container: Container
    request: Request
    others: OtherProviders
    """The hints of its CPUs and devices."""

    @property
    def key(self) -> HolderKey:
        """HolderKey of the assignment."""
        return self.pod.uid, self.container.name


def request_for(state: EngineState, pod: PodSandbox, container: Container) -> Request | None:
    """Return the request of a container; None if its memory request is unknown."""
    if not pod.hugepage_limits:  # only a sum depends on the other containers
        request = request_of(pod, container, {})
    else:
        others = blocks_in_sandbox(state, pod, with_ended=False)
        others.pop(container.name, None)
        request = request_of(pod, container, sum_blocks(chain.from_iterable(others.values())))
    if not pod.memory_limit_bytes or request is None or pod.uid not in state.accounting.assignments:
        return request
    live, is_shared = live_in_sandbox(state, pod, container.name)
    return within_pod_limit(pod, request, live, is_shared=is_shared)


def blocks_in_sandbox(
    state: EngineState, pod: PodSandbox, *, with_ended: bool
) -> dict[HolderName, tuple[Block, ...]]:
    """Return the blocks of the containers of one sandbox, by name."""
    return {
        name: blocks
        for name, blocks in state.accounting.assignments.get(pod.uid, {}).items()
        if (holder := state.holders.get((pod.uid, name))) is not None
        and holder.sandbox_id == pod.sandbox_id
        and (with_ended or not holder.ended)
    }


def request_of(
    pod: PodSandbox, container: Container, assigned_to_others: Mapping[str, int]
) -> Request | None:
    """Return the request of a container, as request_for() does.

    `assigned_to_others` is the sum of the pod's other live containers, by resource name, in bytes.
    It counts only where the hugepages of the pod are known as a sum.
    """
    memory_bytes = container.memory_limit_bytes or pod.memory_limit_bytes
    if not memory_bytes:
        return None
    is_shared = not container.memory_limit_bytes
    resources = {MEMORY: memory_bytes}
    source, limits = _hugepages(pod, container)
    if not limits:
        return Request(resources, is_shared=is_shared)
    is_sum = source is HugepageSource.POD or _is_pods_sum(pod, container, source)
    for size_bytes, limit_bytes in limits.items():
        name = hugepages_resource(size_bytes)
        assigned = assigned_to_others.get(name, 0) if is_sum else 0
        if limit_bytes > assigned:
            resources[name] = limit_bytes - assigned
    return Request(resources, source, limits, is_shared)


def within_pod_limit(
    pod: PodSandbox, request: Request, live: Mapping[str, int], *, is_shared: bool
) -> Request:
    """Return the request, limited to the rest of the pod's limit if the container shares it.

    `live` and `is_shared` are what live_in_sandbox() returns. The pod has a memory limit.
    """
    limit_bytes = pod.memory_limit_bytes or 0
    exceeds = live and live.get(MEMORY, 0) + request.resources[MEMORY] > limit_bytes
    limit = request_of_pod(pod) if exceeds or is_shared or request.is_shared else None
    if limit is None:
        return request
    resources = {
        name: max(0, min(size, limit.get(name, size) - live.get(name, 0)))
        for name, size in request.resources.items()
    }
    return replace(request, resources=resources, is_shared=True)


def live_in_sandbox(
    state: EngineState, pod: PodSandbox, but: HolderName
) -> tuple[Mapping[str, int], bool]:
    """Return what the live containers of a sandbox hold, and whether the pod's memory is shared.

    The amounts are by resource name, without the container `but`. A pod's memory stays shared when
    the container that was the sign has ended.
    """
    live: dict[str, int] = {}
    is_shared = False
    for name, blocks in state.accounting.assignments.get(pod.uid, {}).items():
        holder = state.holders[pod.uid, name]
        is_shared = is_shared or holder.is_shared
        if name != but and not holder.ended and holder.sandbox_id == pod.sandbox_id:
            for block in blocks:
                live[block.type] = live.get(block.type, 0) + block.size
    return live, is_shared


def request_of_pod(pod: PodSandbox) -> Mapping[str, int] | None:
    """Return the request of a pod as a whole, by resource name; None if it is unknown.

    The sum of a Burstable pod has the limits of containers that are not pinned, and lacks
    containers without a limit.
    """
    if not pod.memory_limit_bytes or is_burstable(pod.cgroup_parent):
        return None
    limits = _nonzero(pod.hugepage_limits)
    pages = {hugepages_resource(size): limit for size, limit in limits.items()}
    return {MEMORY: pod.memory_limit_bytes, **pages}


def _hugepages(pod: PodSandbox, container: Container) -> tuple[HugepageSource, Mapping[int, int]]:
    """Return the limits that are not 0, and their source, which has no meaning without limits."""
    # The reply of this plugin comes back as unified keys, so they come first.
    unified = container.hugepages_unified
    if unified and max(unified.values()) > 0:
        source, limits = HugepageSource.UNIFIED, unified
    elif container.hugepage_limits is None:
        source, limits = HugepageSource.POD, pod.hugepage_limits
    else:
        source, limits = HugepageSource.CONTAINER, container.hugepage_limits
    return source, _nonzero(limits)


def _nonzero(limits: Mapping[int, int]) -> Mapping[int, int]:
    """Return the limits that are not 0, by page size, smallest first."""
    if not limits:
        return limits
    return {size: limit for size, limit in sorted(limits.items()) if limit > 0}


def _is_pods_sum(pod: PodSandbox, container: Container, source: HugepageSource) -> bool:
    """Return whether `unified` keys are the pod's sum, which each of its containers was given."""
    if source is not HugepageSource.UNIFIED or container.hugepage_limits is not None:
        return False
    return _nonzero(pod.hugepage_limits) == _nonzero(container.hugepages_unified)
