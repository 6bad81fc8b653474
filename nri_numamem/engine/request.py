"""What a container asks for, made of what the runtime shows.

CRI carries no requests, but a Guaranteed container's request is its limit. Memory: the
container's own limit. Hugepages: the container's own limits where they are shown; else the pod
cgroup's, which is the sum of the pod and cannot be told apart, so the pod's first container
asks for all that nobody in the pod holds yet, and every container of the pod may use the sum.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from nri_numamem.engine.events import Container, PodSandbox
from nri_numamem.memorymanager import Block, hugepages_resource
from nri_numamem.values import valueclass

MEMORY = "memory"


class HugepageSource(StrEnum):
    """Where a container's hugepage request was read."""

    NONE = "none"
    CONTAINER = "container"
    """The container's hugepage limits."""
    UNIFIED = "unified"
    """Its `unified` keys: somebody set them already."""
    POD = "pod"
    """The pod's cgroup: a sum over its containers."""


@valueclass(frozen=True, slots=True)
class Request:
    """A container's request, and the hugepage limits that go with it."""

    resources: Mapping[str, int]
    """Resource name ("memory", "hugepages-2Mi") -> bytes; `memory` first, then by page size."""
    hugepage_source: HugepageSource = HugepageSource.NONE
    hugepage_limits: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> the limit that the container's cgroup shall have; none that is 0."""


def request_of(
    pod: PodSandbox, container: Container, held_by_others: Mapping[str, int]
) -> Request | None:
    """Return what `container` asks for, or None when its memory request cannot be known.

    `held_by_others` is what the pod's other live containers hold, by resource name, in bytes; it
    counts only where hugepages are known as the pod's sum.
    """
    if not container.memory_limit_bytes:
        return None
    resources = {MEMORY: container.memory_limit_bytes}
    source, limits = _hugepages(pod, container)
    if not limits:
        return Request(resources)
    is_sum = source is HugepageSource.POD or _is_answered_sum(pod, container, source)
    for size_bytes, limit_bytes in limits.items():
        name = hugepages_resource(size_bytes)
        taken = held_by_others.get(name, 0) if is_sum else 0
        if limit_bytes > taken:
            resources[name] = limit_bytes - taken
    return Request(resources, source, limits)


def request_of_pod(pod: PodSandbox) -> Mapping[str, int] | None:
    """Return what a pod asks for as a whole, by resource name, or None when nobody says."""
    if not pod.memory_limit_bytes:
        return None
    limits = _given(pod.hugepage_limits)
    pages = {hugepages_resource(size): limit for size, limit in limits.items()}
    return {MEMORY: pod.memory_limit_bytes, **pages}


def _hugepages(pod: PodSandbox, container: Container) -> tuple[HugepageSource, Mapping[int, int]]:
    """Return the limits that are not 0, and where they stand; of none the source says nothing."""
    # An own answer comes back as unified keys, so these are looked at first.
    if limits := _given(container.hugepages_unified):
        return HugepageSource.UNIFIED, limits
    if container.hugepage_limits is None:
        return HugepageSource.POD, _given(pod.hugepage_limits)
    return HugepageSource.CONTAINER, _given(container.hugepage_limits)


def _given(limits: Mapping[int, int]) -> Mapping[int, int]:
    """Return the limits that are not 0, by page size, smallest first."""
    if not limits:
        return limits
    return {size: limit for size, limit in sorted(limits.items()) if limit > 0}


def _is_answered_sum(pod: PodSandbox, container: Container, source: HugepageSource) -> bool:
    """Tell whether `unified` keys are the pod's sum, which each of its containers was answered."""
    if source is not HugepageSource.UNIFIED or container.hugepage_limits is not None:
        return False
    return _given(pod.hugepage_limits) == _given(container.hugepages_unified)


def held(blocks_by_container: Mapping[str, tuple[Block, ...]]) -> dict[str, int]:
    """Sum the blocks of several containers by resource name, in bytes."""
    sums: dict[str, int] = {}
    for blocks in blocks_by_container.values():
        for block in blocks:
            sums[block.type] = sums.get(block.type, 0) + block.size
    return sums
