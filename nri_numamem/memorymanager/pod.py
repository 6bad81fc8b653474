"""A pod as the managers see it: its containers, their kinds and requests, and the pod's request.

Where the values come from (a manifest, the runtime) is not known here.
"""

from collections.abc import Mapping
from enum import StrEnum

from nri_numamem.memorymanager.state import Request
from nri_numamem.values import valueclass


class ContainerKind(StrEnum):
    """How a container lives; it decides who may reuse its memory."""

    INIT = "init"
    """Ordinary init container: ends before the app containers start."""
    RESTARTABLE_INIT = "restartable-init"
    """Sidecar: an init container that keeps running."""
    APP = "app"


@valueclass(frozen=True, slots=True)
class Container:
    """One container and what it asks for."""

    name: str
    kind: ContainerKind
    requests: Request


@valueclass(frozen=True, slots=True)
class Pod:
    """A pod, or as much of it as is known: the NRI path sees one container after the other."""

    uid: str
    guaranteed: bool
    containers: tuple[Container, ...]
    """In the kubelet's order: init containers first."""

    def container(self, name: str) -> Container:
        """Return the container of that name; KeyError when the pod has none."""
        for container in self.containers:
            if container.name == name:
                return container
        raise KeyError(f"pod {self.uid} has no container {name}")


def pod_request(pod: Pod) -> Request:
    """Return what the whole pod needs at its peak, for each resource that an app names.

    Source: kubelet memorymanager, getPodRequestedResources: sidecars add up with the apps, an
    ordinary init container counts with the sidecars that were started before it.
    """
    sidecars: dict[str, int] = {}
    peak_of_inits: dict[str, int] = {}
    apps: dict[str, int] = {}
    for container in pod.containers:
        for resource, size_bytes in container.requests.items():
            if container.kind is ContainerKind.INIT:
                at_once = sidecars.get(resource, 0) + size_bytes
                peak_of_inits[resource] = max(peak_of_inits.get(resource, 0), at_once)
            else:
                is_app = container.kind is ContainerKind.APP
                sums: dict[str, int] = apps if is_app else sidecars
                sums[resource] = sums.get(resource, 0) + size_bytes
    return _peak(apps, sidecars, peak_of_inits)


def _peak(apps: Request, sidecars: Request, peak_of_inits: Mapping[str, int]) -> Request:
    return {
        resource: max(size_bytes + sidecars.get(resource, 0), peak_of_inits.get(resource, 0))
        for resource, size_bytes in apps.items()
    }
