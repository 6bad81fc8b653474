"""Convert a parsed Pod manifest to the ``Pod`` of the memory manager.

A manifest is the output of `kubectl get pod -o yaml`, or a file for `kubectl apply`. The QoS class
is computed as in the kubelet, after the API server's default: a limit without a request is the
request too. Only containers, their resources and the QoS class are read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.memorymanager.pod import Container, ContainerKind, Pod, QosClass
from nri_numamem.numa.quantity import (
    EXACT_ONE,
    MEMORY,
    format_quantity,
    hugepages_page_size,
    is_memory_resource,
    parse_exact,
    parse_quantity,
)

_CLASSES = (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT)


@dataclass(frozen=True, slots=True)
class CpuAmounts:
    """The CPU request and limit of a container, in millicores."""

    request: int = 0
    limit: int | None = None


class ManifestError(ValueError):
    """A manifest is invalid; the text is one line that names the place."""


def pod_from_manifest(manifest: object) -> Pod:
    """Return the pod of a manifest; raise ManifestError with the place if it is invalid.

    For the kubelet's managers a pod with pod-level resources (`spec.resources`) counts as not
    Guaranteed (their feature gate PodLevelResourceManagers is off). Its containers have their
    limits in place of requests, because a runtime shows no others.
    """
    pod = _mapping("manifest", manifest)
    uid = _text("metadata.uid", _mapping("metadata", pod.get("metadata")).get("uid"))
    spec = _mapping("spec", pod.get("spec"))
    is_pod_level = spec.get("resources") is not None
    read = _memory_limits if is_pod_level else _memory_requests
    containers = tuple(
        Container(_text(f"{place}.name", found.get("name")), kind, read(place, found))
        for place, kind, found in _containers(spec)
    )
    if not any(container.kind is ContainerKind.APP for container in containers):
        raise ManifestError("spec.containers: no containers; a pod has at least one")
    names = [container.name for container in containers]
    for name in names:
        if names.count(name) > 1:
            raise ManifestError(f"spec: two containers have the name {name}; rename one")
    is_guaranteed = qos_class(pod) is QosClass.GUARANTEED and not is_pod_level
    return Pod(uid, is_guaranteed, containers, _memory_limits("spec", spec) or None)


def cpu_amounts(manifest: Mapping[str, object]) -> dict[str, CpuAmounts]:
    """Return container name -> its CPU request and limit; raise ManifestError as above."""
    found: dict[str, CpuAmounts] = {}
    for place, _, container in _containers(_mapping("spec", manifest.get("spec"))):
        requests, limits = _texts(place, container)
        here = f"{place}.resources"
        request = _millicores(f"{here}.requests.cpu", requests.get("cpu")) or 0
        limit = _millicores(f"{here}.limits.cpu", limits.get("cpu"))
        found[_text(f"{place}.name", container.get("name"))] = CpuAmounts(request, limit)
    return found


def _millicores(place: str, text: str | None) -> int | None:
    """Return an amount in millicores, rounded up. Source: apimachinery, Quantity.MilliValue."""
    if text is None:
        return None
    try:
        return max(0, -(-parse_exact(text) * 1000 // EXACT_ONE))
    except ValueError as error:
        raise ManifestError(f"{place}: {error}") from error


def qos_class(manifest: Mapping[str, object]) -> QosClass:
    """Return the QoS class in the status, or else the computed class.

    Each init and app container has a class; a pod whose containers differ is Burstable.
    Source: kubernetes, component-helpers qos (GetPodQOS, ComputePodQOS).
    """
    known = _mapping("status", manifest.get("status")).get("qosClass")
    if known is not None:
        name = _text("status.qosClass", known)
        if name not in _CLASSES:
            raise ManifestError(f"status.qosClass: {known!r} is not one of {', '.join(_CLASSES)}")
        return QosClass(name)
    spec = _mapping("spec", manifest.get("spec"))
    if spec.get("resources") is not None:
        return _class_of("spec", spec)
    classes = {_class_of(place, container) for place, _, container in _containers(spec)}
    if len(classes) == 1:
        return classes.pop()
    return QosClass.BURSTABLE if classes else QosClass.BEST_EFFORT


def _class_of(place: str, holder: Mapping[str, object]) -> QosClass:
    """Return the class of one set of requests and limits; only cpu and memory count."""
    requests, limits = _amounts(place, holder)
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    pairs = [(requests.get(r, 0), limits.get(r, 0)) for r in ("cpu", "memory")]
    if any(request != limit for request, limit in pairs):
        return QosClass.BURSTABLE
    has_limit = [limit > 0 for _, limit in pairs]
    if all(has_limit):
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE if any(has_limit) else QosClass.BEST_EFFORT


def _containers(
    spec: Mapping[str, object],
) -> Iterator[tuple[str, ContainerKind, Mapping[str, object]]]:
    """Yield place, kind and container in the kubelet's order: init containers first."""
    for field, default in (
        ("initContainers", ContainerKind.INIT),
        ("containers", ContainerKind.APP),
    ):
        found = spec.get(field) or []
        if not isinstance(found, list):
            raise ManifestError(f"spec.{field}: expected a list of containers")
        for index, entry in enumerate(found):
            place = f"spec.{field}[{index}]"
            container = _mapping(place, entry)
            is_sidecar = (
                default is ContainerKind.INIT and container.get("restartPolicy") == "Always"
            )
            yield place, ContainerKind.RESTARTABLE_INIT if is_sidecar else default, container


