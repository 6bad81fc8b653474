"""What the decoder of a request reads from the host, because the runtime does not report it.

A pod's hugepage limits, and its memory limit after a resize, are only in its cgroup; a runtime may
report another `cpuset.mems` or memory limit at Synchronize than the cgroup has; the NUMA nodes of
devices and network interfaces are in sysfs; the state of the kernel's hugepage pools decides
whether pages that the accounting calls free exist; whether memory policies can be set depends on
the OCI runtime. A file that cannot be read is logged, and the request is served without it.

What only the setting of a feature needs is loaded with that setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.jobs import Jobs
from nri_numamem.daemon.machine_monitor import MachineMonitor
from nri_numamem.daemon.network_hints import NamespaceAccess, NetworkHints
from nri_numamem.engine.core.context import is_burstable, qos_of_cgroup_parent
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.facts import NetworkRequest, PolicySupport
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.cpu_following.shared_cpus import may_follow
from nri_numamem.engine.records.machine import MachineUnreadable
from nri_numamem.engine.records.pods import PodCgroupUnreadable
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import ContainerCgroupUnreadable
from nri_numamem.host.cgroups import (
    container_directory,
    pod_hugepage_limits,
    pod_memory_limit,
    set_mems,
)
from nri_numamem.host.containers import memory_limit, process_start
from nri_numamem.host.devices import device_numa_nodes
from nri_numamem.host.numa_stat import container_use
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_available
from nri_numamem.memorymanager import PoolUse, QosClass
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.host_facts import Device
from nri_numamem.numa import NodeSet
from nri_numamem.numa.partitions import label_keys_of

if TYPE_CHECKING:
    from nri_numamem.daemon.exchanges import Exchanges
    from nri_numamem.daemon.host_cpus import HostCpusMonitor
    from nri_numamem.daemon.memory_policy_support import MemoryPolicySupport


class HostReader:
    """Reads the host for requests, as nri.host_facts.HostFacts. `emit` logs a record."""

    def __init__(
        self,
        roots: HostRoots,
        get_engine: Callable[[], Engine | None],
        machine_monitor: MachineMonitor,
        emit: Callable[[Record], None],
        namespaces: NamespaceAccess,
    ) -> None:
        self._roots = roots
        self._get_engine = get_engine
        self._machine_monitor = machine_monitor
        self._emit = emit
        self._configuration: Configuration | None = None
        self._policy_support: MemoryPolicySupport | None = None
        """None without the setting memoryPolicy."""
        self._host_cpus: HostCpusMonitor | None = None
        """None without the setting cpuFollowsMemory."""
        self.network_hints = NetworkHints(roots, get_engine, emit, namespaces)
        self.pins_burstable = self.sets_oom_score_adj = False
        self.reads_networks = self.sets_policies = False
        self.label_keys: tuple[str, ...] | None = ()
        self.hook_program = ""
        self.exchanges: Exchanges | None = None
        """None before the start."""

    def close(self) -> None:
        """End what reads in the background."""
        self.network_hints.close()
        if self.exchanges is not None:
            self.exchanges.close()

    def started(self, settings: Settings) -> None:
        """Begin with these settings."""
        if settings.memory_policies.is_active and self._policy_support is None:
            from nri_numamem.daemon.memory_policy_support import (  # noqa: PLC0415 - see above
                MemoryPolicySupport,
            )

            self._policy_support = MemoryPolicySupport(self._roots, settings.memory_policies)
            self.sets_policies = True
            if self._configuration is not None:
                self._policy_support.configured(self._configuration)
        self.network_hints.started(settings)
        self.reads_networks = self.network_hints.is_active
        self.pins_burstable = settings.burstable_pods.is_active
        # A selector of an earmark can name any label.
        self.label_keys = None if settings.earmarks.enabled else label_keys_of(settings.partitions)
        self.hook_program = settings.claims.hook_program if settings.claims.enabled else ""

    def configured(self, configuration: Configuration) -> None:
        """Take note of the runtime."""
        self._configuration = configuration
        if self._policy_support is not None:
            self._policy_support.configured(configuration)
        self.sets_oom_score_adj = configuration.supports_oom_score_adj

    def watch_cpus(self, jobs: Jobs) -> Iterable[Record]:
        """Read the host's CPUs now and with these jobs, if the settings need them.

        Return the records.
        """
        engine = self._get_engine()
        if engine is None or not may_follow(engine.context.policy):
            return ()
        if self._host_cpus is None:
            from nri_numamem.daemon.host_cpus import HostCpusMonitor  # noqa: PLC0415 - see above

            self._host_cpus = HostCpusMonitor(self._roots, self._get_engine)
            jobs.add(self._host_cpus)
        return self._host_cpus.read()

    def hugepage_limits(self, cgroup_parent: str) -> Mapping[int, int]:
        """Return the hugepage limits of a pod's cgroup: page size in bytes -> bytes.

        Empty for a pod that is neither Guaranteed nor, with burstablePods, Burstable.
        """
        if qos_of_cgroup_parent(cgroup_parent) is not QosClass.GUARANTEED and not (
            self.pins_burstable and is_burstable(cgroup_parent)
        ):
            return {}
        try:
            return pod_hugepage_limits(self._roots.cgroup, cgroup_parent)
        except MachineError as error:
            self._emit(PodCgroupUnreadable(error=str(error)))
            return {}

    def memory_limit(self, cgroup_parent: str) -> int | None:
        """Return the memory limit in bytes of a pod's cgroup; None if it has none or is unmanaged.

        The limit of a pod that is not Guaranteed has no effect.
        """
        if qos_of_cgroup_parent(cgroup_parent) is not QosClass.GUARANTEED:
            return None
        try:
            return pod_memory_limit(self._roots.cgroup, cgroup_parent)
        except MachineError as error:
            self._emit(PodCgroupUnreadable(error=str(error)))
            return None

    def read_cpuset(self, container: Container, cgroup_parent: str, cgroups_path: str) -> Container:
        """Return the container with what its cgroup shows; as it is if the pod is not managed."""
        engine = self._get_engine()
        if engine is None or not engine.context.may_manage(cgroup_parent):
            return container
        try:
            directory = container_directory(self._roots.cgroup, cgroups_path)
            mems = set_mems(directory) if directory else None
            if mems is None:
                return container
            if mems and str(mems) == container.cpuset_mems:
                return replace(container, cgroup_mems=mems)
            use = container_use(self._roots.cgroup, Path(directory))
        except MachineError as error:
            self._emit(ContainerCgroupUnreadable(error=str(error)))
            return container
        return replace(container, cgroup_mems=mems, cgroup_use=use)

    def container_memory(self, cgroups_path: str) -> int | None:
        """Return the memory limit in bytes of a container's cgroup; None if it has none."""
        try:
            directory = container_directory(self._roots.cgroup, cgroups_path)
            return memory_limit(self._roots.cgroup, Path(directory)) if directory else None
        except MachineError as error:
            self._emit(ContainerCgroupUnreadable(error=str(error)))
            return None

    def device_nodes(self, cgroup_parent: str, devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        """Return the NUMA nodes of the devices that have any; none if they cannot matter."""
        engine = self._get_engine()
        if engine is None or not engine.context.wants_devices(cgroup_parent):
            return ()
        sysfs, proc = self._roots.sysfs, self._roots.proc
        found = (device_numa_nodes(sysfs, d.type, d.major, d.minor, d.path, proc) for d in devices)
        return tuple(nodes for nodes in found if nodes is not None)

    def pool_use(self, pod: PodSandbox, container: Container | None) -> PoolUse | None:
        """Return the kernel's hugepage pools for a container or a whole pod; None if not needed."""
        return self._machine_monitor.pool_use(self._get_engine(), pod, container)

    def process_start(self, pid: int) -> int:
        """Return when a process started, in clock ticks since boot; 0 if unknown."""
        return process_start(self._roots.proc, pid)

    def policy_support(self, handler: str) -> PolicySupport | None:
        """Return what is supported for a pod with this runtime handler; None without policies."""
        return None if self._policy_support is None else self._policy_support.of_handler(handler)

    def available_memory(self, pod: PodSandbox, container: Container) -> Mapping[int, int] | None:
        """Return NUMA node id -> free or reclaimable bytes, if the container may be pinned there.

        None if the setting burstablePods does not require it, or if it cannot be read.
        """
        engine = self._get_engine()
        if engine is None or container.cpuset_mems:
            return None
        context = engine.context
        is_required = context.policy.burstable_pods.require_free_memory
        if not is_required or context.unmanaged_reason(pod, container) is not None:
            return None
        try:
            return read_available(self._roots.sysfs)
        except MachineError as error:
            self._emit(MachineUnreadable(error=str(error)))
            return None

    def prepared_claims(self) -> tuple[Claim, ...] | None:
        """Return the resource claims that are charged and prepared; None if unknown."""
        return None if self.exchanges is None else self.exchanges.prepared_claims()

    def sandbox_started(self, pod: PodSandbox, path: str) -> None:
        """Read the network namespace at `path` in the background; "" for the host's."""
        self.network_hints.sandbox_started(pod, path)

    def sandbox_ended(self, sandbox_id: str) -> None:
        """Drop what is known of the sandbox's network namespace."""
        self.network_hints.sandbox_ended(sandbox_id)

    def network(
        self, pod: PodSandbox, host_names: tuple[str, ...], path: str
    ) -> NetworkRequest | None:
        """Return the interfaces of a new container; None if they have no effect."""
        return self.network_hints.read(pod, host_names, path)
