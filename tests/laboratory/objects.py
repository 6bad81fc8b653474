"""Builders of the pods and containers in a runtime's messages.

The messages have the content that the kubelet and containerd write: labels, annotations,
environment, mounts, namespaces. A request has about 6 kB, like real requests. Ids depend only on
names, so that equal calls return equal bytes.

Sources: the kubelet's kuberuntime (labels, annotations, mounts) and cgroup manager (parents);
containerd pkg/cri (annotations, default mounts and capabilities of a container's spec).
"""

import hashlib
import uuid
from collections.abc import Mapping
from functools import cache

from nri_numamem.memorymanager import QosClass
from nri_numamem.numa.quantity import format_page_size
from tests.laboratory import api_pb2 as api

# The kubelet's oom_score_adj by QoS class. The value of Burstable depends on the memory request.
_OOM_SCORE_ADJ = {
    QosClass.GUARANTEED: -997,
    QosClass.BURSTABLE: 992,
    QosClass.BEST_EFFORT: 1000,
    QosClass.UNKNOWN: 0,
}
_QOS_LEVELS = {QosClass.BURSTABLE: "burstable/", QosClass.BEST_EFFORT: "besteffort/"}

# A fixed namespace, so that a pod's uid depends only on its name.
_UID_NAMESPACE = uuid.NAMESPACE_URL

_CPU_PERIOD_US = 100_000

# The cluster's services. Each container has seven environment variables per service.
_SERVICES = (
    "kubernetes",
    "database",
    "message-queue",
    "metrics",
    "object-store",
    "gateway",
    "identity",
    "scheduler",
)

# Equal in all containers; a message copies them.
_OWN_NAMESPACES = [api.LinuxNamespace(type=kind) for kind in ("pid", "mount", "cgroup")]
_VIRTUAL_MOUNTS = [
    api.Mount(destination=where, type=kind, source=kind, options=options)
    for where, kind, options in (
        ("/proc", "proc", ["nosuid", "noexec", "nodev"]),
        ("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        ("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "gid=5"]),
        ("/dev/mqueue", "mqueue", ["nosuid", "noexec", "nodev"]),
        ("/sys", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
        ("/sys/fs/cgroup", "cgroup", ["nosuid", "noexec", "nodev", "relatime", "ro"]),
    )
]


def identifier(*parts: object) -> str:
    """Return 64 hexadecimal digits, like a runtime's ids, that depend only on `parts`."""
    return hashlib.sha256("/".join(str(part) for part in parts).encode()).hexdigest()


def pod(
    name: str,
    *,
    uid: str | None = None,
    namespace: str = "default",
    qos: QosClass = QosClass.GUARANTEED,
    cgroup_parent: str | None = None,
    memory_limit_bytes: int = 0,
    attempt: int = 0,
    annotations: Mapping[str, str] | None = None,
) -> api.PodSandbox:
    """Return a pod's sandbox.

    `memory_limit_bytes` is the sum of the containers' limits. `cgroup_parent` defaults to the
    kubelet's path under the cgroupfs driver. `attempt` numbers the sandboxes of one pod.
    `annotations` are those of the pod's manifest.
    """
    uid = uid or str(uuid.uuid5(_UID_NAMESPACE, f"{namespace}/{name}"))
    if cgroup_parent is None:
        cgroup_parent = f"/kubepods/{_QOS_LEVELS.get(qos, '')}pod{uid}"
    sandbox_id = identifier("sandbox", namespace, name, uid, attempt)
    return api.PodSandbox(
        id=sandbox_id,
        name=name,
        uid=uid,
        namespace=namespace,
        labels={
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/managed-by": "statefulset-controller",
            "io.cri-containerd.kind": "sandbox",
            "io.kubernetes.pod.name": name,
            "io.kubernetes.pod.namespace": namespace,
            "io.kubernetes.pod.uid": uid,
        },
        annotations={
            **(annotations or {}),
            "kubernetes.io/config.seen": "2026-01-01T00:00:00.000000000Z",
            "kubernetes.io/config.source": "api",
        },
        runtime_handler="runc",
        pid=4242,
        linux=api.LinuxPodSandbox(
            pod_resources=_resources(memory_limit_bytes),
            cgroup_parent=cgroup_parent,
            cgroups_path=f"{cgroup_parent}/{sandbox_id}",
            namespaces=_namespaces(4242),
            resources=api.LinuxResources(cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=2))),
        ),
    )


