"""From the runtime's messages to the engine's events.

Nothing is interpreted here beyond the wire: zero and absent amounts become None, page sizes
become bytes. Of a message of several kB only what a decision needs is read. Four things no message
carries; they come from readers that the caller hands in. The hugepage limits of the pod's cgroup
are asked for once per sandbox, because the kubelet sets them before the sandbox starts. The NUMA
nodes of devices are asked for when a container with devices is created, and those of a
container's cgroup at Synchronize.
The kernel's hugepage figures go with a pod or container that is to be placed.

Sources: the field tables of NRI's api.proto; containerd pkg/cri/nri and CRI-O internal/nri for
what the runtimes fill in.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol, TypeAlias

from nri_numamem.engine import events
from nri_numamem.memorymanager import NodeSet, PoolUse, parse_page_size
from nri_numamem.nri import plugin_pb2 as api
from nri_numamem.values import valueclass

PodHugepages = Callable[[str], Mapping[int, int]]
"""cgroup_parent -> {page size in bytes: limit in bytes} of the pod's cgroup; never raises."""


@valueclass(frozen=True, slots=True)
class Device:
    """A device node that a container gets."""

    type: str
    """"c", "u", "b" or "p", as in mknod(1)."""
    major: int
    minor: int
    path: str
    """Its name in the container."""


DeviceNodes: TypeAlias = Callable[[str, Iterable[Device]], tuple[NodeSet, ...]]
"""(cgroup_parent of the pod, devices) -> the NUMA nodes of each device that has known ones; never
raises. Devices are made when they are asked for: not to look at them costs nothing."""


def _no_device_nodes(_cgroup_parent: str, _devices: Iterable[Device]) -> tuple[NodeSet, ...]:
    return ()


ContainerMems: TypeAlias = Callable[[str, str], NodeSet]
"""(cgroup_parent of the pod, cgroups_path of the container) -> `cpuset.mems` of its cgroup; empty
when unset, unknown or of no use; never raises."""


def _no_container_mems(_cgroup_parent: str, _cgroups_path: str) -> NodeSet:
    return NodeSet()


PoolUseReader: TypeAlias = Callable[[events.PodSandbox, events.Container | None], PoolUse | None]
"""(pod, container or None for the whole pod) -> the kernel's hugepage figures; None when they
cannot matter, or are unknown; never raises."""


def _no_pool_use(_pod: events.PodSandbox, _container: events.Container | None) -> None:
    return None


# More than any container is given for its own use; a look at one takes some 50 µs.
_DEVICES_LIMIT = 64

# Sandboxes whose cgroups are remembered. Far more than a host runs (the kubelet's default is 110
# pods); past it the oldest is read again when needed.
_SANDBOXES_KEPT = 4096

# How runc and crun spell the files of the hugetlb controller of cgroup v2.
_UNIFIED_PREFIX, _UNIFIED_SUFFIX = "hugetlb.", ".max"


class _HasPodAndContainer(Protocol):
    @property
    def pod(self) -> api.PodSandbox: ...
    @property
    def container(self) -> api.Container: ...


