"""Manifests of pods, as a user writes them: in the form of Kubernetes' API, as plain dictionaries.

This module depends on the image of the pods, and not on the kubelet.
"""

from collections.abc import Sequence
from typing import Any

from tests.machines.guest.image_archive import IMAGE

Manifest = dict[str, Any]

MIB = 1 << 20
NAMESPACE = "default"
SLEEP = ("/bin/busybox", "sleep", "1000000")
WRITTEN_BYTES = 60_000_000
# The block stays in dd's memory, because sleep never reads from the pipe.
WRITE = (
    "/bin/sh",
    "-c",
    f"busybox dd if=/dev/zero bs={WRITTEN_BYTES} count=1 | busybox sleep 1000000",
)
_CPU = "50m"


def resources(memory_mib: int, cpu: str = _CPU, hugepages_mib: int = 0) -> Manifest:
    """Return resources of the class Guaranteed: the limits are the requests."""
    limits = {"memory": f"{memory_mib}Mi", "cpu": cpu}
    if hugepages_mib:
        limits["hugepages-2Mi"] = f"{hugepages_mib}Mi"
    return {"limits": limits, "requests": dict(limits)}


def container(name: str, needs: Manifest | None = None, command: Sequence[str] = SLEEP) -> Manifest:
    """Return a container; without `needs` it has neither limits nor requests."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "resources": needs or {},
    }


def guaranteed(name: str, memory_mib: int, command: Sequence[str] = SLEEP) -> Manifest:
    """Return a pod of the class Guaranteed with one container, "main"."""
    return pod(name, [container("main", resources(memory_mib), command)])


def pod(
    name: str, containers: Sequence[Manifest], init_containers: Sequence[Manifest] = ()
) -> Manifest:
    """Return a pod on the host's network, whose containers are always started again."""
    spec: Manifest = {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,  # sleep ignores SIGTERM as process 1
        "restartPolicy": "Always",
        "containers": list(containers),
    }
    if init_containers:
        spec["initContainers"] = list(init_containers)
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def sidecar(name: str, needs: Manifest, command: Sequence[str] = SLEEP) -> Manifest:
    """Return an init container that runs as long as its pod."""
    return {**container(name, needs, command), "restartPolicy": "Always"}
