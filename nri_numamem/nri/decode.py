"""Decodes the runtime's messages to the engine's events.

The decoder reads the fields that a decision needs (``nri.messages``). Some facts are in no message;
an object of the caller reads them from the host (``nri.host_facts``):

- the hugepage limits of the pod's cgroup, read once per sandbox, because the kubelet sets them
  before the sandbox starts;
- the memory limit of the pod's cgroup, read with them, and again when a container or the pod is
  resized: the runtime shows the pod's limit at the sandbox's creation;
- the NUMA nodes of devices, read at the creation of a container with devices, and those of network
  interfaces if networkHints is on;
- `cpuset.mems` of a container's cgroup, read at Synchronize;
- the kernel's hugepage pools, read at the start of a sandbox and the creation of a container with
  hugepages;
- the age of a container's process, read at Synchronize where the container's age has an effect and
  the runtime does not send it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from nri_numamem.engine.core import events
from nri_numamem.engine.core.annotations import MEMORY_POLICY, own_annotations
from nri_numamem.engine.core.context import is_burstable
from nri_numamem.engine.core.facts import PolicyRequest, PolicySupport
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.host_facts import NO_HOST_FACTS, HostFacts, PodCgroup
from nri_numamem.nri.messages import (
    claim_uses,
    container_of,
    devices_of,
    interface_names,
    is_privileged,
    memory_limit,
    namespace_path,
    pod_of,
    reserved_bytes,
    with_burstable_facts,
)
from nri_numamem.numa import NodeSet

# The capacity of the cache of cgroup limits, in sandboxes. It is far above the pods of a host (the
# kubelet's default is 110); a full cache drops its oldest entry.
_SANDBOX_CACHE_SIZE = 4096


# Of arm64; those of x86 have 4 KiB.
_LARGEST_PAGE_BYTES = 64 << 10


class _HasPod(Protocol):
    """A request about a pod; NRI <= 0.11 sends some as StateChange."""

    @property
    def pod(self) -> api.PodSandbox: ...


class _HasPodAndContainer(_HasPod, Protocol):
    @property
    def container(self) -> api.Container: ...


@dataclass(frozen=True, slots=True)
class _CachedPod:
    """What is read once per sandbox; the runtime's messages show annotations and labels again."""

    limits: PodCgroup = field(default_factory=PodCgroup)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of `HostFacts.label_keys`."""


_UNKNOWN_POD = _CachedPod()


class Decoder:
    """Decodes messages; caches the limits of pods' cgroups, annotations and labels."""

    def __init__(self, facts: HostFacts = NO_HOST_FACTS) -> None:
        self.keeps_updates = True
        """Whether the runtime stores updates across its restarts; see events.Synchronize."""
        self._facts = facts
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
        decoded = container_of(container)
        if self._facts.hook_program:
            decoded = self._with_claims(decoded, container)
        if cgroup_parent is None or decoded.ended:
            return decoded
        if self._facts.pins_burstable and is_burstable(cgroup_parent):
            decoded = with_burstable_facts(decoded, container)
        limits = self._cached.get(decoded.sandbox_id, _UNKNOWN_POD).limits
        if decoded.hugepage_limits is None and limits.hugepages:
            # Runtimes send `created_at` since NRI 0.10.
            order = container.created_at or self._facts.process_start(container.pid)
            decoded = replace(decoded, creation_order=order)
        return self.with_cpuset(decoded, cgroup_parent, container.linux.cgroups_path)

    def with_cpuset(
        self, container: events.Container, cgroup_parent: str, cgroups_path: str
    ) -> events.Container:
        """Return a decoded container with what its cgroup shows; see HostFacts.read_cpuset.

        A runtime that forgets updates shows the memory limit of before a resize.
        """
        found = self._facts.read_cpuset(container, cgroup_parent, cgroups_path)
        if self.keeps_updates or found.cgroup_mems is None:
            return found
        return _with_present_limit(found, self._facts.container_memory(cgroups_path))

    def run_pod_sandbox(self, request: _HasPod) -> events.RunPodSandbox:
        """Decode the start of a sandbox; read its cgroup again."""
        self._cached.pop(request.pod.id, None)
        decoded = self._pod(request.pod)
        pools = self._facts.pool_use(decoded, None) if decoded.hugepage_limits else None
        return events.RunPodSandbox(decoded, pools)

    def stop_pod_sandbox(self, request: _HasPod) -> events.StopPodSandbox:
        """Decode the end of a sandbox without reading its cgroup."""
        if self._facts.reads_networks:
            self._facts.sandbox_ended(request.pod.id)
        return events.StopPodSandbox(self._ended_pod(request.pod))

    def remove_pod_sandbox(self, request: _HasPod) -> events.RemovePodSandbox:
        """Decode the removal of a sandbox without reading its cgroup."""
        return events.RemovePodSandbox(self._ended_pod(request.pod))

    def create_container(self, request: _HasPodAndContainer) -> events.CreateContainer:
        """Decode the creation of a container, with the nodes of its devices and the pools."""
        pod = self._pod(request.pod)
        linux = request.container.linux
        nodes: tuple[NodeSet, ...] = ()
        if linux.devices and not is_privileged(linux.resources):
            nodes = self._facts.device_nodes(pod.cgroup_parent, devices_of(linux.devices))
        container = container_of(request.container, nodes)
        if self._facts.hook_program:
            container = self._with_claims(container, request.container)
        if self._facts.pins_burstable and is_burstable(pod.cgroup_parent):
            container = with_burstable_facts(container, request.container)
        pools = None
        if pod.hugepage_limits or container.hugepage_limits or container.hugepages_unified:
            pools = self._facts.pool_use(pod, container)
        network = None
        if self._facts.reads_networks:
            names, path = interface_names(linux), namespace_path(request.pod)
            network = self._facts.network(pod, names, path)
        handler = request.pod.runtime_handler
        support = self._facts.policy_support(handler) if self._facts.sets_policies else None
        text = pod.annotation(MEMORY_POLICY, container.name) if pod.annotations else ""
        policy = None
        if text or support is not None:
            policy = PolicyRequest(text, handler, support or PolicySupport())
        if container.burstable is None:
            return events.CreateContainer(pod, container, pools, policy, network)
        available = self._facts.available_memory(pod, container)
        sets_score = self._facts.sets_oom_score_adj
        return events.CreateContainer(pod, container, pools, policy, network, available, sets_score)

    def update_container(self, request: api.UpdateContainerRequest) -> events.UpdateContainer:
        """Decode new resources of a container; zero means unchanged.

        With a new memory limit, read the pod's cgroup again.
        """
        limit_bytes = memory_limit(request.linux_resources)
        if limit_bytes is not None:
            self._cached.pop(request.pod.id, None)
        container, pod = container_of(request.container), self._pod(request.pod)
        shares = request.linux_resources.cpu.shares.value or None
        if not (self._facts.pins_burstable and is_burstable(pod.cgroup_parent)):
            return events.UpdateContainer(pod, container, limit_bytes, shares)
        container = with_burstable_facts(container, request.container)
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
        return events.StopContainer(self._ended_pod(request.pod), container_of(request.container))

    def remove_container(self, request: _HasPodAndContainer) -> events.RemoveContainer:
        """Decode the removal of a container."""
        return events.RemoveContainer(self._ended_pod(request.pod), container_of(request.container))

    def prepared_claims(self) -> tuple[Claim, ...] | None:
        """Return the resource claims that are prepared; None if unknown."""
        return self._facts.prepared_claims()

    def _with_claims(self, container: events.Container, message: api.Container) -> events.Container:
        claims = claim_uses(message.hooks.create_runtime, self._facts.hook_program)
        return replace(container, claims=claims) if claims else container

    def _pod(self, pod: api.PodSandbox) -> events.PodSandbox:
        cached = self._cached.get(pod.id)
        if cached is None:
            cached = self._read_pod(pod)
            if len(self._cached) >= _SANDBOX_CACHE_SIZE:
                del self._cached[next(iter(self._cached))]
            self._cached[pod.id] = cached
            if self._facts.reads_networks:
                decoded = pod_of(pod, cached.limits, cached.annotations, cached.labels)
                self._facts.sandbox_started(decoded, namespace_path(pod))
        return pod_of(
            pod, cached.limits, cached.annotations, cached.labels, self._resized.get(pod.id)
        )

    def _read_pod(self, pod: api.PodSandbox) -> _CachedPod:
        parent = pod.linux.cgroup_parent
        hugepages, limit_bytes = (
            self._facts.hugepage_limits(parent),
            self._facts.memory_limit(parent),
        )
        # Only the cgroup's limit contains the overhead of the RuntimeClass. Source:
        # kubelet kuberuntime, calculateSandboxResources (ExcludeOverhead).
        overhead_bytes = memory_limit(pod.linux.pod_overhead) or 0
        limits = PodCgroup(hugepages, max(0, (limit_bytes or 0) - overhead_bytes))
        keys = self._facts.label_keys
        wanted = pod.labels if keys is None else (key for key in keys if key in pod.labels)
        labels = {key: pod.labels[key] for key in wanted}
        return _CachedPod(limits, own_annotations(pod.annotations), labels)

    def _ended_pod(self, pod: api.PodSandbox) -> events.PodSandbox:
        cached = self._cached.get(pod.id, _UNKNOWN_POD)
        return pod_of(
            pod, cached.limits, cached.annotations, cached.labels, self._resized.get(pod.id)
        )


def _with_present_limit(container: events.Container, limit_bytes: int | None) -> events.Container:
    """Return the container with the memory limit of its cgroup, if that has one.

    The kernel rounds the limit of a cgroup down to whole pages: then the reported one is exact.
    """
    if limit_bytes is None:
        return container
    reported = container.memory_limit_bytes
    if reported is not None and 0 <= reported - limit_bytes < _LARGEST_PAGE_BYTES:
        return container
    return replace(container, memory_limit_bytes=limit_bytes)