class Decoder:
    """Makes events; remembers the hugepage limits of the pods that it has seen."""

    def __init__(
        self,
        pod_hugepages: PodHugepages,
        device_nodes: DeviceNodes = _no_device_nodes,
        container_mems: ContainerMems = _no_container_mems,
        pool_use: PoolUseReader = _no_pool_use,
    ) -> None:
        self._pod_hugepages = pod_hugepages
        self._device_nodes = device_nodes
        self._container_mems = container_mems
        self._pool_use = pool_use
        self._limits: dict[str, Mapping[int, int]] = {}

    def forget_sandboxes(self) -> None:
        """Read every pod's cgroup anew: all that the runtime has is going to be told."""
        self._limits.clear()

    def sandbox(self, pod: api.PodSandbox) -> events.PodSandbox:
        """Decode a pod of a Synchronize."""
        return self._pod(pod)

    def running_container(
        self, container: api.Container, cgroup_parent: str | None
    ) -> events.Container:
        """Decode a container of a Synchronize; its cgroup is looked at if its pod's is known."""
        decoded = _container(container)
        if cgroup_parent is None or decoded.ended:
            return decoded
        nodes = self.container_mems(cgroup_parent, container.linux.cgroups_path)
        return replace(decoded, cgroup_mems=nodes) if nodes else decoded

    def container_mems(self, cgroup_parent: str, cgroups_path: str) -> NodeSet:
        """Return `cpuset.mems` of a container's cgroup; see ContainerMems."""
        return self._container_mems(cgroup_parent, cgroups_path)

    def run_pod_sandbox(self, pod: api.PodSandbox) -> events.RunPodSandbox:
        """Decode the start of a sandbox; its cgroup is read anew."""
        self._limits.pop(pod.id, None)
        decoded = self._pod(pod)
        return events.RunPodSandbox(decoded, self._pool_use(decoded, None))

    def stop_pod_sandbox(self, pod: api.PodSandbox) -> events.StopPodSandbox:
        """Decode the end of a sandbox, without a look at its cgroup."""
        return events.StopPodSandbox(self._ended_pod(pod))

    def remove_pod_sandbox(self, pod: api.PodSandbox) -> events.RemovePodSandbox:
        """Decode the removal of a sandbox, without a look at its cgroup."""
        return events.RemovePodSandbox(self._ended_pod(pod))

    def create_container(self, request: _HasPodAndContainer) -> events.CreateContainer:
        """Decode the request that can be answered with an adjustment or a refusal."""
        pod = self._pod(request.pod)
        linux = request.container.linux
        nodes: tuple[NodeSet, ...] = ()
        if linux.devices and not _is_privileged(linux.resources):
            nodes = self._device_nodes(pod.cgroup_parent, _devices(linux.devices))
        container = _container(request.container, nodes)
        return events.CreateContainer(pod, container, self._pool_use(pod, container))

    def update_container(self, request: api.UpdateContainerRequest) -> events.UpdateContainer:
        """Decode new resources of a container; zeros leave them as they are."""
        return events.UpdateContainer(
            self._pod(request.pod),
            _container(request.container),
            _memory_limit(request.linux_resources),
        )

    def stop_container(self, request: _HasPodAndContainer) -> events.StopContainer:
        """Decode the end of a container."""
        return events.StopContainer(self._ended_pod(request.pod), _container(request.container))

    def remove_container(self, request: _HasPodAndContainer) -> events.RemoveContainer:
        """Decode the removal of a container."""
        return events.RemoveContainer(self._ended_pod(request.pod), _container(request.container))

    def _pod(self, pod: api.PodSandbox) -> events.PodSandbox:
        limits = self._limits.get(pod.id)
        if limits is None:
            limits = self._pod_hugepages(pod.linux.cgroup_parent)
            if len(self._limits) >= _SANDBOXES_KEPT:
                del self._limits[next(iter(self._limits))]
            self._limits[pod.id] = limits
        return _pod_with(pod, limits)

    def _ended_pod(self, pod: api.PodSandbox) -> events.PodSandbox:
        return _pod_with(pod, self._limits.get(pod.id, {}))


def _pod_with(pod: api.PodSandbox, limits: Mapping[int, int]) -> events.PodSandbox:
    linux = pod.linux
    # In the order of the fields, here and below: to name them doubles the time.
    return events.PodSandbox(
        pod.id,
        pod.uid,
        pod.namespace,
        pod.name,
        linux.cgroup_parent,
        _memory_limit(linux.pod_resources),
        limits,
    )


def _container(
    container: api.Container, device_nodes: tuple[NodeSet, ...] = ()
) -> events.Container:
    resources = container.linux.resources
    cpu = resources.cpu
    return events.Container(
        container.id,
        container.pod_sandbox_id,
        container.name,
        _memory_limit(resources),
        _hugepage_limits(resources.hugepage_limits),
        _unified_hugepages(resources.unified),
        cpu.mems,
        cpu.cpus,
        cpu.shares.value or None,
        device_nodes,
        container.state == api.CONTAINER_STOPPED,
    )


def _devices(devices: Iterable[api.LinuxDevice]) -> Iterable[Device]:
    for device in islice(devices, _DEVICES_LIMIT):
        yield Device(device.type, device.major, device.minor, device.path)


def _is_privileged(resources: api.LinuxResources) -> bool:
    # Such a container gets every device of the host, so none in particular. Both runtimes then
    # write one rule that allows everything.
    return any(map(_allows_everything, resources.devices))


def _allows_everything(rule: api.LinuxDeviceCgroup) -> bool:
    is_any = rule.type in ("", "a")
    return rule.allow and is_any and not (rule.HasField("major") or rule.HasField("minor"))


def _memory_limit(resources: api.LinuxResources) -> int | None:
    # Absent, zero (the CRI converters always send the wrapper) and -1 (OCI's "unlimited").
    limit = resources.memory.limit.value
    return limit if limit > 0 else None


def _hugepage_limits(entries: Sequence[api.HugepageLimit]) -> Mapping[int, int] | None:
    # The kubelet names every page size of the host, so an empty list means that they are hidden.
    if not entries:
        return None
    limits: dict[int, int] = {}
    for entry in entries:
        try:
            limits[parse_page_size(entry.page_size)] = entry.limit
        except ValueError:
            continue  # not a page size of Linux; the kernel would refuse it as well
    return limits


def _unified_hugepages(unified: Mapping[str, str]) -> Mapping[int, int]:
    limits: dict[int, int] = {}
    for key, value in unified.items() if unified else ():
        if not (key.startswith(_UNIFIED_PREFIX) and key.endswith(_UNIFIED_SUFFIX)):
            continue
        text = key.removeprefix(_UNIFIED_PREFIX).removesuffix(_UNIFIED_SUFFIX)
        try:
            limits[parse_page_size(text)] = int(value)
        except ValueError:
            continue  # "rsvd" keys and the value "max"
    return limits
