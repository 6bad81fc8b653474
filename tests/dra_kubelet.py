"""The kubelet's part of dynamic resource allocation, by a gRPC client that is not ours."""

from pathlib import Path

import grpc

from nri_numamem.export.resourceslice import DRIVER
from nri_numamem.kubelet import dra
from nri_numamem.kubelet import dra_pb2 as pb
from nri_numamem.kubelet import pluginregistration_pb2 as registration

_TIMEOUT_S = 60.0


def register(kubelet: Path) -> str:
    """Register the driver; return its endpoint. `kubelet` is the kubelet's directory."""
    socket = dra.registration_socket(kubelet, DRIVER)
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        info = registration.PluginInfo.FromString(
            channel.unary_unary(dra.GET_INFO)(b"", timeout=_TIMEOUT_S)
        )
        status = registration.RegistrationStatus(plugin_registered=True).SerializeToString()
        channel.unary_unary(dra.NOTIFY_REGISTRATION_STATUS)(status, timeout=_TIMEOUT_S)
    assert info.name == DRIVER
    return str(info.endpoint)


def prepare(channel: grpc.Channel, claim: pb.Claim) -> pb.NodePrepareResourceResponse:
    """Prepare a claim; return the answer for it."""
    request = pb.NodePrepareResourcesRequest(claims=[claim]).SerializeToString()
    reply = channel.unary_unary(dra.NODE_PREPARE_RESOURCES)(request, timeout=_TIMEOUT_S)
    return pb.NodePrepareResourcesResponse.FromString(reply).claims[claim.uid]


def unprepare(channel: grpc.Channel, claim: pb.Claim) -> str:
    """Unprepare a claim; return the error, "" without one."""
    request = pb.NodeUnprepareResourcesRequest(claims=[claim]).SerializeToString()
    reply = channel.unary_unary(dra.NODE_UNPREPARE_RESOURCES)(request, timeout=_TIMEOUT_S)
    return str(pb.NodeUnprepareResourcesResponse.FromString(reply).claims[claim.uid].error)
