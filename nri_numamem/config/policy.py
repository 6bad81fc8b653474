"""The engine's policy and context, made from the settings."""

from nri_numamem.config.errors import UsageError
from nri_numamem.config.features import HINTS_OFF
from nri_numamem.config.settings import Settings
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import HostReservation, ReservedMemoryError
from nri_numamem.numa.idset import CpuSet
from nri_numamem.numa.machine import CpuFollowing, Machine
from nri_numamem.numa.memory_nodes import MemoryNodesError
from nri_numamem.numa.partitions import PartitionsError
from nri_numamem.numa.preferences import Strategy


def policy_of(settings: Settings) -> Policy:
    """Return the part of the settings that decisions depend on.

    Raises UsageError for reservedSystemCPUs that are needed and invalid.
    """
    cpu_following = CpuFollowing(settings.cpu_follows_memory)
    return Policy(
        memory_manager_policy=settings.memory_manager_policy,
        topology_manager_policy=settings.topology_manager_policy,
        topology_manager_scope=settings.topology_manager_scope,
        prefer_closest_numa_nodes=settings.prefer_closest_numa_nodes,
        reserved_memory=settings.reserved_memory,
        host_reservation=HostReservation(
            settings.kube_reserved, settings.system_reserved, settings.eviction_hard
        ),
        memory_nodes=settings.memory_nodes,
        placement_strategy=Strategy(settings.placement_strategy),
        pod_strategies=settings.pod_strategies,
        partitions=settings.partitions,
        cpu_following=cpu_following,
        reserved_cpus=_reserved_cpus(settings)
        if cpu_following is not CpuFollowing.OFF
        else CpuSet(),
        memory_policies=settings.memory_policies,
        network_hints=settings.network_hints != HINTS_OFF,
        burstable_pods=settings.burstable_pods,
        claims=settings.claims.enabled,
        claims_share_percent=settings.claims.share_percent if settings.claims.enabled else 0,
        earmarks_percent=settings.earmarks.max_percent if settings.earmarks.enabled else 0,
        when_unsatisfiable=settings.when_unsatisfiable,
        notes=settings.notes,
        is_managed_twice=settings.is_managed_twice,
        has_static_cpus=settings.has_static_cpus,
    )


def _reserved_cpus(settings: Settings) -> CpuSet:
    try:
        return CpuSet.parse(settings.kubelet_reserved_cpus)
    except ValueError as error:
        place = f"{settings.kubelet_config_file}: reservedSystemCPUs"
        raise UsageError(f"{place}: {error}; correct the list of CPUs") from error


def context_of(settings: Settings, machine: Machine) -> Context:
    """Return the context of an engine.

    Raises UsageError with the place of the setting if the machine lacks what is reserved, or if the
    settings leave no node to a kind of pods.
    """
    try:
        return new_context(machine, policy_of(settings))
    except (MemoryNodesError, PartitionsError, ReservedMemoryError) as error:
        place = settings.place_of(error.path)
        raise UsageError(f"{place}: {error}" if place else str(error)) from error
