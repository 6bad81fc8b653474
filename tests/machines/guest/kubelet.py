"""Create and remove pods as a kubelet does: cgroup, sandbox, containers.

Requests have the fields that a kubelet (cgroupfs driver, cgroup v2) sets for a pod on the host's
network: the cgroup parent of the QoS class, sums in the sandbox, limits, shares, quota,
oom_score_adj, a hugepage limit for every page size of the host (0 if not requested), labels,
annotations.

This module depends on pods, and not on NUMA nodes or the plugin.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.machines.guest import cgroups
from tests.machines.guest import cri_pb2 as pb
from tests.machines.guest.cri import Client
from tests.machines.guest.image_archive import IMAGE
from tests.machines.guest.waiting import wait_until

SLEEP = ("/bin/busybox", "sleep", "1000000")
_LOGS = Path("/var/log/pods")
_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container of a pod; `hugepages_bytes` has requested sizes only: {"2MB": 4 << 20}.

    `cdi_devices` are names as in "vendor.com/class=name". With `has_seccomp` the container gets the
    runtime's seccomp profile.

    `memory_request_bytes` is the request, None for that of the QoS class. `memory_low_bytes` is the
    request of a container whose kubelet has MemoryQoS with TieredReservation, None without it.
    """

    name: str
    memory_bytes: int
    cpu_milli: int = 1000
    hugepages_bytes: Mapping[str, int] = field(default_factory=dict)
    command: tuple[str, ...] = SLEEP
    cdi_devices: tuple[str, ...] = ()
    has_seccomp: bool = False
    memory_request_bytes: int | None = None
    memory_low_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod to run. `qos`: "guaranteed", "burstable" or "besteffort".

    In a Guaranteed pod requests are the limits; in a Burstable pod, half of them.
    `runtime_handler` is as in a RuntimeClass. With `has_network` the pod has a network namespace of
    its own, which CNI configures, instead of the host's.
    """

    name: str
    containers: tuple[ContainerSpec, ...]
    qos: str = "guaranteed"
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""
    has_network: bool = False
    namespace: str = "e2e"
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Pod:
    """A pod with a sandbox; `container_ids` has the newest container of each name."""

    spec: PodSpec
    uid: str
    parent: str
    config: pb.PodSandboxConfig
    sandbox_id: str = ""
    container_ids: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)

    def container_spec(self, name: str) -> ContainerSpec:
        """Return the spec of the container `name`."""
        return next(each for each in self.spec.containers if each.name == name)


class Kubelet:
    """Runs pods through one CRI client, and lists them for removal."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.pods: list[Pod] = []

    def pod(self, name: str) -> Pod:
        """Return the pod of this name; raise LookupError if there is none."""
        for pod in self.pods:
            if pod.spec.name == name:
                return pod
        raise LookupError(f"there is no pod {name}")

    def run(self, spec: PodSpec) -> Pod:
        """Start a pod with all its containers; raise the runtime's CriError."""
        pod = self.run_sandbox(spec)
        for container in spec.containers:
            self.run_container(pod, container.name)
        return pod

    def run_sandbox(self, spec: PodSpec) -> Pod:
        """Create the pod's cgroup and start its sandbox, without containers."""
        uid = str(uuid.uuid4())
        parent = cgroups.pod_parent(spec.qos, uid)
        pod = Pod(spec, uid, parent, _sandbox_config(spec, uid, parent))
        self.pods.append(pod)
        limits = {size: _hugepages_sum(spec, size) for size in cgroups.hugepage_sizes()}
        cgroups.create_pod(parent, _memory_sum(spec), limits)
        Path(pod.config.log_directory).mkdir(parents=True)
        pod.sandbox_id = self.client.run_pod_sandbox(pod.config, spec.runtime_handler)
        return pod

    def run_container(self, pod: Pod, name: str) -> str:
        """Create and start a container, also again after its end; return its id."""
        container_id = self.create_container(pod, name)
        self.client.start_container(container_id)
        return container_id

    def create_container(self, pod: Pod, name: str) -> str:
        """Create a container without starting it; return its id."""
        attempt = pod.attempts.get(name, 0)
        config = _container_config(pod, pod.container_spec(name), attempt)
        log = Path(pod.config.log_directory, config.log_path)
        log.parent.mkdir(exist_ok=True)
        container_id = self.client.create_container(pod.sandbox_id, config, pod.config)
        pod.container_ids[name], pod.attempts[name] = container_id, attempt + 1
        return container_id

    def resize_cpu(self, pod: Pod, name: str, cpu_milli: int) -> None:
        """Change a container's CPU in place; as in the kubelet, the request has only CPU fields."""
        resources = pb.LinuxContainerResources(
            cpu_period=_PERIOD_US, cpu_quota=cpu_milli * 100, cpu_shares=_shares(cpu_milli)
        )
        self.client.update_container_resources(pod.container_ids[name], resources)

    def resize_memory(
        self, pod: Pod, name: str, memory_bytes: int, memory_low_bytes: int | None = None
    ) -> None:
        """Change a container's memory limit in place; the request has all its resources."""
        others = sum(each.memory_bytes for each in pod.spec.containers if each.name != name)
        cgroups.grow_pod(pod.parent, others + memory_bytes)
        container = replace(
            pod.container_spec(name),
            memory_bytes=memory_bytes,
            memory_low_bytes=memory_low_bytes,
        )
        resources = _container_resources(pod.spec, container)
        self.client.update_container_resources(pod.container_ids[name], resources)

    def wait_for_exit(self, pod: Pod, name: str) -> None:
        """Wait until a container has exited."""

        def has_exited() -> bool:
            states = {each.id: each.state for each in self.client.list_containers()}
            return states[pod.container_ids[name]] == pb.CONTAINER_EXITED

        wait_until(has_exited, f"end of {pod.spec.name}/{name}")

    def remove(self, pod: Pod) -> None:
        """Stop and remove a pod, then its cgroup."""
        self.pods.remove(pod)
        for container in self.client.list_containers():
            if container.pod_sandbox_id == pod.sandbox_id:
                self.client.stop_container(container.id)
                self.client.remove_container(container.id)
        if pod.sandbox_id:
            self.client.stop_pod_sandbox(pod.sandbox_id)
            self.client.remove_pod_sandbox(pod.sandbox_id)
        cgroups.remove_pod(pod.parent)

    def remove_all(self) -> None:
        """Remove all remaining pods in the order of their start."""
        for pod in tuple(self.pods):
            self.remove(pod)


