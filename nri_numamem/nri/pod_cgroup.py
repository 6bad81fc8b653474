"""The limits of a pod's cgroup, which no message has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PodHugepages = Callable[[str], Mapping[int, int]]
"""cgroup_parent -> {page size in bytes: limit in bytes} of the pod's cgroup; never raises."""

PodMemory = Callable[[str], int | None]
"""cgroup_parent -> memory limit in bytes of the pod's cgroup, None for no limit; never raises."""


def no_pod_memory(_cgroup_parent: str) -> None:
    """Return no limit; for a host without cgroups."""
    return


@dataclass(frozen=True, slots=True)
class PodCgroup:
    """Limits of a pod's cgroup in bytes."""

    hugepages: Mapping[int, int] = field(default_factory=dict)
    """Page size -> limit."""
    memory: int = 0
    """Less the overhead of the pod's RuntimeClass; 0 for no limit."""


NO_LIMITS = PodCgroup()


def read_pod_cgroup(
    cgroup_parent: str, overhead_bytes: int, pod_hugepages: PodHugepages, pod_memory: PodMemory
) -> PodCgroup:
    """Return the present limits of a pod's cgroup, without the overhead of the RuntimeClass."""
    hugepages = pod_hugepages(cgroup_parent)
    memory_bytes = pod_memory(cgroup_parent)
    if memory_bytes is None:
        return PodCgroup(hugepages)
    # Of the pod's figures only the cgroup's contains the overhead. Source: kubelet kuberuntime,
    # calculateSandboxResources (ExcludeOverhead).
    return PodCgroup(hugepages, max(0, memory_bytes - overhead_bytes))
