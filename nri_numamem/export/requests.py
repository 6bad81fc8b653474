"""The requests to the API server about a host's objects, and why an answer is a failure.

Server-side apply makes or updates the object in one request, and gives each list of the object one
owner: if another program has written `zones`, the answer is a conflict that names it.
Sources: Kubernetes, "Server-Side Apply"; apimachinery, pkg/apis/meta/v1/types.go (Status).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from nri_numamem.export.noderesourcetopology import API_VERSION, KIND, MANAGED_BY
from nri_numamem.export.resourceslice import API_VERSION as RESOURCE_API_VERSION

FIELD_MANAGER = "nri-numamem"
"""The name under which the API server keeps what this program has written."""

APPLY = "application/apply-patch+yaml"
"""The content type of server-side apply; JSON is YAML."""

_OBJECTS = f"/apis/{API_VERSION}/noderesourcetopologies"
_MANAGER = re.compile(r'conflicts? with "([^"]{1,128})"')
_TEXT_LIMIT = 500


class FailureKind(StrEnum):
    """Kinds of failures, by what an operator has to check."""

    CREDENTIALS = "credentials"
    UNREACHABLE = "unreachable"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NO_CRD = "no_crd"
    NO_API = "no_api"
    DROPPED = "dropped"
    NO_NODE = "no_node"
    UNSUPPORTED = "unsupported"
    CONFLICT = "conflict"
    REJECTED = "rejected"
    SERVER_ERROR = "server_error"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an object was not written."""

    kind: FailureKind
    cause: str
    remedy: str
    status: int = 0
    """The HTTP status; 0 without an answer."""
    field_managers: tuple[str, ...] = ()
    """The other writers of the object."""
    retry_after_s: float = 0.0
    """The server's least time before the next attempt."""


REMEDIES = {
    FailureKind.CREDENTIALS: "see `cause`; it is read again at each attempt",
    FailureKind.UNREACHABLE: "check that the API server runs, and that its address is correct",
    FailureKind.UNAUTHORIZED: "the token or certificate is not valid, or has expired; renew it",
    FailureKind.FORBIDDEN: "grant this user patch, create and delete of "
    "noderesourcetopologies, and get of nodes",
    FailureKind.NO_CRD: "install the CustomResourceDefinition of NodeResourceTopology; it comes "
    "with the scheduler plugins",
    FailureKind.NO_API: "resource claims need resource.k8s.io/v1, of Kubernetes 1.34 or newer",
    FailureKind.DROPPED: "enable DRAConsumableCapacity in the API server and the scheduler; "
    "Kubernetes 1.36 and newer have it on",
    FailureKind.NO_NODE: "name the Node object with --node-name, or wait until the kubelet has "
    "registered it",
    FailureKind.UNSUPPORTED: "enable DRANodeAllocatableResources in the kubelet, or remove "
    "--node-allocatable; the slice is written without it",
    FailureKind.CONFLICT: "stop the other exporter on this host and delete the object; it is then "
    "made again",
    FailureKind.REJECTED: "see `cause`: an admission policy, or a CustomResourceDefinition of "
    "another version",
    FailureKind.SERVER_ERROR: "see the log of the API server",
}


DROPPED = Failure(
    FailureKind.DROPPED,
    "the API server drops consumable capacity",
    REMEDIES[FailureKind.DROPPED],
)
"""The API server accepts a ResourceSlice, and leaves fields out of it."""

# Instead of those above, for a ResourceSlice.
_REMEDIES_OF_SLICE = {
    FailureKind.FORBIDDEN: "grant this user get, create, patch and delete of resourceslices, and "
    "get of nodes",
    FailureKind.CONFLICT: "delete the ResourceSlice; it is then made again",
    FailureKind.REJECTED: "see `cause`: an admission policy, or an API server of another version",
}


def node_path(node_name: str) -> str:
    """Return the path of a Node."""
    return f"/api/v1/nodes/{node_name}"


def object_path(node_name: str) -> str:
    """Return the path of a host's object."""
    return f"{_OBJECTS}/{node_name}"


def apply_path(node_name: str) -> str:
    """Return the path that applies the object, without taking fields from other writers."""
    return f"{object_path(node_name)}?fieldManager={FIELD_MANAGER}"


def all_objects_path() -> str:
    """Return the path of all objects that this program has written."""
    label, value = MANAGED_BY
    return f"{_OBJECTS}?labelSelector={label.replace('/', '%2F')}%3D{value}"


def slice_path(name: str) -> str:
    """Return the path of a ResourceSlice."""
    return f"/apis/{RESOURCE_API_VERSION}/resourceslices/{name}"


def claim_path(namespace: str, name: str) -> str:
    """Return the path of a resource claim."""
    return f"/apis/{RESOURCE_API_VERSION}/namespaces/{namespace}/resourceclaims/{name}"