def container(
    sandbox: api.PodSandbox,
    name: str,
    *,
    memory_limit_bytes: int = 0,
    hugepages: Mapping[int, int] | None = None,
    qos: QosClass = QosClass.GUARANTEED,
    cpuset_mems: str = "",
    cpuset_cpus: str = "",
    cpu_shares: int = 1024,
    cpu_limit_millicores: int | None = 1000,
    attempt: int = 0,
) -> api.Container:
    """Return a container of `sandbox` before its creation.

    `hugepages` are limits in bytes by page size in bytes; the kubelet sends one for every page size
    of the host, None sends none. `attempt` counts the restarts.
    """
    container_id = identifier("container", sandbox.id, name, attempt)
    resources = _resources(memory_limit_bytes, cpu_shares, cpu_limit_millicores)
    resources.cpu.mems = cpuset_mems
    resources.cpu.cpus = cpuset_cpus
    for size_bytes, limit_bytes in sorted((hugepages or {}).items()):
        resources.hugepage_limits.add(page_size=format_page_size(size_bytes), limit=limit_bytes)
    return api.Container(
        id=container_id,
        pod_sandbox_id=sandbox.id,
        name=name,
        labels={
            "io.cri-containerd.kind": "container",
            "io.kubernetes.container.name": name,
            "io.kubernetes.pod.name": sandbox.name,
            "io.kubernetes.pod.namespace": sandbox.namespace,
            "io.kubernetes.pod.uid": sandbox.uid,
        },
        annotations=_annotations(sandbox, name, attempt),
        args=["/usr/bin/server", "--listen=0.0.0.0:8080", "--data-dir=/var/lib/server"],
        env=_environment(sandbox.name),
        mounts=_mounts(sandbox, name),
        linux=api.LinuxContainer(
            namespaces=_namespaces(sandbox.pid),
            devices=[api.LinuxDevice(path="/dev/fuse", type="c", major=10, minor=229)],
            resources=resources,
            oom_score_adj=api.OptionalInt(value=_OOM_SCORE_ADJ[qos]),
            cgroups_path=f"{sandbox.linux.cgroup_parent}/{container_id}",
        ),
    )


def _resources(
    memory_limit_bytes: int, cpu_shares: int = 1024, cpu_limit_millicores: int | None = 1000
) -> api.LinuxResources:
    # The CRI converters always send these wrappers; 0 means "no limit".
    quota = (cpu_limit_millicores or 0) * _CPU_PERIOD_US // 1000
    return api.LinuxResources(
        memory=api.LinuxMemory(limit=api.OptionalInt64(value=memory_limit_bytes)),
        cpu=api.LinuxCPU(
            shares=api.OptionalUInt64(value=cpu_shares),
            quota=api.OptionalInt64(value=quota),
            period=api.OptionalUInt64(value=_CPU_PERIOD_US),
        ),
    )


@cache
def _namespaces(pid: int) -> list[api.LinuxNamespace]:
    shared = [
        api.LinuxNamespace(type=kind, path=f"/proc/{pid}/ns/{link}")
        for kind, link in (("ipc", "ipc"), ("uts", "uts"), ("network", "net"))
    ]
    return [*_OWN_NAMESPACES, *shared]


def _annotations(sandbox: api.PodSandbox, name: str, attempt: int) -> dict[str, str]:
    return {
        "io.kubernetes.container.hash": "a1b2c3d4",
        "io.kubernetes.container.restartCount": str(attempt),
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.terminationGracePeriod": "30",
        "io.kubernetes.cri.container-name": name,
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.image-name": f"registry.example/{name}:1.0.0",
        "io.kubernetes.cri.sandbox-id": sandbox.id,
        "io.kubernetes.cri.sandbox-name": sandbox.name,
        "io.kubernetes.cri.sandbox-namespace": sandbox.namespace,
        "io.kubernetes.cri.sandbox-uid": sandbox.uid,
    }


def _environment(hostname: str) -> list[str]:
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return [path, f"HOSTNAME={hostname}", *_service_variables()]


@cache
def _service_variables() -> list[str]:
    variables: list[str] = []
    for number, service in enumerate(_SERVICES, start=1):
        prefix = service.upper().replace("-", "_")
        address, port = f"10.96.0.{number}", 8000 + number
        variables += [
            f"{prefix}_SERVICE_HOST={address}",
            f"{prefix}_SERVICE_PORT={port}",
            f"{prefix}_PORT=tcp://{address}:{port}",
            f"{prefix}_PORT_{port}_TCP=tcp://{address}:{port}",
            f"{prefix}_PORT_{port}_TCP_PROTO=tcp",
            f"{prefix}_PORT_{port}_TCP_PORT={port}",
            f"{prefix}_PORT_{port}_TCP_ADDR={address}",
        ]
    return variables


def _mounts(sandbox: api.PodSandbox, name: str) -> list[api.Mount]:
    pod_dir = f"/var/lib/kubelet/pods/{sandbox.uid}"
    sandbox_dir = f"/run/containerd/io.containerd.grpc.v1.cri/sandboxes/{sandbox.id}"
    bound = {
        "/etc/hosts": f"{pod_dir}/etc-hosts",
        "/dev/termination-log": f"{pod_dir}/containers/{name}/5f0c1a2b",
        "/etc/hostname": f"{sandbox_dir}/hostname",
        "/etc/resolv.conf": f"{sandbox_dir}/resolv.conf",
        "/dev/shm": f"{sandbox_dir}/shm",
        "/var/run/secrets/kubernetes.io/serviceaccount": (
            f"{pod_dir}/volumes/kubernetes.io~projected/kube-api-access"
        ),
    }
    options = ["rbind", "rprivate"]
    own = [
        api.Mount(destination=where, type="bind", source=source, options=options)
        for where, source in bound.items()
    ]
    return [*_VIRTUAL_MOUNTS, *own]
