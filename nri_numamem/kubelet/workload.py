"""Objects of Kubernetes that make pods: what ``kubectl get -o yaml`` prints, or a file for apply.

A pod makes itself; the others have a template and a number of pods. Objects that make no pods, such
as a Service in the same file, are left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nri_numamem.kubelet.manifest import ManifestError

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the document."""

# More pods than a host has.
REPLICAS_MOST = 10_000

_TEMPLATE = ("spec", "template")
# Kind -> path of the pod template.
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Deployment": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
KINDS = ("Pod", *_TEMPLATES)


class WorkloadError(ManifestError):
    """An object is invalid; the text is one line that names the place, as `path` does."""

    def __init__(self, path: Path, problem: str) -> None:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        place = "".join(steps).removeprefix(".")
        super().__init__(f"{place}: {problem}" if place else problem)
        self.path = path


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that makes pods."""

    kind: str
    namespace: str
    name: str
    replicas: int
    """How many pods it makes on one host at most; a DaemonSet makes one."""
    manifest: Mapping[str, object]
    """The pod, or the template, which has no uid."""
    path: Path
    """Of `manifest`."""

    @property
    def uid(self) -> str:
        """The uid of a pod that exists; "" for others."""
        metadata = self.manifest.get("metadata")
        uid = metadata.get("uid") if self.kind == "Pod" and isinstance(metadata, Mapping) else None
        return uid if isinstance(uid, str) else ""


def is_kubernetes_object(document: object) -> bool:
    """Return whether a document is an object of Kubernetes, of any kind."""
    return isinstance(document, Mapping) and isinstance(document.get("kind"), str)


def workloads_of(document: object, path: Path = ()) -> Iterator[Workload]:
    """Yield the objects that make pods, also those in lists; raise WorkloadError."""
    if not isinstance(document, Mapping):
        raise WorkloadError(path, "expected an object with kind, such as a Pod")
    kind = document.get("kind")
    if not isinstance(kind, str):
        raise WorkloadError(path, f"no kind; expected an object such as {', '.join(KINDS)}")
    if kind == "List" or (kind.endswith("List") and "items" in document):
        items = document.get("items") or []
        if not isinstance(items, list):
            raise WorkloadError((*path, "items"), "expected a list of objects")
        for index, item in enumerate(items):
            yield from workloads_of(item, (*path, "items", index))
    elif kind in KINDS:
        yield _workload(kind, document, path)


def _workload(kind: str, document: Mapping[str, object], path: Path) -> Workload:
    metadata = _mapping((*path, "metadata"), document.get("metadata"))
    there = _TEMPLATES.get(kind, ())
    manifest, here = document, path
    for key in there:
        here = (*here, key)
        manifest = _mapping(here, manifest.get(key))
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str) or not name:
        raise WorkloadError((*path, "metadata", "name"), "missing; write a name")
    namespace = metadata.get("namespace") or "default"
    if not isinstance(namespace, str):
        raise WorkloadError((*path, "metadata", "namespace"), "expected a text")
    replicas = _replicas(kind, document, path)
    return Workload(kind, namespace, name, replicas, manifest, here)


def _replicas(kind: str, document: Mapping[str, object], path: Path) -> int:
    """Return the number of pods at a time. Source: Kubernetes' API reference, with its defaults."""
    here = (*path, "spec")
    spec = _mapping(here, document.get("spec"))
    if kind in ("Pod", "DaemonSet"):
        return 1
    if kind == "CronJob":
        here = (*here, "jobTemplate", "spec")
        spec = _mapping(here, _mapping(here[:-1], spec.get("jobTemplate")).get("spec"))
    if kind in ("Job", "CronJob"):
        parallelism = _count((*here, "parallelism"), spec.get("parallelism"))
        if spec.get("completions") is None:
            return parallelism
        return min(parallelism, _count((*here, "completions"), spec.get("completions")))
    return _count((*here, "replicas"), spec.get("replicas"))


def _count(path: Path, value: object) -> int:
    if value is None:
        return 1
    if type(value) is not int or not 0 <= value <= REPLICAS_MOST:
        raise WorkloadError(path, f"expected a number from 0 to {REPLICAS_MOST}")
    return value


def _mapping(path: Path, value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise WorkloadError(path, "expected a mapping")
    return value
