"""The kubelet's PodResources API, v1: its messages read, and changed.

The kubelet lists CPUs, devices and memory of the containers of its host on a Unix socket. With
``memoryManagerPolicy: None`` it lists no memory; the functions ``with_memory...`` add that of the
plugin. All other fields are kept, also unknown ones.
Source: k8s.io/kubelet, pkg/apis/podresources/v1; kubelet pkg/kubelet/apis/podresources.
"""

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from nri_numamem.kubelet import podresources_pb2 as api
from nri_numamem.kubelet.host_resources import (
    Devices,
    HostMemory,
    KubeletResources,
    MemoryEntry,
)
from nri_numamem.numa import CpuSet, NodeSet

_SERVICE = "/v1.PodResourcesLister"
LIST = f"{_SERVICE}/List"
GET_ALLOCATABLE_RESOURCES = f"{_SERVICE}/GetAllocatableResources"
GET = f"{_SERVICE}/Get"

_M = TypeVar("_M", bound=Message)


class PodResourcesError(Exception):
    """A message is not valid; the text says which one."""


def read_resources(of_list: bytes, of_allocatable: bytes) -> KubeletResources:
    """Return what List and GetAllocatableResources replied; raise PodResourcesError."""
    pods = _parsed(api.ListPodResourcesResponse, of_list).pod_resources
    allocatable = _parsed(api.AllocatableResourcesResponse, of_allocatable)
    containers = [container for pod in pods for container in pod.containers]
    exclusive = {cpu for pod in pods for cpu in pod.cpu_ids}
    exclusive.update(cpu for container in containers for cpu in container.cpu_ids)
    try:
        return KubeletResources(
            tuple(map(_devices, allocatable.devices)),
            frozenset(
                (devices.resource_name, device_id)
                for container in containers
                for devices in container.devices
                for device_id in devices.device_ids
            ),
            CpuSet(allocatable.cpu_ids),
            CpuSet(exclusive),
        )
    except ValueError as error:
        raise PodResourcesError(f"the kubelet's reply has an invalid number: {error}") from error


def with_memory_of_list(reply: bytes, memory: HostMemory) -> bytes:
    """Return a reply to List with this memory in place of the kubelet's; PodResourcesError."""
    message = _parsed(api.ListPodResourcesResponse, reply)
    for pod in message.pod_resources:
        _set_memory(pod, memory)
    return message.SerializeToString()


def with_memory_of_get(reply: bytes, memory: HostMemory) -> bytes:
    """Return a reply to Get with this memory in place of the kubelet's; PodResourcesError."""
    message = _parsed(api.GetPodResourcesResponse, reply)
    if message.HasField("pod_resources"):
        _set_memory(message.pod_resources, memory)
    return message.SerializeToString()


def with_memory_of_allocatable(reply: bytes, memory: Iterable[MemoryEntry]) -> bytes:
    """Return a reply to GetAllocatableResources with this memory; raise PodResourcesError."""
    message = _parsed(api.AllocatableResourcesResponse, reply)
    del message.memory[:]
    message.memory.extend(map(_message_of, memory))
    return message.SerializeToString()


def _set_memory(pod: api.PodResources, memory: HostMemory) -> None:
    """Replace the memory of a pod and its containers.

    A container that the kubelet leaves out, because it is an init container, is added while it has
    memory: clients subtract the memory of all containers from what is allocatable.
    """
    of_pod = dict(memory.get((pod.namespace, pod.name), {}))
    of_whole = of_pod.pop("", None)
    del pod.memory[:]
    if of_whole is not None:
        pod.memory.extend(map(_message_of, of_whole))
    for container in pod.containers:
        del container.memory[:]
        container.memory.extend(map(_message_of, of_pod.pop(container.name, ())))
    for name, entries in sorted(of_pod.items()):
        if any(entry.size_bytes for entry in entries):
            pod.containers.add(name=name, memory=map(_message_of, entries))


def _message_of(entry: MemoryEntry) -> api.ContainerMemory:
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=entry.node_id)])
    return api.ContainerMemory(memory_type=entry.resource, size=entry.size_bytes, topology=topology)


def _devices(message: api.ContainerDevices) -> Devices:
    nodes = NodeSet(node.ID for node in message.topology.nodes)
    return Devices(message.resource_name, frozenset(message.device_ids), nodes)


def _parsed(kind: type[_M], data: bytes) -> _M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise PodResourcesError(f"the kubelet's reply is not a {kind.__name__}") from error
