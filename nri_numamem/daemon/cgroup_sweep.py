"""Goes through the cgroups of known containers, with a limit on the containers at a time.

The consumers choose the containers and the time:

| consumer | when | containers at a time |
|---|---|---|
| ``cpuset_check`` | after a Synchronize, then each container once in 5 min | a slice of the pods |
| ``pod_reaper`` | every 5 s | those that are recorded under their id |
| ``residency_check`` | in rounds, with the setting | CONTAINERS_PER_TICK |
| `RemoteMemory` | at a scrape of the metrics | CONTAINERS_PER_SCRAPE |

``cgroup_scan`` searches for unknown containers, so it goes through pods instead. Memory is *remote*
if it is on other NUMA nodes than those of the container and not page cache (`Pages.remote`).
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.cpusets.check import nodes_of_container
from nri_numamem.engine.engine import Committed
from nri_numamem.host.cgroups import cgroup_directory
from nri_numamem.host.containers import container_folders
from nri_numamem.host.numa_stat import read_pages
from nri_numamem.host.sysfs import MachineError
from nri_numamem.numa.pages import Pages, summed

# The kernel takes up to some milliseconds for one `memory.numa_stat`. A request waits for a tick;
# nothing but the scrape waits for a scrape.
CONTAINERS_PER_TICK = 32
CONTAINERS_PER_SCRAPE = 64


def assigned_containers(state: EngineState) -> list[Holder]:
    """Return the live containers with assignments."""
    return [h for h in state.holders.values() if not h.ended and isinstance(h.key[1], str)]


class ContainerCgroups:
    """The cgroups of the containers in one state; lists the cgroup of each pod once."""

    def __init__(self, cgroup_root: Path, state: EngineState) -> None:
        self._cgroup_root = cgroup_root
        self._state = state
        self._listed: dict[str, tuple[Path, Mapping[str, str]]] = {}
        """Sandbox id -> the pod's cgroup; container id -> its directory in there."""

    def ids(self, sandbox_id: str) -> Iterable[str]:
        """Return the ids of the containers that have a cgroup in that of their pod.

        Raises MachineError.
        """
        return self._list(sandbox_id)[1]

    def directory(self, holder: Holder) -> Path | None:
        """Return the directory of a container's cpuset; None if there is none.

        Raises MachineError.
        """
        parent, folders = self._listed.get(holder.sandbox_id) or self._list(holder.sandbox_id)
        name = folders.get(holder.container_id)
        return None if name is None else parent / name

    def pages(self, holder: Holder) -> Pages | None:
        """Return the resident memory of a container; None if it is unknown."""
        try:
            directory = self.directory(holder)
            return None if directory is None else read_pages(self._cgroup_root, directory)
        except MachineError:
            return None  # the check of cpusets records such files

    def _list(self, sandbox_id: str) -> tuple[Path, Mapping[str, str]]:
        pod, parent = self._state.pods.get(sandbox_id), None
        if pod is not None:
            parent = cgroup_directory(self._cgroup_root, pod.cgroup_parent, "cpuset")
        listed = (Path(), {}) if parent is None else (parent, container_folders(parent))
        self._listed[sandbox_id] = listed
        return listed


class PageRound:
    """Reads the pages of containers, each once in a round, `limit` of them at a time."""

    def __init__(self, cgroup_root: Path, limit: int) -> None:
        self._cgroup_root = cgroup_root
        self._limit = limit
        self._waiting: list[Holder] = []
        """Containers that this round has not read yet, the next one last."""

    @property
    def is_over(self) -> bool:
        """Whether all containers of the round were read."""
        return not self._waiting

    def begin(self, holders: list[Holder]) -> None:
        """Begin a round over these containers."""
        self._waiting = holders

    def read(self, state: EngineState) -> Iterator[tuple[str, Pages | None]]:
        """Yield id and pages of the next containers; None for pages that are unknown."""
        cgroups = ContainerCgroups(self._cgroup_root, state)
        some = self._waiting[-self._limit :]
        del self._waiting[-self._limit :]
        return ((holder.container_id, cgroups.pages(holder)) for holder in some)


class RemoteMemory:
    """How much memory of pinned containers is remote, for the metrics.

    It is read on the thread of a scrape; any thread may call `read`.
    """

    def __init__(
        self,
        cgroup_root: Path,
        committed: Callable[[], Committed | None],
        *,
        limit: int = CONTAINERS_PER_SCRAPE,
    ) -> None:
        self._committed = committed
        self._lock = threading.Lock()
        self._round = PageRound(cgroup_root, limit)
        self._remote: dict[str, dict[int, int]] = {}
        """Container id -> node -> bytes, of containers that have remote memory."""

    def read(self) -> Mapping[int, int]:
        """Return node -> bytes there of containers that are pinned to other nodes.

        Each scrape reads some containers; for the others the result of an earlier scrape counts.
        During the reads of one scrape another one gets the earlier results.
        """
        committed = self._committed()
        if committed is None:
            return {}
        state = committed.state
        if self._lock.acquire(blocking=False):
            try:
                self._read_some(state)
            finally:
                self._lock.release()
        found = self._remote.copy().items()
        holders = {container_id: state.holder(container_id) for container_id, _ in found}
        return summed(
            amounts for one, amounts in found if (h := holders[one]) is not None and not h.ended
        )

    def _read_some(self, state: EngineState) -> None:
        if self._round.is_over:
            # A container without nodes in its cgroup is not pinned.
            unpinned = state.cpusets.unpinned | state.cpusets.repairs.keys()
            pinned = [h for h in assigned_containers(state) if h.container_id not in unpinned]
            self._round.begin(pinned)
            known = {holder.container_id for holder in pinned}
            self._remote = {one: b for one, b in self._remote.items() if one in known}
        for container_id, pages in self._round.read(state):
            nodes = nodes_of_container(state, container_id)
            remote = pages.remote(nodes) if pages is not None and nodes else {}
            if remote:
                self._remote[container_id] = remote
            else:
                self._remote.pop(container_id, None)