def owned_by(document: Mapping[str, object], node_name: str, uid: str) -> bytes:
    """Return the object as JSON, with the Node as its owner: it is removed with the Node."""
    metadata = document["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": uid}
    assert isinstance(metadata, dict)  # noqa: S101 - of this room
    owned = {**document, "metadata": {**metadata, "ownerReferences": [owner]}}
    return json.dumps(owned, separators=(",", ":")).encode()


def uid_of(document: Mapping[str, object]) -> str:
    """Return the uid in an answer; "" if it has none."""
    metadata = document.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) else ""


def failure_of_node(status: int, document: Mapping[str, object], after_s: float) -> Failure | None:
    """Return why the answer to a request of a Node has no uid; None if it has one."""
    if status == 200:
        return None if uid_of(document) else _no_kubernetes(status)
    kind = FailureKind.NO_NODE if status == 404 else _kind(status)
    return _failure(kind, status, document, after_s)


def is_missing(status: int, document: Mapping[str, object], name: str) -> bool:
    """Return whether an object does not exist; False if the API server has no such objects."""
    details = document.get("details")
    return status == 404 and isinstance(details, dict) and details.get("name") == name


def failure_of_slice(status: int, document: Mapping[str, object], after_s: float) -> Failure | None:
    """Return why the answer to a request of a ResourceSlice is none; None if it is one."""
    if status in (200, 201):
        return None if document.get("kind") == "ResourceSlice" else _no_kubernetes(status)
    kind = FailureKind.NO_API if status == 404 else _kind(status)
    return _failure(kind, status, document, after_s)


def of_slice(failure: Failure) -> Failure:
    """Return a failure with the remedy for a ResourceSlice."""
    return replace(failure, remedy=_REMEDIES_OF_SLICE.get(failure.kind, failure.remedy))


def failure_of_claim(status: int, document: Mapping[str, object]) -> Failure | None:
    """Return why the answer to a request of a resource claim is no claim; None if it is one."""
    if status == 200:
        return None if document.get("kind") == "ResourceClaim" else _no_kubernetes(status)
    failure = _failure(_kind(status), status, document, 0.0)
    remedies = {
        403: "grant this user get of resourceclaims",
        404: "delete the pod, or create the claim that it names",
    }
    return replace(failure, remedy=remedies.get(status, failure.remedy))


def failure_of_apply(status: int, document: Mapping[str, object], after_s: float) -> Failure | None:
    """Return why an object was not applied; None if it was."""
    if status in (200, 201):
        return None if document.get("kind") == KIND else _no_kubernetes(status)
    # Apply makes a missing object, so only the resource itself can be missing.
    kind = FailureKind.NO_CRD if status == 404 else _kind(status)
    return _failure(kind, status, document, after_s)


def failure_of_event(status: int, document: Mapping[str, object], after_s: float) -> Failure | None:
    """Return why an Event was not applied; None if it was, or its namespace ends."""
    if status in (200, 201, 404):
        return None
    if _is_ending(document):  # it takes no new objects
        return None
    failure = _failure(_kind(status), status, document, after_s)
    if failure.kind is FailureKind.FORBIDDEN:
        remedy = "grant this user patch and create of events, or add --no-pod-events"
        return replace(failure, remedy=remedy)
    return failure


def _is_ending(document: Mapping[str, object]) -> bool:
    message = document.get("message")
    return isinstance(message, str) and "is being terminated" in message


def failure_of_delete(status: int, document: Mapping[str, object]) -> Failure | None:
    """Return why objects were not deleted; None if they were, or none exists."""
    if status in (200, 202):
        return None if document else _no_kubernetes(status)
    return None if status == 404 else _failure(_kind(status), status, document, 0.0)


def _kind(status: int) -> FailureKind:
    known = {
        401: FailureKind.UNAUTHORIZED,
        403: FailureKind.FORBIDDEN,
        409: FailureKind.CONFLICT,
        429: FailureKind.SERVER_ERROR,
    }
    is_rejected = 400 <= status < 500
    return known.get(status, FailureKind.REJECTED if is_rejected else FailureKind.SERVER_ERROR)


def _failure(
    kind: FailureKind, status: int, document: Mapping[str, object], after_s: float
) -> Failure:
    cause = cause_of(status, document)
    managers = _managers(cause) if kind is FailureKind.CONFLICT else ()
    return Failure(kind, cause[:_TEXT_LIMIT], REMEDIES[kind], status, managers, after_s)


def cause_of(status: int, document: Mapping[str, object]) -> str:
    """Return the message of an answer that is a Status; without one, the HTTP status."""
    message = document.get("message")
    return message if isinstance(message, str) and message else f"HTTP status {status}"


def _managers(cause: str) -> tuple[str, ...]:
    return tuple(sorted(set(_MANAGER.findall(cause))))


def _no_kubernetes(status: int) -> Failure:
    kind = FailureKind.SERVER_ERROR
    cause = f"HTTP status {status}, but not the object: this is not a Kubernetes API server"
    return Failure(kind, cause, "correct the address of the API server", status)
