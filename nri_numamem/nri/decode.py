"""Decodes the runtime's messages to the engine's events.

The decoder reads the fields that a decision needs and converts their units: zero and absent amounts
become None, page sizes become bytes. Some facts are in no message; the caller provides functions
that read them from the host:

- the hugepage limits of the pod's cgroup, read once per sandbox, because the kubelet sets them
  before the sandbox starts;
- the memory limit of the pod's cgroup, read with them, and again when a container or the pod is
  resized: the runtime shows the pod's limit at the sandbox's creation;
- the NUMA nodes of devices, read at the creation of a container with devices, and those of network
  interfaces if networkHints is on;
- `cpuset.mems` of a container's cgroup, read at Synchronize;
- the kernel's hugepage pools, read at the start of a sandbox and the creation of a container;
- the age of a container's process, read at Synchronize where the container's age has an effect and
  the runtime does not send it.

Sources: the field tables of NRI's api.proto; containerd pkg/cri/nri and CRI-O internal/nri for
what the runtimes fill in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from nri_numamem.engine.core import events
from nri_numamem.engine.core.annotations import own_annotations
from nri_numamem.engine.core.context import is_burstable
from nri_numamem.memorymanager import PoolUse
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.burstable import BurstableReader, reserved_bytes, with_facts
from nri_numamem.nri.container_cgroup import (
    ContainerMemory,
    CpusetReader,
    no_container_memory,
    no_cpuset,
    with_present_limit,
)
from nri_numamem.nri.devices import DeviceNodes, devices_of, is_privileged, no_device_nodes
from nri_numamem.nri.limits import (
    cpu_limit_millicores,
    hugepage_limits,
    memory_limit,
    unified_hugepages,
)
from nri_numamem.nri.network import NetworkReader, NoNetwork, namespace_path, network_request
from nri_numamem.nri.pod_cgroup import (
    NO_LIMITS,
    PodCgroup,
    PodHugepages,
    PodMemory,
    no_pod_memory,
    read_pod_cgroup,
)
from nri_numamem.numa import NodeSet

ProcessStart: TypeAlias = Callable[[int], int]
"""pid -> the start of the process in clock ticks since boot; 0 when unknown; never raises."""


def _no_process_start(_pid: int) -> int:
    return 0


PoolUseReader: TypeAlias = Callable[[events.PodSandbox, events.Container | None], PoolUse | None]
"""(pod, container or None for the whole pod) -> the kernel's hugepage pools; None when they are
irrelevant or unknown; never raises."""


def _no_pool_use(_pod: events.PodSandbox, _container: events.Container | None) -> None:
    return None


# The capacity of the cache of cgroup limits, in sandboxes. It is far above the pods of a host (the
# kubelet's default is 110); a full cache drops its oldest entry.
_SANDBOX_CACHE_SIZE = 4096


PolicySupportReader: TypeAlias = Callable[[str], events.PolicySupport | None]
"""Runtime handler -> whether memory policies can be set; None where the setting memoryPolicy allows
none; never raises."""


class _HasPodAndContainer(Protocol):
    @property
    def pod(self) -> api.PodSandbox: ...
    @property
    def container(self) -> api.Container: ...


@dataclass(frozen=True, slots=True)
class _CachedPod:
    """What is read once per sandbox; the runtime's messages show the same annotations again."""

    limits: PodCgroup = NO_LIMITS
    annotations: Mapping[str, str] = field(default_factory=dict)


_UNKNOWN_POD = _CachedPod()


