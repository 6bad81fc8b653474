"""What enters the engine: the runtime's requests as plain values.

An event carries every fact that a decision needs, so that the engine never asks anybody. Names
are NRI's, amounts are bytes, and what the runtime did not say is None. The layer that decodes
messages makes events; it interprets nothing.
"""

from collections.abc import Mapping
from dataclasses import field

from nri_numamem.memorymanager import Machine, NodeSet, PoolUse
from nri_numamem.values import valueclass

_UNSET = NodeSet()


@valueclass(frozen=True, slots=True)
class PodSandbox:
    """A pod as the runtime describes it."""

    sandbox_id: str
    uid: str
    namespace: str
    name: str
    cgroup_parent: str
    """As the kubelet sent it, or only its last part (CRI-O); "" when unknown."""
    memory_limit_bytes: int | None = None
    """Sum of the containers' memory limits, from `pod_resources`."""
    hugepage_limits: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> limit in bytes of the pod's cgroup; sizes without a limit left out."""


@valueclass(frozen=True, slots=True)
class Container:
    """A container as the runtime describes it."""

    container_id: str
    sandbox_id: str
    name: str
    memory_limit_bytes: int | None = None
    hugepage_limits: Mapping[int, int] | None = None
    """Page size in bytes -> limit in bytes. None: the runtime hides hugepage limits."""
    hugepages_unified: Mapping[int, int] = field(default_factory=dict)
    """The same from `unified` keys "hugetlb.<size>.max": an earlier answer, or another plugin's."""
    cpuset_mems: str = ""
    cpuset_cpus: str = ""
    cpu_shares: int | None = None
    """1,024 for each requested CPU; None when unknown."""
    device_nodes: tuple[NodeSet, ...] = ()
    """The NUMA nodes of each device whose nodes are known; told at creation only."""
    ended: bool = False
    cgroup_mems: NodeSet = _UNSET
    """`cpuset.mems` of its cgroup, empty when unset or unknown; told at Synchronize, and for
    containers that were found."""


@valueclass(frozen=True, slots=True)
class Synchronize:
    """Everything that the runtime has, after registration; replaces what was known."""

    pods: tuple[PodSandbox, ...]
    containers: tuple[Container, ...]
    keeps_updates: bool = True
    """The runtime shows what a container was updated to even after a restart; CRI-O does not."""


@valueclass(frozen=True, slots=True)
class ContainersFound:
    """Containers of Guaranteed pods whose cgroups show that they run, though nobody told of them.

    The name is the container's id, and a pod that the runtime did not tell has its cgroup as
    sandbox id and no name.
    """

    found: tuple[tuple[PodSandbox, Container], ...]


@valueclass(frozen=True, slots=True)
class RunPodSandbox:
    """A pod's sandbox was started."""

    pod: PodSandbox
    pool_use: PoolUse | None = None
    """The kernel's hugepage figures at this moment, where they can matter."""


@valueclass(frozen=True, slots=True)
class StopPodSandbox:
    """A pod's sandbox was stopped."""

    pod: PodSandbox


@valueclass(frozen=True, slots=True)
class RemovePodSandbox:
    """A pod's sandbox was removed."""

    pod: PodSandbox


@valueclass(frozen=True, slots=True)
class PodCgroupGone:
    """A pod's cgroup was there and is no more: the kubelet removed it, so the pod has ended.

    Runtimes tell the end of pods only that are not older than their own process.
    """

    pod: PodSandbox


@valueclass(frozen=True, slots=True)
class CreateContainer:
    """A container is about to be created: the one event that can be answered with a refusal."""

    pod: PodSandbox
    container: Container
    pool_use: PoolUse | None = None
    """The kernel's hugepage figures at this moment; None when none are asked for, or unknown."""


@valueclass(frozen=True, slots=True)
class MachineChanged:
    """The machine is not the one any more that the books were made for."""

    machine: Machine


@valueclass(frozen=True, slots=True)
class UpdateContainer:
    """A container is about to get other resources; `container` shows those from before."""

    pod: PodSandbox
    container: Container
    memory_limit_bytes: int | None = None
    """The new limit; None when the update leaves memory as it is."""


@valueclass(frozen=True, slots=True)
class StopContainer:
    """A container has ended."""

    pod: PodSandbox
    container: Container


@valueclass(frozen=True, slots=True)
class RemoveContainer:
    """A container was removed."""

    pod: PodSandbox
    container: Container


Event = (
    Synchronize
    | ContainersFound
    | RunPodSandbox
    | StopPodSandbox
    | RemovePodSandbox
    | PodCgroupGone
    | CreateContainer
    | MachineChanged
    | UpdateContainer
    | StopContainer
    | RemoveContainer
)
