"""Events: the runtime's requests, and observations of the host, as plain values.

An event contains every fact that its decision needs. Names are NRI's, amounts are bytes, and None
means that the runtime did not send a value. ``nri.decode`` makes events of messages, without any
interpretation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nri_numamem.engine.core.annotations import ANNOTATION_DOMAIN
from nri_numamem.engine.core.facts import NetworkInterface, NetworkRequest, PolicyRequest
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.burstable import BurstableFacts
from nri_numamem.memorymanager.claims import Claim, ClaimUse
from nri_numamem.numa import CpuSet, Machine, NodeSet
from nri_numamem.numa.pages import Pages

if TYPE_CHECKING:  # a state has pods
    from nri_numamem.engine.core.context import Context
    from nri_numamem.engine.core.decision import Decision
    from nri_numamem.engine.core.state import EngineState


@dataclass(frozen=True, slots=True)
class CgroupUse:
    """What a container uses, as far as a change of its `cpuset.mems` matters."""

    effective_mems: NodeSet = field(default_factory=NodeSet)
    """The nodes from which it gets memory; empty if unknown."""
    memory_bytes: Mapping[int, int] | None = None
    """Node id -> bytes; None if unknown."""
    has_hugepages: bool = False


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """A pod as the runtime describes it."""

    sandbox_id: str
    uid: str
    namespace: str
    name: str
    cgroup_parent: str
    """As the kubelet sent it, or only its last part (CRI-O); "" if unknown."""
    memory_limit_bytes: int | None = None
    """The pod's memory limit: the larger of `pod_resources` (the sum of the containers' limits, or
    the pod-level limit) and the present limit of the pod's cgroup, without overhead."""
    hugepage_limits: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> limit in bytes of the pod's cgroup; only sizes with a limit."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The pod's annotations of the domain numamem.io: name -> value, cut to 64 characters."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of the pod's labels that the setting `partitions` selects by."""

    def annotation(self, feature: str, container_name: str) -> str:
        """Return the value of an annotation for a container; "" without one.

        `FEATURE.numamem.io/container.NAME` precedes `FEATURE.numamem.io`, which is for all
        containers of the pod.
        """
        name = f"{feature}{ANNOTATION_DOMAIN}"
        of_container = self.annotations.get(f"{name}/container.{container_name}")
        return of_container or self.annotations.get(name, "")


@dataclass(frozen=True, slots=True)
class Container:
    """A container as the runtime describes it."""

    container_id: str
    sandbox_id: str
    name: str
    memory_limit_bytes: int | None = None
    hugepage_limits: Mapping[int, int] | None = None
    """Page size in bytes -> limit in bytes. None: the runtime hides hugepage limits."""
    hugepages_unified: Mapping[int, int] = field(default_factory=dict)
    """Limits from `unified` keys "hugetlb.<size>.max", of an earlier reply or another plugin."""
    cpuset_mems: str = ""
    cpuset_cpus: str = ""
    cpu_shares: int | None = None
    """1,024 for each requested CPU; None if unknown."""
    device_nodes: tuple[NodeSet, ...] = ()
    """The NUMA nodes of each device whose nodes are known; only in CreateContainer."""
    interfaces: tuple[NetworkInterface, ...] = ()
    """Those with known nodes that count as devices; ``network_hints`` adds them."""
    ended: bool = False
    creation_order: int = 0
    """Smaller for the older of two containers of a pod, 0 if unknown; only in Synchronize, and only
    where hugepages are known as the pod's sum."""
    has_devices: bool = False
    cgroup_mems: NodeSet | None = None
    """`cpuset.mems` of its cgroup: empty if unset, None without a cgroup or if unknown; only in
    Synchronize and ContainersFound."""
    cgroup_use: CgroupUse | None = None
    """Only with `cgroup_mems`, where these are unset or not the runtime's."""
    cpu_limit_millicores: int | None = None
    """By CPU quota and period; None without a quota."""
    burstable: BurstableFacts | None = None
    """Only of a Burstable pod, if the setting burstablePods is active."""
    claims: tuple[ClaimUse, ...] = ()
    """The resource claims that choose its nodes; only if the setting claims is active."""


@dataclass(frozen=True, slots=True)
class Synchronize:
    """Everything that the runtime has, after registration; replaces the earlier state."""

    pods: tuple[PodSandbox, ...]
    containers: tuple[Container, ...]
    keeps_updates: bool = True
    """The runtime stores updates of containers across its restarts; CRI-O does not."""
    claims: tuple[Claim, ...] | None = None
    """The claims that were charged before and are still prepared; None if unknown."""