class Decoder:
    """Decodes messages; caches the limits of pods' cgroups, and the pods' annotations."""

    def __init__(
        self,
        pod_hugepages: PodHugepages,
        device_nodes: DeviceNodes = no_device_nodes,
        read_cpuset: CpusetReader = no_cpuset,
        pool_use: PoolUseReader = _no_pool_use,
        process_start: ProcessStart = _no_process_start,
        pod_memory: PodMemory = no_pod_memory,
        policy_support: PolicySupportReader | None = None,
        container_memory: ContainerMemory = no_container_memory,
        network: NetworkReader | None = None,
        burstable: BurstableReader | None = None,
    ) -> None:
        self.keeps_updates = True
        """Whether the runtime stores updates across its restarts; see events.Synchronize."""
        self._pod_hugepages = pod_hugepages
        self._device_nodes = device_nodes
        self._read_cpuset = read_cpuset
        self._pool_use = pool_use
        self._process_start = process_start
        self._pod_memory = pod_memory
        self._policy_support = policy_support
        self._container_memory = container_memory
        self._network = network or NoNetwork()
        self._burstable = burstable or BurstableReader()
        self._cached: dict[str, _CachedPod] = {}
        self._resized: dict[str, int] = {}
        """Sandbox id -> the pod's memory limit in bytes by its last UpdatePodSandbox."""

    def forget_sandboxes(self) -> None:
        """Clear the cache, so that a new Synchronize reads all cgroups again."""
        self._cached.clear()

    def sandbox(self, pod: api.PodSandbox) -> events.PodSandbox:
        """Decode a pod of a Synchronize."""
        return self._pod(pod)

    def running_container(
        self, container: api.Container, cgroup_parent: str | None
    ) -> events.Container:
        """Decode a container of a Synchronize; read its cgroup if `cgroup_parent` is known."""
        decoded = _container(container)
        if cgroup_parent is None or decoded.ended:
            return decoded
        if self._burstable.is_active and is_burstable(cgroup_parent):
            decoded = with_facts(decoded, container)
        limits = self._cached.get(decoded.sandbox_id, _UNKNOWN_POD).limits
        if decoded.hugepage_limits is None and limits.hugepages:
            # Runtimes send `created_at` since NRI 0.10.
            order = container.created_at or self._process_start(container.pid)
            decoded = replace(decoded, creation_order=order)
        return self.with_cpuset(decoded, cgroup_parent, container.linux.cgroups_path)

    def with_cpuset(
        self, container: events.Container, cgroup_parent: str, cgroups_path: str
    ) -> events.Container:
        """Return a decoded container with what its cgroup shows; see CpusetReader.

        A runtime that forgets updates shows the memory limit of before a resize.
        """
        found = self._read_cpuset(container, cgroup_parent, cgroups_path)
        if self.keeps_updates or found.cgroup_mems is None:
            return found
        return with_present_limit(found, self._container_memory(cgroups_path))

    def run_pod_sandbox(self, pod: api.PodSandbox) -> events.RunPodSandbox:
        """Decode the start of a sandbox; read its cgroup again."""
        self._cached.pop(pod.id, None)
        decoded = self._pod(pod)
        return events.RunPodSandbox(decoded, self._pool_use(decoded, None))

    def stop_pod_sandbox(self, pod: api.PodSandbox) -> events.StopPodSandbox:
        """Decode the end of a sandbox without reading its cgroup."""
        if self._network.is_active:
            self._network.sandbox_ended(pod.id)
        return events.StopPodSandbox(self._ended_pod(pod))

    def remove_pod_sandbox(self, pod: api.PodSandbox) -> events.RemovePodSandbox:
        """Decode the removal of a sandbox without reading its cgroup."""
        return events.RemovePodSandbox(self._ended_pod(pod))

    def create_container(self, request: _HasPodAndContainer) -> events.CreateContainer:
        """Decode the creation of a container, with the nodes of its devices and the pools."""
        pod = self._pod(request.pod)
        linux = request.container.linux
        nodes: tuple[NodeSet, ...] = ()
        if linux.devices and not is_privileged(linux.resources):
            nodes = self._device_nodes(pod.cgroup_parent, devices_of(linux.devices))
        container = _container(request.container, nodes)
        if self._burstable.is_active and is_burstable(pod.cgroup_parent):
            container = with_facts(container, request.container)
        pools = self._pool_use(pod, container)
        network = None
        if self._network.is_active:
            network = network_request(self._network, pod, request.pod, linux)
        handler = request.pod.runtime_handler
        support = self._policy_support and self._policy_support(handler)
        text = pod.annotation(events.MEMORY_POLICY, container.name) if pod.annotations else ""
        policy = None
        if text or support is not None:
            policy = events.PolicyRequest(text, handler, support or events.PolicySupport())
        if container.burstable is None:
            return events.CreateContainer(pod, container, pools, policy, network)
        available = self._burstable.available_memory(pod, container)
        sets_score = self._burstable.sets_oom_score_adj
        return events.CreateContainer(pod, container, pools, policy, network, available, sets_score)

    def update_container(self, request: api.UpdateContainerRequest) -> events.UpdateContainer:
        """Decode new resources of a container; zero means unchanged.

        With a new memory limit, read the pod's cgroup again.
        """
        limit_bytes = memory_limit(request.linux_resources)
        if limit_bytes is not None:
            self._cached.pop(request.pod.id, None)
        container, pod = _container(request.container), self._pod(request.pod)
        shares = request.linux_resources.cpu.shares.value or None
        if not (self._burstable.is_active and is_burstable(pod.cgroup_parent)):
            return events.UpdateContainer(pod, container, limit_bytes, shares)
        container = with_facts(container, request.container)
        reserved = reserved_bytes(request.linux_resources)
        return events.UpdateContainer(pod, container, limit_bytes, shares, reserved)

    def update_pod_sandbox(self, request: api.UpdatePodSandboxRequest) -> events.UpdatePodSandbox:
        """Decode new resources of a pod; read its cgroup again.

        The runtime goes on to show the limit of the sandbox's creation.
        """
        pod = request.pod
        limit_bytes = memory_limit(request.linux_resources)
        if limit_bytes is not None:
            if len(self._resized) >= _SANDBOX_CACHE_SIZE:
                del self._resized[next(iter(self._resized))]
            self._resized[pod.id] = limit_bytes
        self._cached.pop(pod.id, None)
        return events.UpdatePodSandbox(self._pod(pod))

    def stop_container(self, request: _HasPodAndContainer) -> events.StopContainer:
        """Decode the end of a container."""
        return events.StopContainer(self._ended_pod(request.pod), _container(request.container))

    def remove_container(self, request: _HasPodAndContainer) -> events.RemoveContainer:
        """Decode the removal of a container."""
        return events.RemoveContainer(self._ended_pod(request.pod), _container(request.container))

    def _pod(self, pod: api.PodSandbox) -> events.PodSandbox:
        cached = self._cached.get(pod.id)
        if cached is None:
            cached = self._read_pod(pod)
            if len(self._cached) >= _SANDBOX_CACHE_SIZE:
                del self._cached[next(iter(self._cached))]
            self._cached[pod.id] = cached
            if self._network.is_active:
                decoded = _pod_with(pod, cached, None)
                self._network.sandbox_started(decoded, namespace_path(pod))
        return _pod_with(pod, cached, self._resized.get(pod.id))

    def _read_pod(self, pod: api.PodSandbox) -> _CachedPod:
        parent, overhead = pod.linux.cgroup_parent, memory_limit(pod.linux.pod_overhead) or 0
        limits = read_pod_cgroup(parent, overhead, self._pod_hugepages, self._pod_memory)
        return _CachedPod(limits, own_annotations(pod.annotations))

    def _ended_pod(self, pod: api.PodSandbox) -> events.PodSandbox:
        return _pod_with(pod, self._cached.get(pod.id, _UNKNOWN_POD), self._resized.get(pod.id))


