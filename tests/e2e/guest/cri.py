"""A thin client of the Container Runtime Interface: one method per call, over grpcio.

Knows the method names of runtime.v1. It must not know what a kubelet would ask for (kubelet.py).
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import grpc

from tests.e2e.guest import cri_pb2 as pb

SOCKET = "unix:///run/containerd/containerd.sock"
_SERVICE = "/runtime.v1.RuntimeService"
_TIMEOUT_S = 60.0  # the plugin's own limit is 2 s; the rest is an emulated processor

_Reply = TypeVar("_Reply")


class CriError(Exception):
    """A call that the runtime refused; the text is the one a user sees in the pod's events."""


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


class Client:
    """Calls of one channel; make a new one after the runtime was restarted, as it backs off."""

    def __init__(self) -> None:
        self._channel = grpc.insecure_channel(SOCKET)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def version(self) -> pb.VersionResponse:
        """Ask for name and version; CriError as long as the runtime is not up."""
        return self._call("Version", pb.VersionRequest(), pb.VersionResponse.FromString)

    def run_pod_sandbox(self, config: pb.PodSandboxConfig) -> str:
        """Start a pod's sandbox and return its id."""
        request = pb.RunPodSandboxRequest(config=config)
        reply = self._call("RunPodSandbox", request, pb.RunPodSandboxResponse.FromString)
        return reply.pod_sandbox_id

    def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Stop the sandbox and kill what runs in it."""
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        self._call("StopPodSandbox", request, pb.StopPodSandboxResponse.FromString)

    def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove the stopped sandbox."""
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        self._call("RemovePodSandbox", request, pb.RemovePodSandboxResponse.FromString)

    def create_container(
        self, sandbox_id: str, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> str:
        """Create a container and return its id; CriError carries an NRI plugin's refusal."""
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
        """Kill a container; there is nothing in it that deserves a grace period."""
        request = pb.StopContainerRequest(container_id=container_id, timeout=0)
        self._call("StopContainer", request, pb.StopContainerResponse.FromString)

    def remove_container(self, container_id: str) -> None:
        """Remove a stopped container."""
        request = pb.RemoveContainerRequest(container_id=container_id)
        self._call("RemoveContainer", request, pb.RemoveContainerResponse.FromString)

    def list_containers(self) -> list[pb.Container]:
        """List all containers, whatever their state."""
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
