"""Finds running containers that the runtime never reported.

CRI-O, and containerd before 1.7.26 and 2.0.3, lose containers that are created while the plugin
synchronizes. A runtime that launches the plugin with NRI <= 0.6.1 never synchronizes at all. So
twice after each Synchronize, or after the first event of a connection, the cgroups of Guaranteed
pods are searched for containers that are not in the engine's state; also the cgroups of pods that
are not in it, beside those of pods that are. A container that the runtime reported is skipped,
whatever the reply was.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from nri_numamem.engine.core.context import Context, qos_of_cgroup_parent
from nri_numamem.engine.core.events import (
    Container,
    ContainersFound,
    CreateContainer,
    Event,
    PodSandbox,
    RemoveContainer,
    Synchronize,
)
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import ContainerCgroupUnreadable
from nri_numamem.host.cgroups import cgroup_directory, pod_hugepage_limits, pod_memory_limit
from nri_numamem.host.containers import (
    cgroup_path,
    container_folders,
    is_populated,
    pod_directories,
    running_container,
)
from nri_numamem.host.numa_stat import container_use
from nri_numamem.host.sysfs import MachineError
from nri_numamem.memorymanager import QosClass

# After a container's creation its image's snapshot and its shim come before its cgroup; the later
# scan is for a host that is busy starting.
SCANS_AFTER_S = (5.0, 30.0)

# Far more than the kubelet's default of 110; the scan of a pod takes some 50 µs.
_PODS_LIMIT = 512

_Found = tuple[PodSandbox, Container]


class CgroupScan:
    """A job that runs a few times after the begin of a connection."""

    name = "cgroup scan"

    def __init__(self, cgroup_root: Path, wall_s: Callable[[], float]) -> None:
        """`wall_s` returns the Unix time, for the reasons in the engine's state."""
        self._cgroup_root = cgroup_root
        self._wall_s = wall_s
        self._due_s: list[float] | None = None
        """When to scan, in monotonic seconds; None before a connection's first event."""
        self._reported: set[str] = set()
        """Ids of containers that were reported or found; until their removal or the last scan."""

    def disconnected(self) -> None:
        """Cancel the scans: the next Synchronize reports all containers."""
        self._due_s = None

    def observe(self, event: Event, now_s: float) -> None:
        """Take note of an event of the runtime."""
        if self._due_s is None or isinstance(event, Synchronize):
            self._due_s = [now_s + after_s for after_s in SCANS_AFTER_S]
            self._reported = set()
        if not self._due_s:
            return
        if isinstance(event, Synchronize):
            self._reported.update(container.container_id for container in event.containers)
        elif isinstance(event, CreateContainer):
            self._reported.add(event.container.container_id)
        elif isinstance(event, RemoveContainer):
            self._reported.discard(event.container.container_id)

    def due(self, _engine: Engine, now_s: float) -> bool:
        """Return whether a scan is due."""
        return bool(self._due_s and now_s >= self._due_s[0])

    def run(self, engine: Engine, _now_s: float) -> Iterable[Record]:
        """Search the cgroups; let the engine adopt the containers that are found."""
        if not self._due_s:
            return ()
        del self._due_s[0]
        try:
            found = tuple(self._search(engine.context, engine.state))
        except MachineError as error:
            return (ContainerCgroupUnreadable(error=str(error)),)
        self._reported.update(container.container_id for _, container in found)
        if not self._due_s:
            self._reported = set()
        if not found:
            return ()
        return engine.apply(ContainersFound(found), int(self._wall_s())).records

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
        """Return the cgroups of Guaranteed pods, and their parent cgroups."""
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
            else:  # the cgroups of the other classes are one level below
                parents.add(directory.parent.parent)
        return places, parents

    def _search_pod(
        self, state: EngineState, directory: Path, pods: list[PodSandbox]
    ) -> Iterator[_Found]:
        folders = container_folders(directory)
        for container_id, name in folders.items():
            is_known = state.holder(container_id) is not None or container_id in state.pods
            if is_known or container_id in self._reported:
                continue
            running = running_container(self._cgroup_root, directory / name)
            if running is not None:
                pod = _sandbox_of(pods, directory, folders)
                use = None
                if not running.mems:
                    use = container_use(self._cgroup_root, directory / name)
                yield (
                    pod,
                    Container(
                        container_id,
                        pod.sandbox_id,
                        name=container_id,
                        memory_limit_bytes=running.memory_limit_bytes,
                        cgroup_mems=running.mems,
                        cgroup_use=use,
                    ),
                )

    def _pod(self, uid: str, directory: Path) -> PodSandbox:
        path = cgroup_path(self._cgroup_root, directory)
        limits = pod_hugepage_limits(self._cgroup_root, path)
        memory_bytes = pod_memory_limit(self._cgroup_root, path)
        return PodSandbox(path, uid, "", "", path, memory_bytes, limits)


def _sandbox_of(pods: list[PodSandbox], directory: Path, folders: Mapping[str, str]) -> PodSandbox:
    """Return the running sandbox of a pod, which may also have old ones."""
    for pod in pods:
        pause = folders.get(pod.sandbox_id)
        if pause is not None and is_populated(directory / pause):
            return pod
    return pods[-1]