def _pod_with(
    pod: api.PodSandbox, cached: _CachedPod, resized_bytes: int | None
) -> events.PodSandbox:
    """Return the pod; its memory limit is the larger of the runtime's figure and the cgroup's."""
    linux, limits = pod.linux, cached.limits
    memory_bytes = resized_bytes or memory_limit(linux.pod_resources)
    if limits.memory > (memory_bytes or 0):
        memory_bytes = limits.memory
    return events.PodSandbox(
        sandbox_id=pod.id,
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        cgroup_parent=linux.cgroup_parent,
        memory_limit_bytes=memory_bytes,
        hugepage_limits=limits.hugepages,
        annotations=cached.annotations,
    )


def _container(
    container: api.Container, device_nodes: tuple[NodeSet, ...] = ()
) -> events.Container:
    resources = container.linux.resources
    cpu = resources.cpu
    return events.Container(
        container_id=container.id,
        sandbox_id=container.pod_sandbox_id,
        name=container.name,
        memory_limit_bytes=memory_limit(resources),
        hugepage_limits=hugepage_limits(resources.hugepage_limits),
        hugepages_unified=unified_hugepages(resources.unified),
        cpuset_mems=cpu.mems,
        cpuset_cpus=cpu.cpus,
        cpu_shares=cpu.shares.value or None,
        device_nodes=device_nodes,
        ended=container.state == api.CONTAINER_STOPPED,
        has_devices=bool(container.linux.devices),
        cpu_limit_millicores=cpu_limit_millicores(cpu),
    )
