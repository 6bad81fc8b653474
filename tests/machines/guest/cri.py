"""A client of the Container Runtime Interface with one method per call, over grpcio.

This module depends on the methods of runtime.v1; kubelet.py makes the requests.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import grpc

from tests.machines.guest import cri_pb2 as pb

SOCKET = "unix:///run/containerd/containerd.sock"
_SERVICE = "/runtime.v1.RuntimeService"
_TIMEOUT_S = 120.0  # the plugin's limit is 2 s; an emulated processor is slow

_Reply = TypeVar("_Reply")


class CriError(Exception):
    """The runtime rejected a call; the text is that of the pod's events."""


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


class Client:
    """Calls over one channel; after a restart of the runtime make a new client."""

    def __init__(self, socket: str = SOCKET) -> None:
        self._channel = grpc.insecure_channel(socket)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def version(self) -> pb.VersionResponse:
        """Return name and version; raise CriError until the runtime is up."""
        return self._call("Version", pb.VersionRequest(), pb.VersionResponse.FromString)

    def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> str:
        """Start a pod's sandbox and return its id; the handler is that of its RuntimeClass."""
        request = pb.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        reply = self._call("RunPodSandbox", request, pb.RunPodSandboxResponse.FromString)
        return reply.pod_sandbox_id

    def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Stop the sandbox and kill its containers."""
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        self._call("StopPodSandbox", request, pb.StopPodSandboxResponse.FromString)

    def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove a stopped sandbox."""
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        self._call("RemovePodSandbox", request, pb.RemovePodSandboxResponse.FromString)

    def create_container(
        self, sandbox_id: str, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> str:
        """Create a container and return its id; raise CriError, with the text of an NRI plugin."""
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config
        )
        reply = self._call("CreateContainer", request, pb.CreateContainerResponse.FromString)
        return reply.container_id

    def start_container(self, container_id: str) -> None:
        """Start a created container."""
        request = pb.StartContainerRequest(container_id=container_id)
        self._call("StartContainer", request, pb.StartContainerResponse.FromString)

    def stop_container(self, container_id: str) -> None:
        """Kill a container without a grace period."""
        request = pb.StopContainerRequest(container_id=container_id, timeout=0)
        self._call("StopContainer", request, pb.StopContainerResponse.FromString)

    def remove_container(self, container_id: str) -> None:
        """Remove a stopped container."""
        request = pb.RemoveContainerRequest(container_id=container_id)
        self._call("RemoveContainer", request, pb.RemoveContainerResponse.FromString)

    def list_containers(self) -> list[pb.Container]:
        """Return all containers in any state."""
        request = pb.ListContainersRequest()
        reply = self._call("ListContainers", request, pb.ListContainersResponse.FromString)
        return list(reply.containers)

    def update_container_resources(
        self, container_id: str, resources: pb.LinuxContainerResources
    ) -> None:
        """Change the resources of a container in place."""
        request = pb.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
        parse = pb.UpdateContainerResourcesResponse.FromString
        self._call("UpdateContainerResources", request, parse)

    def _call(self, method: str, request: _Message, parse: Callable[[bytes], _Reply]) -> _Reply:
        call: Any = self._channel.unary_unary(
            f"{_SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=parse,
        )
        try:
            reply: _Reply = call(request, timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            raise CriError(f"{method}: {error.details()}") from error
        return reply
