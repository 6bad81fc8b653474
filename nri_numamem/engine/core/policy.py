"""The policy that the engine decides by: a value that ``config`` makes from the settings.

Names and values are those of the kubelet's and the plugin's configuration keys.
"""

from dataclasses import dataclass, field

from nri_numamem.memorymanager import HostReservation, Reservation
from nri_numamem.memorymanager.burstable import BurstablePods
from nri_numamem.numa import (
    CpuFollowing,
    CpuSet,
    MemoryNodes,
    MemoryPolicies,
    Partition,
    PodStrategies,
    Strategy,
)

STATIC = "Static"
REJECT = "Reject"
POD_SCOPE = "pod"


@dataclass(frozen=True, slots=True)
class Policy:
    """All configuration that a decision depends on, with the defaults of the plugin."""

    memory_manager_policy: str = STATIC
    """"Static" or "None"; with "None" no container is managed."""
    topology_manager_policy: str = "best-effort"
    """"none", "best-effort", "restricted" or "single-numa-node"."""
    topology_manager_scope: str = "container"
    """"container" or "pod"."""
    prefer_closest_numa_nodes: bool = True
    reserved_memory: tuple[Reservation, ...] = ()
    """Memory of NUMA nodes that pods do not get; empty: derived from `host_reservation`."""
    host_reservation: HostReservation = field(default_factory=HostReservation)
    """kubeReserved, systemReserved and evictionHard."""
    memory_nodes: MemoryNodes = field(default_factory=MemoryNodes)
    """What nodes without CPUs are for, and which nodes have another class than the kernel shows."""
    placement_strategy: Strategy = Strategy.LOWEST_IDS
    """Which of equally close nodes wins."""
    pod_strategies: PodStrategies = field(default_factory=PodStrategies)
    """Which strategies the annotations of pods may choose instead."""
    cpu_following: CpuFollowing = CpuFollowing.OFF
    """Whether pinned containers get the CPUs of their nodes."""
    reserved_cpus: CpuSet = field(default_factory=CpuSet)
    """The kubelet's reservedSystemCPUs, which containers do not get; for `cpu_following`."""
    memory_policies: MemoryPolicies = field(default_factory=MemoryPolicies)
    """Which memory policies containers may get."""
    network_hints: bool = False
    """Whether NUMA nodes of network interfaces are hints."""
    burstable_pods: BurstablePods = field(default_factory=BurstablePods)
    """Which containers of Burstable pods are managed."""
    partitions: tuple[Partition, ...] = ()
    """NUMA nodes that are set apart for a kind of pods."""
    claims: bool = False
    """Whether resource claims choose the NUMA nodes of the containers that use them."""
    claims_share_percent: int = 0
    """Percentage of each node's memory and hugepages for claims only; 0 without a share."""
    earmarks_percent: int = 0
    """How much of the host's allocatable memory can be set aside; 0 without earmarks."""
    when_unsatisfiable: str = REJECT
    """"Reject" or "RunUnpinned"."""
    notes: tuple[str, ...] = ()
    """Remarks on settings, for the record `machine`."""
    is_managed_twice: bool = False
    """The kubelet's own memory manager is active as well."""
    has_static_cpus: bool = False
    """The kubelet assigns exclusive CPUs, before the plugin chooses memory."""

    @property
    def is_static(self) -> bool:
        """Return whether memory is managed at all."""
        return self.memory_manager_policy == STATIC

    @property
    def rejects(self) -> bool:
        """Return whether a container that cannot be placed is refused."""
        return self.when_unsatisfiable == REJECT

    @property
    def is_pod_scope(self) -> bool:
        """Return whether the Topology Manager's scope is the pod."""
        return self.topology_manager_scope == POD_SCOPE
