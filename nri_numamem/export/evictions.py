"""Evictions of pods: whether a pod may be evicted, the request, and what its answer means.

The API server evicts a pod only if the PodDisruptionBudgets that select it allow that. A pod is
never evicted that would not come back, that would come back to the same host whatever runs there,
or that would lose data:

=====================  =======================================================================
pod                    evicted
=====================  =======================================================================
without a controller   never: nothing recreates it
of a DaemonSet         never: it is recreated on this host
mirror pod             never: the kubelet creates it from a manifest file
with a local volume    only if it consents by annotation: emptyDir on a disk, hostPath
=====================  =======================================================================

Sources: k8s.io/api/policy/v1, Eviction; kubectl drain, which has the same exceptions.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from nri_numamem.engine.core.annotations import MOVABLE_ANNOTATION
from nri_numamem.engine.core.text import cut
from nri_numamem.export.requests import cause_of

_MIRROR = "kubernetes.io/config.mirror"
_TEXT_LIMIT = 300


def pod_path(namespace: str, name: str) -> str:
    """Return the path of a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def eviction_path(namespace: str, name: str) -> str:
    """Return the path to which an eviction is posted."""
    return f"{pod_path(namespace, name)}/eviction"


def eviction(namespace: str, name: str, uid: str) -> bytes:
    """Return the body: the pod with this uid, and no later one of the same name."""
    document = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    return json.dumps(document).encode()


@dataclass(frozen=True, slots=True)
class ClusterPod:
    """A pod of the API server."""

    namespace: str
    name: str
    uid: str
    controller: str
    """The uid; "" without one."""
    priority: int
    is_consented: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    is_ended: bool = False
    """Whether it has ended, or is being deleted."""

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.namespace}/{self.name}"


def cluster_pod(document: Mapping[str, Any]) -> ClusterPod:
    """Return a pod of the API server; what it lacks is empty, and its priority 0."""
    metadata, spec = _mapping(document.get("metadata")), _mapping(document.get("spec"))
    controllers = _controllers(metadata)
    priority, phase = spec.get("priority"), _mapping(document.get("status")).get("phase")
    return ClusterPod(
        str(metadata.get("namespace", "")),
        str(metadata.get("name", "")),
        str(metadata.get("uid", "")),
        str(controllers[0].get("uid", "")) if controllers else "",
        priority if isinstance(priority, int) else 0,
        _is_consented(metadata),
        {key: str(value) for key, value in _mapping(metadata.get("labels")).items()},
        is_ended="deletionTimestamp" in metadata or phase in ("Succeeded", "Failed"),
    )


class Outcome(Enum):
    """What became of a request for an eviction."""

    DONE = "done"
    WAIT = "wait"
    """A PodDisruptionBudget forbids it now, or the server limits requests."""
    UNANSWERED = "unanswered"
    """The server failed or did not answer; the pod may be evicted."""
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Evicted:
    """An outcome and its reason."""

    outcome: Outcome
    cause: str = ""


def evicted(status: int, document: Mapping[str, Any]) -> Evicted:
    """Return what an answer with this HTTP status means."""
    cause = cut(cause_of(status, document), _TEXT_LIMIT)
    if status in (200, 201):
        return Evicted(Outcome.DONE)
    if status == 404:
        return Evicted(Outcome.GONE, cause)
    if status >= 500:
        return Evicted(Outcome.UNANSWERED, cause)
    return Evicted(Outcome.WAIT if status == 429 else Outcome.FAILED, cause)


def obstacle(document: Mapping[str, Any], uid: str) -> str:
    """Return why a pod of the API server must not be evicted; "" if it may."""
    metadata = _mapping(document.get("metadata"))
    if metadata.get("uid") != uid:
        return "it was recreated in the meantime"
    if _MIRROR in _mapping(metadata.get("annotations")):
        return "it is a mirror pod; the kubelet creates it from a manifest file"
    controllers = _controllers(metadata)
    if not controllers:
        return "it has no controller that would recreate it"
    if controllers[0].get("kind") == "DaemonSet":
        return "it belongs to a DaemonSet, which would recreate it on this host"
    volumes = [*_local_volumes(document)]
    if volumes and not _is_consented(metadata):
        consent = f'annotate the pod with {MOVABLE_ANNOTATION}: "true" to allow it'
        return f"its volume {volumes[0]} is local; {consent}"
    return ""


def _controllers(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in _mappings(metadata.get("ownerReferences")) if each.get("controller")]


def _is_consented(metadata: Mapping[str, Any]) -> bool:
    return _mapping(metadata.get("annotations")).get(MOVABLE_ANNOTATION) == "true"


def _local_volumes(document: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names of volumes whose data is lost with the pod, or stays on the host."""
    for volume in _mappings(_mapping(document.get("spec")).get("volumes")):
        on_disk = "emptyDir" in volume and _mapping(volume["emptyDir"]).get("medium") != "Memory"
        if on_disk or "hostPath" in volume:
            yield cut(str(volume.get("name")), _TEXT_LIMIT)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
