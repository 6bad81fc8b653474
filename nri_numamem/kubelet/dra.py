"""The kubelet's interfaces to a driver of resource claims: registration v1 and DRA v1, as values.

The kubelet finds the driver by a socket in its directory of plugins, and reads there where the
driver serves. Kubernetes has resource.k8s.io/v1 since 1.34, and kubelets DRA v1 since then too.
Source: k8s.io/kubelet, pkg/apis/pluginregistration/v1 and pkg/apis/dra/v1.
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from nri_numamem.kubelet import dra_pb2 as dra
from nri_numamem.kubelet import pluginregistration_pb2 as registration

_REGISTRATION = "/pluginregistration.Registration"
GET_INFO = f"{_REGISTRATION}/GetInfo"
NOTIFY_REGISTRATION_STATUS = f"{_REGISTRATION}/NotifyRegistrationStatus"
_DRIVER = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
NODE_PREPARE_RESOURCES = f"{_DRIVER}/NodePrepareResources"
NODE_UNPREPARE_RESOURCES = f"{_DRIVER}/NodeUnprepareResources"

_M = TypeVar("_M", bound=Message)


class DraError(Exception):
    """A message of the kubelet is not valid; the text says which one."""


class ClaimName(NamedTuple):
    """A claim, as the kubelet names it."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.namespace}/{self.name}"


class PreparedDevice(NamedTuple):
    """A device that containers may use."""

    request: str
    """Of the claim, without the name of an alternative."""
    pool: str
    name: str
    cdi_ids: tuple[str, ...] = ()
    """What the runtime injects into containers that use the request."""
    share_id: str = ""


def registration_socket(kubelet_root: PurePath, driver: str) -> PurePath:
    """Return where the kubelet looks for a driver."""
    return kubelet_root / "plugins_registry" / f"{driver}-reg.sock"


def driver_socket(kubelet_root: PurePath, driver: str) -> PurePath:
    """Return where a driver serves: the kubelet takes any path, this one is usual."""
    return kubelet_root / "plugins" / driver / "dra.sock"


def plugin_info(driver: str, endpoint: PurePath) -> bytes:
    """Return the reply to GetInfo."""
    info = registration.PluginInfo(
        type="DRAPlugin",
        name=driver,
        endpoint=str(endpoint),
        supported_versions=["v1.DRAPlugin"],
    )
    return info.SerializeToString()


def registration_error(payload: bytes) -> str:
    """Return why the kubelet does not use the driver, "" if it does; raise DraError."""
    status = _parsed(registration.RegistrationStatus, payload)
    return "" if status.plugin_registered else status.error or "the kubelet gives no reason"


def registration_reply() -> bytes:
    """Return the reply to NotifyRegistrationStatus."""
    return registration.RegistrationStatusResponse().SerializeToString()


def claims_to_prepare(payload: bytes) -> tuple[ClaimName, ...]:
    """Return the claims of NodePrepareResources; raise DraError."""
    return _claims(_parsed(dra.NodePrepareResourcesRequest, payload).claims)


def claims_to_unprepare(payload: bytes) -> tuple[ClaimName, ...]:
    """Return the claims of NodeUnprepareResources; raise DraError."""
    return _claims(_parsed(dra.NodeUnprepareResourcesRequest, payload).claims)


def prepare_reply(outcomes: Mapping[str, Iterable[PreparedDevice] | str]) -> bytes:
    """Return the reply to NodePrepareResources: uid -> devices, or why it is not prepared."""
    reply = dra.NodePrepareResourcesResponse()
    for uid, outcome in outcomes.items():
        entry = reply.claims[uid]
        if isinstance(outcome, str):
            entry.error = outcome
            continue
        entry.devices.extend(
            dra.Device(
                request_names=[device.request],
                pool_name=device.pool,
                device_name=device.name,
                cdi_device_ids=device.cdi_ids,
                share_id=device.share_id,
            )
            for device in outcome
        )
    return reply.SerializeToString(deterministic=True)


def unprepare_reply(errors: Mapping[str, str]) -> bytes:
    """Return the reply to NodeUnprepareResources: uid -> error, "" for none."""
    reply = dra.NodeUnprepareResourcesResponse()
    for uid, error in errors.items():
        reply.claims[uid].error = error
    return reply.SerializeToString(deterministic=True)


def _claims(claims: Iterable[dra.Claim]) -> tuple[ClaimName, ...]:
    return tuple(ClaimName(each.namespace, each.name, each.uid) for each in claims)


def _parsed(kind: type[_M], data: bytes) -> _M:
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise DraError(f"{kind.DESCRIPTOR.name} is not valid: {error}") from error
    return message