def _memory_sum(spec: PodSpec) -> int:
    return sum(container.memory_bytes for container in spec.containers)


def _hugepages_sum(spec: PodSpec, size: str) -> int:
    return sum(container.hugepages_bytes.get(size, 0) for container in spec.containers)


def _shares(cpu_milli: int) -> int:
    return max(2, cpu_milli * 1024 // 1000)  # the kubelet's floor is 2


def _requested(spec: PodSpec, amount: int) -> int:
    return amount if spec.qos == "guaranteed" else amount // 2


def _memory_request(spec: PodSpec, container: ContainerSpec) -> int:
    if container.memory_low_bytes is not None:
        return container.memory_low_bytes
    if container.memory_request_bytes is not None:
        return container.memory_request_bytes
    return _requested(spec, container.memory_bytes)


def _oom_score_adj(spec: PodSpec, container: ContainerSpec) -> int:
    """Return the value of the kubelet's qos policy."""
    if spec.qos == "guaranteed":
        return -997
    if spec.qos == "besteffort":
        return 1000
    total = Path("/proc/meminfo").read_text(encoding="ascii").split()[1]
    request = _memory_request(spec, container)
    share = 1000 * request // (int(total) * 1024)
    return min(max(1000 - share, 3), 999)


def _network(spec: PodSpec) -> pb.NamespaceOption:
    network = pb.POD if spec.has_network else pb.NODE
    return pb.NamespaceOption(network=network, pid=pb.CONTAINER)


def _sandbox_config(spec: PodSpec, uid: str, parent: str) -> pb.PodSandboxConfig:
    cpu_milli = sum(container.cpu_milli for container in spec.containers)
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=spec.name, uid=uid, namespace=spec.namespace),
        log_directory=str(_LOGS / f"{spec.namespace}_{spec.name}_{uid}"),
        labels=_pod_labels(spec, uid),
        annotations={
            **spec.annotations,
            "kubernetes.io/config.seen": "2026-01-01T00:00:00.000000000Z",
            "kubernetes.io/config.source": "api",
        },
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=parent,
            security_context=pb.LinuxSandboxSecurityContext(namespace_options=_network(spec)),
            overhead=pb.LinuxContainerResources(),
            resources=pb.LinuxContainerResources(
                cpu_period=_PERIOD_US if cpu_milli else 0,
                cpu_quota=cpu_milli * 100,
                cpu_shares=_shares(_requested(spec, cpu_milli)),
                memory_limit_in_bytes=_memory_sum(spec),
            ),
        ),
    )


def _container_config(pod: Pod, container: ContainerSpec, attempt: int) -> pb.ContainerConfig:
    seccomp = pb.SecurityProfile() if container.has_seccomp else None
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=container.name, attempt=attempt),
        image=pb.ImageSpec(image=IMAGE),
        command=container.command,
        labels={**_pod_labels(pod.spec, pod.uid), "io.kubernetes.container.name": container.name},
        annotations={
            "io.kubernetes.container.hash": "5f3759df",
            "io.kubernetes.container.restartCount": str(attempt),
            "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
            "io.kubernetes.container.terminationMessagePolicy": "File",
            "io.kubernetes.pod.terminationGracePeriod": "30",
        },
        log_path=f"{container.name}/{attempt}.log",
        linux=pb.LinuxContainerConfig(
            resources=_container_resources(pod.spec, container),
            security_context=pb.LinuxContainerSecurityContext(
                namespace_options=_network(pod.spec), seccomp=seccomp
            ),
        ),
        CDI_devices=[pb.CDIDevice(name=name) for name in container.cdi_devices],
    )


def _container_resources(spec: PodSpec, container: ContainerSpec) -> pb.LinuxContainerResources:
    hugepages, unified = container.hugepages_bytes, {"memory.oom.group": "1"}
    if container.memory_low_bytes is not None:
        unified["memory.low"] = str(container.memory_low_bytes)
    return pb.LinuxContainerResources(
        cpu_period=_PERIOD_US if container.cpu_milli else 0,
        cpu_quota=container.cpu_milli * 100,
        cpu_shares=_shares(_requested(spec, container.cpu_milli)),
        memory_limit_in_bytes=container.memory_bytes,
        memory_swap_limit_in_bytes=container.memory_bytes,
        oom_score_adj=_oom_score_adj(spec, container),
        hugepage_limits=[
            pb.HugepageLimit(page_size=size, limit=hugepages.get(size, 0))
            for size in cgroups.hugepage_sizes()
        ],
        unified=unified,
    )


def _pod_labels(spec: PodSpec, uid: str) -> dict[str, str]:
    return {
        **spec.labels,
        "io.kubernetes.pod.name": spec.name,
        "io.kubernetes.pod.namespace": spec.namespace,
        "io.kubernetes.pod.uid": uid,
    }
