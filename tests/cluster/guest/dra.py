"""Drivers for the kubelet's Dynamic Resource Allocation, and the claim of a pod for one device.

The device is a CDI device. Where no scheduler and no controller run, the claim is allocated, and
reserved for its pod, by requests to the API server.

This module depends on the kubelet's plugin registration v1 and dra v1, and on resource.k8s.io/v1.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from tests.cluster.guest import dra_pb2 as pb
from tests.cluster.guest.api_pods import ApiPods
from tests.cluster.guest.kubelet import HOST_NAME
from tests.cluster.guest.manifests import NAMESPACE, Manifest

DRIVER = "numamem.example.com"
DEVICE = "accelerator0"
REQUEST = "accelerator"
_CDI_KIND = "numamem.example.com/dra"
_SPECIFICATION = Path("/etc/cdi/dra.json")
_KUBELET = Path("/var/lib/kubelet")
_VERSION = "v1.DRAPlugin"
_CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"


class Driver:
    """Serves the kubelet; `prepared` lists the claims that it prepared, by name."""

    def __init__(self, name: str = DRIVER, devices: Sequence[pb.Device] = ()) -> None:
        """`devices` are those of each prepared claim."""
        self.prepared: list[str] = []
        self._name, self._devices = name, devices
        self._socket = _KUBELET / "plugins" / name / "dra.sock"
        self._registration = _KUBELET / "plugins_registry" / f"{name}-reg.sock"
        self._server = grpc.server(ThreadPoolExecutor(2))
        services = {
            "pluginregistration.Registration": {
                "GetInfo": _method(self._info, pb.InfoRequest),
                "NotifyRegistrationStatus": _method(_note_status, pb.RegistrationStatus),
            },
            "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin": {
                "NodePrepareResources": _method(self._prepare, pb.ClaimsRequest),
                "NodeUnprepareResources": _method(_unprepare, pb.ClaimsRequest),
            },
        }
        handlers = [
            grpc.method_handlers_generic_handler(name, methods)
            for name, methods in services.items()
        ]
        self._server.add_generic_rpc_handlers(handlers)

    def start(self) -> None:
        """Register with the kubelet."""
        for path in (self._socket, self._registration):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._server.add_insecure_port(f"unix://{path}")
        self._server.start()

    def stop(self) -> None:
        """End it; the kubelet notices that its sockets are gone."""
        self._server.stop(None).wait()
        for path in (self._socket, self._registration):
            path.unlink(missing_ok=True)

    def _info(self, _: pb.InfoRequest) -> pb.PluginInfo:
        endpoint = str(self._socket)
        return pb.PluginInfo(
            type="DRAPlugin", name=self._name, endpoint=endpoint, supported_versions=[_VERSION]
        )

    def _prepare(self, request: pb.ClaimsRequest) -> pb.ClaimsResponse:
        self.prepared += [claim.name for claim in request.claims]
        prepared = pb.Prepared(devices=self._devices)
        return pb.ClaimsResponse(
            claims=[pb.PreparedClaim(key=claim.uid, value=prepared) for claim in request.claims]
        )


def accelerator(device: Path) -> Driver:
    """Return the driver of a character device, which is described by CDI."""
    edits = {"deviceNodes": [{"path": f"/dev/{DEVICE}", "hostPath": str(device)}]}
    devices = [{"name": DEVICE, "containerEdits": edits}]
    document = {"cdiVersion": "0.6.0", "kind": _CDI_KIND, "devices": devices}
    _SPECIFICATION.parent.mkdir(parents=True, exist_ok=True)
    _SPECIFICATION.write_text(json.dumps(document), encoding="ascii")
    one = pb.Device(
        request_names=[REQUEST],
        pool_name=HOST_NAME,
        device_name=DEVICE,
        cdi_device_ids=[f"{_CDI_KIND}={DEVICE}"],
    )
    return Driver(devices=[one])


def create_claim(pods: ApiPods, name: str) -> None:
    """Create a claim of the device."""
    exactly = {"deviceClassName": "accelerator"}
    devices = {"requests": [{"name": REQUEST, "exactly": exactly}]}
    pods.request("POST", _CLAIMS, {"metadata": {"name": name}, "spec": {"devices": devices}})


def delete_claim(pods: ApiPods, name: str) -> None:
    """Delete a claim."""
    pods.request("DELETE", f"{_CLAIMS}/{name}")


def with_claim(manifest: Manifest, claim: str) -> Manifest:
    """Return the manifest with a claim, which its first container uses."""
    spec = manifest["spec"]
    first, *others = spec["containers"]
    resources = {**first["resources"], "claims": [{"name": claim}]}
    containers = [{**first, "resources": resources}, *others]
    claims = [{"name": claim, "resourceClaimName": claim}]
    return {**manifest, "spec": {**spec, "containers": containers, "resourceClaims": claims}}


def allocate(pods: ApiPods, claim: str, pod: Manifest) -> None:
    """Allocate the device to a claim, and reserve the claim for a pod, as the scheduler does."""
    result = {"request": REQUEST, "driver": DRIVER, "pool": HOST_NAME, "device": DEVICE}
    metadata = pod["metadata"]
    reserved = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
    path = f"{_CLAIMS}/{claim}"
    found = pods.request("GET", path)
    found["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [reserved]}
    pods.request("PUT", f"{path}/status", found)


def _note_status(_: pb.RegistrationStatus) -> pb.RegistrationStatusResponse:
    return pb.RegistrationStatusResponse()


def _unprepare(request: pb.ClaimsRequest) -> pb.ClaimsResponse:
    claims = [pb.PreparedClaim(key=claim.uid, value=pb.Prepared()) for claim in request.claims]
    return pb.ClaimsResponse(claims=claims)


def _method(run: Callable[[Any], Any], request: Any) -> Any:  # noqa: ANN401 - gRPC has no types
    """Return the handler of a unary call."""

    def answer(message: Any, _: Any) -> Any:  # noqa: ANN401
        return run(message)

    return grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=request.FromString,
        response_serializer=lambda reply: reply.SerializeToString(),
    )