@dataclass(frozen=True, slots=True)
class ContainersFound:
    """Running containers of Guaranteed pods, found by their cgroups and never reported.

    The name of such a container is its id. A pod that the runtime never reported has its cgroup as
    sandbox id and no name.
    """

    found: tuple[tuple[PodSandbox, Container], ...]


@dataclass(frozen=True, slots=True)
class CpusetRead:
    """The `cpuset.mems` in the cgroup of a running container."""

    container_id: str
    mems: NodeSet
    """Empty if it is unset."""
    use: CgroupUse | None = None
    """None where the value is that of the accounting, or where the use cannot be read."""
    pages: Pages | None = None
    """Where its memory is, for the record; None if unknown."""


@dataclass(frozen=True, slots=True)
class CpusetsRead:
    """The cgroups of some known containers were read."""

    found: tuple[CpusetRead, ...]


@dataclass(frozen=True, slots=True)
class RunPodSandbox:
    """A pod's sandbox was started."""

    pod: PodSandbox
    pool_use: PoolUse | None = None
    """The kernel's hugepage pools at this moment; None if they have no effect."""


@dataclass(frozen=True, slots=True)
class StopPodSandbox:
    """A pod's sandbox was stopped."""

    pod: PodSandbox


@dataclass(frozen=True, slots=True)
class RemovePodSandbox:
    """A pod's sandbox was removed."""

    pod: PodSandbox


@dataclass(frozen=True, slots=True)
class UpdatePodSandbox:
    """A pod was resized. The runtime's later events show the limit of the sandbox's creation."""

    pod: PodSandbox
    """With its new limits."""


@dataclass(frozen=True, slots=True)
class PodCgroupGone:
    """A pod's cgroup existed and is gone: the kubelet removed it, so the pod has ended.

    Runtimes do not report the end of pods that are older than their own process.
    """

    pod: PodSandbox


@dataclass(frozen=True, slots=True)
class CreateContainer:
    """A container is about to be created. The reply may refuse it."""

    pod: PodSandbox
    container: Container
    pool_use: PoolUse | None = None
    """The kernel's hugepage pools now; None if the request has no hugepages, or if unknown."""
    policy_request: PolicyRequest | None = None
    """None if there is neither an annotation nor the setting memoryPolicy."""
    network: NetworkRequest | None = None
    """None if networkHints is off, or if network interfaces have no effect."""
    available_memory: Mapping[int, int] | None = None
    """Node id -> bytes that are free or reclaimable; only of a Burstable container that is managed
    and needs free memory."""
    sets_oom_score_adj: bool = False
    """Whether the runtime can set the container's `oom_score_adj`; only with `burstable`."""


@dataclass(frozen=True, slots=True)
class MachineChanged:
    """The machine has changed."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class HostCpus:
    """What the host shows of its CPUs, besides their NUMA nodes."""

    isolated: CpuSet = field(default_factory=CpuSet)
    """CPUs without load balancing (isolcpus=), on which shared containers must not run."""
    kubelet_policy: str = ""
    """The policy in the state file of the kubelet's CPU manager; "" if unknown."""


@dataclass(frozen=True, slots=True)
class UpdateContainer:
    """A container is about to get other resources. The reply may refuse them."""

    pod: PodSandbox
    container: Container
    """With the resources that it has before."""
    memory_limit_bytes: int | None = None
    """The new limit; None if the update does not change memory."""
    cpu_shares: int | None = None
    """New shares, as in Container; None if the update does not change them."""
    reserved_bytes: int | None = None
    """The new `memory.low` or `memory.min`; None if the update shows neither, or 0."""


@dataclass(frozen=True, slots=True)
class StopContainer:
    """A container has ended."""

    pod: PodSandbox
    container: Container


@dataclass(frozen=True, slots=True)
class RemoveContainer:
    """A container was removed."""

    pod: PodSandbox
    container: Container


class FeatureEvent:
    """Base of the events that only a feature has; no reply waits for them."""

    def decide(self, context: Context, state: EngineState) -> Decision:
        """Return the decision."""
        raise NotImplementedError


Event = (
    Synchronize
    | ContainersFound
    | CpusetsRead
    | RunPodSandbox
    | StopPodSandbox
    | RemovePodSandbox
    | UpdatePodSandbox
    | PodCgroupGone
    | CreateContainer
    | MachineChanged
    | HostCpus
    | UpdateContainer
    | StopContainer
    | RemoveContainer
    | FeatureEvent
)
