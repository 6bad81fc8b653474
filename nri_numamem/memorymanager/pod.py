"""A pod as the managers see it: its containers, their kinds and requests, and the pod's request.

The values come from a manifest or from the runtime; this module depends on neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.state import Request


class QosClass(StrEnum):
    """Quality of service class of a pod, as Kubernetes names it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"
    UNKNOWN = "Unknown"
    """Not a class of Kubernetes: the pod is not the kubelet's, or its class cannot be read."""


class ContainerKind(StrEnum):
    """When a container runs; the kind decides which containers may reuse its memory."""

    INIT = "init"
    """Ordinary init container: ends before the app containers start."""
    RESTARTABLE_INIT = "restartable-init"
    """Sidecar: an init container that keeps running."""
    APP = "app"


@dataclass(frozen=True, slots=True)
class Container:
    """One container and its request."""

    name: str
    kind: ContainerKind
    requests: Request


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with the containers that are known so far: NRI reports one container at a time."""

    uid: str
    guaranteed: bool
    containers: tuple[Container, ...]
    """In the kubelet's order: init containers first."""
    limits: Request | None = None
    """Pod-level limits (`spec.resources`): resource -> bytes that all containers share."""

    def container(self, name: HolderName) -> Container:
        """Return the container of that name; KeyError if the pod has none.

        A pod that is placed as a whole has one container, named by the text of the kind.
        """
        text = str(name)
        for container in self.containers:
            if container.name == text:
                return container
        raise KeyError(f"pod {self.uid} has no container {name}")


def pod_request(pod: Pod) -> Request:
    """Return the largest amounts that the pod needs at one time, per resource: its cgroup's limits.

    They are the sum of sidecars and apps, or the largest sum of an ordinary init container and the
    sidecars that start before it. Source: kubelet memorymanager, getPodRequestedResources, which
    leaves out resources that no app container names; k8s.io/component-helpers, PodLimits.
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
        resource: max(
            apps.get(resource, 0) + sidecars.get(resource, 0), peak_of_inits.get(resource, 0)
        )
        for resource in {**apps, **sidecars, **peak_of_inits}
    }
