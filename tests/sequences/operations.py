"""What happens in the life of a node: pods, their containers, and operations on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import NodeSet
from tests.sequences.machine import PAGE_SIZES


@dataclass(frozen=True, slots=True)
class Spec:
    """A container of a pod specification."""

    name: str
    memory_bytes: int
    hugepages: Mapping[int, int]
    """Page size in bytes -> bytes, for every page size of the host."""
    is_init: bool = False
    memory_low_bytes: int = 0
    """The memory request of a container of a Burstable pod."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod, in one sandbox."""

    name: str
    qos: QosClass
    specs: tuple[Spec, ...]
    attempt: int = 0
    """Number of the sandbox: an ended pod may return under its uid."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    memory_limit_bytes: int | None = None

    @property
    def key(self) -> str:
        """Name of this sandbox; operations name it."""
        return f"{self.name}.{self.attempt}" if self.attempt else self.name

    @property
    def is_guaranteed(self) -> bool:
        return self.qos is QosClass.GUARANTEED


def pod_hugepages(specs: tuple[Spec, ...]) -> dict[int, int]:
    """Return page size -> limit of the pod's cgroup: the maximum that runs at once."""
    found = {}
    for size in PAGE_SIZES:
        apps = sum(spec.hugepages.get(size, 0) for spec in specs if not spec.is_init)
        found[size] = max([apps, *(spec.hugepages.get(size, 0) for spec in specs if spec.is_init)])
    return found


@dataclass(frozen=True, slots=True)
class StartPod:
    """A sandbox starts."""

    pod: PodSpec


@dataclass(frozen=True, slots=True)
class CreateNext:
    """The pod's init container ends, or the next container that it lacks is created."""

    pod: str
    container: str = ""
    """Create this one, whether or not it runs."""
    fails_later: bool = False
    """The creation fails in the runtime after the plugin's reply."""
    preset: NodeSet = field(default_factory=NodeSet)
    """Nodes that another plugin sets before this one."""


@dataclass(frozen=True, slots=True)
class EndContainer:
    """A container crashes; its pod creates it again later."""

    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class RemoveContainer:
    """An ended container is removed, as the kubelet's garbage collection does."""

    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Resize:
    """The memory limit of a running container changes."""

    pod: str
    container: str
    memory_bytes: int
    memory_low_bytes: int


@dataclass(frozen=True, slots=True)
class EndPod:
    """A pod ends, with calls or without."""

    pod: str
    is_reported: bool = True
    is_swept: bool = False
    """The plugin has seen the pod's cgroup before an end without calls."""


@dataclass(frozen=True, slots=True)
class ForgetPod:
    """The runtime removes the sandbox of a pod that ended without calls."""

    pod: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Something breaks."""

    kinds: tuple[str, ...]
    """By preference."""
    seed: str
    """Of the details."""


OfPod: TypeAlias = CreateNext | EndContainer | RemoveContainer | Resize | EndPod | ForgetPod
Operation: TypeAlias = StartPod | OfPod
