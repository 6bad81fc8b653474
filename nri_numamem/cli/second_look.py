"""Looks at the cgroups of Guaranteed pods: when the runtime tells of them, and later again.

The first look is for what the runtime does not say (a pod's hugepage limits) or says wrong: at
Synchronize it may show another `cpuset.mems` than the cgroup has. The second is for running
containers that nobody told of, some time after a connection has begun.

CRI-O, and containerd before 1.7.26 and 2.0.3, lose what is created while the plugin synchronizes.
A runtime that launches the plugin with NRI <= 0.6.1 never synchronizes at all. So twice after each
Synchronize, or after a connection's first event, the cgroups of Guaranteed pods are searched for
containers that the engine does not hold; also those of pods that it does not know, beside the
known ones. What the runtime told was answered, whatever the answer, and is passed over.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import (
    Container,
    ContainersFound,
    CreateContainer,
    Event,
    PodSandbox,
    Synchronize,
)
from nri_numamem.engine.plan import Record
from nri_numamem.engine.qos import QosClass, qos_of_cgroup_parent
from nri_numamem.engine.state import EngineState
from nri_numamem.machine.cgroups import cgroup_directory, container_mems, pod_hugepage_limits
from nri_numamem.machine.running import (
    cgroup_path,
    container_folders,
    is_populated,
    pod_directories,
    running_container,
)
from nri_numamem.machine.sysfs import MachineError
from nri_numamem.memorymanager import NodeSet

# Between its creation and its cgroup a container waits for its image's snapshot and its shim;
# the later look is for a host that is busy starting.
LOOKS_AFTER_S = (5.0, 30.0)

# Far more than the kubelet's default of 110; a look at a pod takes some 50 µs.
_PODS_LIMIT = 512

_Found = tuple[PodSandbox, Container]


class SecondLook:
    """Knows when to look, and what needs no look; gives to `emit` what is to be logged."""

    def __init__(self, cgroup_root: Path, emit: Callable[[Record], None]) -> None:
        self._cgroup_root = cgroup_root
        self._emit = emit
        self._due_s: list[float] | None = None
        """When to look, in the clock's seconds; None before a connection's first event."""
        self._told: set[str] = set()
        """Container ids that were told or found since; not kept up to date after the last look."""

    def disconnected(self) -> None:
        """Look no more: what is to be found now the next Synchronize will tell."""
        self._due_s = None

    def heard(self, event: Event, now_s: float) -> None:
        """Note an event that has been answered."""
        if self._due_s is None or isinstance(event, Synchronize):
            self._due_s = [now_s + after_s for after_s in LOOKS_AFTER_S]
            self._told = set()
        if not self._due_s:
            return
        if isinstance(event, Synchronize):
            self._told.update(container.container_id for container in event.containers)
        elif isinstance(event, CreateContainer):
            self._told.add(event.container.container_id)

    def hugepages(self, cgroup_parent: str) -> Mapping[int, int]:
        """Return the hugepage limits of a pod's cgroup, in bytes by page size in bytes.

        Empty for a pod that is not Guaranteed: nobody asks for those.
        """
        if qos_of_cgroup_parent(cgroup_parent) is not QosClass.GUARANTEED:
            return {}
        try:
            return pod_hugepage_limits(self._cgroup_root, cgroup_parent)
        except MachineError as error:
            self._failed("pod", error)
            return {}

    def first(self, engine: Engine | None, cgroup_parent: str, cgroups_path: str) -> NodeSet:
        """Return `cpuset.mems` of the cgroup of a container that is told of.

        Empty for a container of a pod that is not managed.
        """
        is_guaranteed = qos_of_cgroup_parent(cgroup_parent) is QosClass.GUARANTEED
        if engine is None or not (is_guaranteed and engine.context.is_static):
            return NodeSet()
        try:
            return container_mems(self._cgroup_root, cgroups_path)
        except MachineError as error:
            self._failed("container", error)
            return NodeSet()

    def look(self, engine: Engine | None, now_s: float) -> None:
        """Let the engine take what is found, if a look is due."""
        if engine is None or not self._due_s or now_s < self._due_s[0]:
            return
        del self._due_s[0]
        try:
            found = tuple(self._search(engine.context, engine.state))
        except MachineError as error:
            self._failed("container", error)
            return
        self._told.update(container.container_id for _, container in found)
        if found:
            for record in engine.handle(ContainersFound(found)).records:
                self._emit(record)

    def _failed(self, whose: str, error: MachineError) -> None:
        self._emit(Record(f"cannot read a {whose}'s cgroup", "warning", {"error": str(error)}))

    def _search(self, context: Context, state: EngineState) -> Iterator[_Found]:
        places, parents = self._known_places(state)
        for parent in sorted(parents):
            for uid, directory in pod_directories(parent).items():
                if directory not in places and len(places) < _PODS_LIMIT:
                    places[directory] = [self._pod(uid, directory)]
        for directory, pods in islice(places.items(), _PODS_LIMIT):
            if context.manages(pods[0]):
                yield from self._search_pod(state, directory, pods)

    def _known_places(self, state: EngineState) -> tuple[dict[Path, list[PodSandbox]], set[Path]]:
        """Return the cgroups of Guaranteed pods, and those in which such pods lie."""
        places: dict[Path, list[PodSandbox]] = {}
        parents: set[Path] = set()
        for pod in state.pods.values():
            qos = qos_of_cgroup_parent(pod.cgroup_parent)
            if qos is QosClass.UNKNOWN or (parents and qos is not QosClass.GUARANTEED):
                continue
            directory = cgroup_directory(self._cgroup_root, pod.cgroup_parent, "cpuset")
            if directory is None:
                continue
            if qos is QosClass.GUARANTEED:
                places.setdefault(directory, []).append(pod)
                parents.add(directory.parent)
            else:  # the other classes lie one level below
                parents.add(directory.parent.parent)
        return places, parents

    def _search_pod(
        self, state: EngineState, directory: Path, pods: list[PodSandbox]
    ) -> Iterator[_Found]:
        folders = container_folders(directory)
        for container_id, name in folders.items():
            is_known = state.holder(container_id) is not None or container_id in state.pods
            if is_known or container_id in self._told:
                continue
            running = running_container(self._cgroup_root, directory / name)
            if running is not None:
                pod = _sandbox_of(pods, directory, folders)
                yield (
                    pod,
                    Container(
                        container_id,
                        pod.sandbox_id,
                        name=container_id,
                        memory_limit_bytes=running.memory_limit_bytes,
                        cgroup_mems=running.mems,
                    ),
                )

    def _pod(self, uid: str, directory: Path) -> PodSandbox:
        path = cgroup_path(self._cgroup_root, directory)
        limits = pod_hugepage_limits(self._cgroup_root, path)
        return PodSandbox(path, uid, "", "", path, hugepage_limits=limits)


def _sandbox_of(pods: list[PodSandbox], directory: Path, folders: Mapping[str, str]) -> PodSandbox:
    """Return the sandbox that runs; a pod may have old ones besides."""
    for pod in pods:
        pause = folders.get(pod.sandbox_id)
        if pause is not None and is_populated(directory / pause):
            return pod
    return pods[-1]