def _memory_requests(place: str, holder: Mapping[str, object]) -> dict[str, int]:
    """Return the requests of memory and hugepages in bytes."""
    return _memory_amounts(f"{place}.resources.requests", _texts(place, holder)[0])


def _memory_limits(place: str, holder: Mapping[str, object]) -> dict[str, int]:
    """Return the limits of memory and hugepages in bytes."""
    return _memory_amounts(f"{place}.resources.limits", _texts(place, holder)[1])


def _memory_amounts(place: str, texts: Mapping[str, str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for resource, text in texts.items():
        if is_memory_resource(resource):
            try:
                sizes[resource] = parse_quantity(text)
            except ValueError as error:
                raise ManifestError(
                    f"{place}.{resource}: [memorymanager] failed to represent quantity as int64: "
                    f"{error}"
                ) from error
            _check_whole_pages(f"{place}.{resource}", resource, sizes[resource])
    return sizes


def _check_whole_pages(place: str, resource: str, size_bytes: int) -> None:
    """Raise ManifestError for a part of a page. Source: Kubernetes' validation of containers."""
    try:
        page_bytes = 1 if resource == MEMORY else hugepages_page_size(resource)
    except ValueError:
        return  # no machine has such pages
    if size_bytes % page_bytes:
        problem = f"{format_quantity(size_bytes)} is not a whole number of pages"
        raise ManifestError(f"{place}: {problem} of {format_quantity(page_bytes)}")


def _amounts(place: str, holder: Mapping[str, object]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the exact requests and limits, as parse_exact() gives them."""

    def read(field: str, texts: Mapping[str, str]) -> dict[str, int]:
        amounts: dict[str, int] = {}
        for resource, text in texts.items():
            try:
                amounts[resource] = parse_exact(text)
            except ValueError as error:
                where = f"{place}.resources.{field}.{resource}"
                raise ManifestError(f"{where}: {error}") from error
        return amounts

    requests, limits = _texts(place, holder)
    return read("requests", requests), read("limits", limits)


def _texts(place: str, holder: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str]]:
    """Return requests and limits as written; a limit replaces a missing request."""
    here = f"{place}.resources"
    resources = _mapping(here, holder.get("resources"))
    limits = _quantities(f"{here}.limits", resources.get("limits"))
    requests = _quantities(f"{here}.requests", resources.get("requests"))
    for resource, text in requests.items():
        if resource in limits and _exceeds(text, limits[resource]):
            problem = f"{text} is above the limit {limits[resource]}"
            raise ManifestError(f"{here}.requests.{resource}: {problem}")
    return {**limits, **requests}, limits


def _exceeds(text: str, limit: str) -> bool:
    """Return whether a quantity is larger than another one; False if either is invalid."""
    try:
        return parse_exact(text) > parse_exact(limit)
    except ValueError:
        return False  # an error of its own follows


def _quantities(place: str, value: object) -> dict[str, str]:
    texts: dict[str, str] = {}
    for resource, text in _mapping(place, value).items():
        if not isinstance(text, str | int | float):
            raise ManifestError(f"{place}.{resource}: expected a quantity such as 1Gi")
        texts[resource] = str(text)
    return texts


def _mapping(place: str, value: object) -> Mapping[str, object]:
    """Return a mapping whose keys are text; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ManifestError(f"{place}: expected a mapping")
    return value


def _text(place: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ManifestError(f"{place}: expected a text that is not empty")
    return value
