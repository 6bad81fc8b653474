"""Resource claims in manifests: what pods name, and the objects in the same file.

Source: k8s.io/api/core/v1, PodResourceClaim and ResourceClaim; k8s.io/api/resource/v1.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nri_numamem.kubelet.workload import Path, Workload, WorkloadError

TEMPLATE, CLAIM = "ResourceClaimTemplate", "ResourceClaim"
ClaimKey: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of an object."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim that a pod names."""

    name: str
    """In the pod."""
    source: ClaimKey


def claims_of(workload: Workload) -> tuple[PodClaim, ...]:
    """Return the claims of a pod; raise WorkloadError."""
    path = (*workload.path, "spec", "resourceClaims")
    spec = _mapping(path[:-1], workload.manifest.get("spec"))
    found: list[PodClaim] = []
    for index, entry in enumerate(_list(path, spec.get("resourceClaims"))):
        claim = _mapping((*path, index), entry)
        for kind, key in ((TEMPLATE, "resourceClaimTemplateName"), (CLAIM, "resourceClaimName")):
            if claim.get(key):
                source = (kind, workload.namespace, str(claim[key]))
                found.append(PodClaim(str(claim.get("name")), source))
    return tuple(found)


def users_of(workload: Workload) -> dict[str, list[tuple[str, str]]]:
    """Return container name -> (claim, request) that it names, request "" for all of a claim."""
    path = (*workload.path, "spec")
    spec = _mapping(path, workload.manifest.get("spec"))
    found: dict[str, list[tuple[str, str]]] = {}
    for field in ("initContainers", "containers"):
        for index, entry in enumerate(_list((*path, field), spec.get(field))):
            here = (*path, field, index)
            container = _mapping(here, entry)
            resources = _mapping((*here, "resources"), container.get("resources"))
            where = (*here, "resources", "claims")
            for number, named in enumerate(_list(where, resources.get("claims"))):
                claim = _mapping((*where, number), named)
                pair = str(claim.get("name")), str(claim.get("request") or "")
                found.setdefault(str(container.get("name")), []).append(pair)
    return found


def claim_specs(documents: Iterable[object]) -> dict[ClaimKey, object]:
    """Return the specs of the claims and templates in documents, also in lists."""
    return {key: spec for document in documents for key, spec in _specs(document)}


def _specs(document: object) -> Iterator[tuple[ClaimKey, object]]:
    if not isinstance(document, Mapping):
        return
    items = document.get("items")
    if isinstance(items, list):
        for item in items:
            yield from _specs(item)
    metadata, spec = document.get("metadata"), document.get("spec")
    kind = document.get("kind")
    if kind in (TEMPLATE, CLAIM) and isinstance(metadata, Mapping):
        if kind == TEMPLATE and isinstance(spec, Mapping):
            spec = spec.get("spec")
        namespace = str(metadata.get("namespace") or "default")
        yield (kind, namespace, str(metadata.get("name"))), spec


def _mapping(path: Path, value: object) -> Mapping[str, object]:
    """Return a mapping; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise WorkloadError(path, "expected a mapping")
    return value


def _list(path: Path, value: object) -> list[object]:
    """Return a list; null is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise WorkloadError(path, "expected a list")
    return value
