"""A kubelet that serves its PodResources socket, with what a test says."""

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from nri_numamem.grpc import Code, Server, StatusError
from nri_numamem.kubelet import podresources_pb2 as api
from nri_numamem.kubelet.podresources import GET, GET_ALLOCATABLE_RESOURCES, LIST
from tests.grpc.pair import no_bug

NIC = "vendor.com/nic"


def topology(*nodes: int) -> api.TopologyInfo:
    return api.TopologyInfo(nodes=[api.NUMANode(ID=node) for node in nodes])


def nics(ids: Iterable[str], node: int) -> api.ContainerDevices:
    return api.ContainerDevices(resource_name=NIC, device_ids=ids, topology=topology(node))


def memory(resource: str, size: int, node: int) -> api.ContainerMemory:
    return api.ContainerMemory(memory_type=resource, size=size, topology=topology(node))


class FakeKubelet:
    """A context in which it serves; a test changes what it replies at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pods = api.ListPodResourcesResponse()
        self.allocatable = api.AllocatableResourcesResponse()
        self.error: StatusError | None = None
        self.calls: list[str] = []

    def run_pod(
        self,
        uid: str,
        *containers: str,
        cpus: Iterable[int] = (),
        nics: api.ContainerDevices | None = None,
    ) -> None:
        """Add a pod, with the CPUs and devices of its first container."""
        pod = self.pods.pod_resources.add(name=f"{uid}-x", namespace="shop")
        for name in containers or ("main",):
            pod.containers.add(name=name)
        pod.containers[0].cpu_ids.extend(cpus)
        if nics is not None:
            pod.containers[0].devices.append(nics)

    def __enter__(self) -> Self:
        self.path.parent.mkdir(exist_ok=True)
        self._server = Server(
            self.path,
            {LIST: self._list, GET_ALLOCATABLE_RESOURCES: self._allocatable, GET: self._get},
            no_bug,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()

    def _list(self, _payload: bytes, _timeout_s: float | None) -> bytes:
        return self._reply("List", self.pods.SerializeToString())

    def _allocatable(self, _payload: bytes, _timeout_s: float | None) -> bytes:
        return self._reply("GetAllocatableResources", self.allocatable.SerializeToString())

    def _get(self, payload: bytes, _timeout_s: float | None) -> bytes:
        request = api.GetPodResourcesRequest.FromString(payload)
        for pod in self.pods.pod_resources:
            if (pod.name, pod.namespace) == (request.pod_name, request.pod_namespace):
                reply = api.GetPodResourcesResponse(pod_resources=pod)
                return self._reply("Get", reply.SerializeToString())
        raise StatusError(Code.UNKNOWN, f"pod {request.pod_name} not found")

    def _reply(self, method: str, payload: bytes) -> bytes:
        self.calls.append(method)
        if self.error is not None:
            raise self.error
        return payload
