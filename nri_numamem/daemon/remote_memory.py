"""Reads how much memory of pinned containers is on other NUMA nodes than theirs.

For the metrics, on the thread of a scrape. Reading `memory.numa_stat` takes the kernel up to some
milliseconds, so each scrape reads CONTAINERS_LIMIT containers, in turn; of the others it uses what
an earlier scrape read.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from nri_numamem.engine.core.state import POOL, EngineState, Holder
from nri_numamem.host.cgroups import cgroup_directory
from nri_numamem.host.containers import container_folders
from nri_numamem.host.numa_stat import private_bytes
from nri_numamem.host.sysfs import MachineError

CONTAINERS_LIMIT = 64


class RemoteMemory:
    """The amounts that were read; any thread may call `read`."""

    def __init__(
        self,
        cgroup_root: Path,
        get_state: Callable[[], EngineState | None],
        *,
        limit: int = CONTAINERS_LIMIT,
    ) -> None:
        self._cgroup_root = cgroup_root
        self._get_state = get_state
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: list[Holder] = []
        """Containers that this round has not read yet, the next one last."""
        self._remote: dict[str, dict[int, int]] = {}
        """Container id -> node -> bytes, of containers that have some on other nodes."""

    def read(self) -> Mapping[int, int]:
        """Return node -> bytes there of containers that are pinned to other nodes.

        A scrape that comes while another one reads gets what was read before.
        """
        state = self._get_state()
        if state is None:
            return {}
        if self._lock.acquire(blocking=False):
            try:
                self._read_some(state)
            finally:
                self._lock.release()
        sums: dict[int, int] = {}
        for container_id, amounts in self._remote.copy().items():
            holder = state.holder(container_id)
            if holder is not None and not holder.ended:
                for node, size_bytes in amounts.items():
                    sums[node] = sums.get(node, 0) + size_bytes
        return dict(sorted(sums.items()))

    def _read_some(self, state: EngineState) -> None:
        if not self._waiting:
            self._waiting = list(_pinned(state))
            known = {holder.container_id for holder in self._waiting}
            self._remote = {one: b for one, b in self._remote.items() if one in known}
        for holder in self._waiting[-self._limit :]:
            remote = self._remote_bytes(state, holder)
            if remote:
                self._remote[holder.container_id] = remote
            else:
                self._remote.pop(holder.container_id, None)
        del self._waiting[-self._limit :]

    def _remote_bytes(self, state: EngineState, holder: Holder) -> dict[int, int]:
        """Return node -> bytes on nodes that the container is not pinned to."""
        pod, blocks = state.pods.get(holder.sandbox_id), state.blocks(holder.key)
        parent = None
        if pod is not None:
            parent = cgroup_directory(self._cgroup_root, pod.cgroup_parent, "cpuset")
        if parent is None or not blocks:
            return {}
        try:
            name = container_folders(parent).get(holder.container_id)
            amounts = None if name is None else private_bytes(self._cgroup_root, parent / name)
        except MachineError:
            return {}  # the check of cgroups records such files
        nodes = blocks[0].numa_affinity
        return {n: size for n, size in (amounts or {}).items() if size and n not in nodes}


def _pinned(state: EngineState) -> Iterator[Holder]:
    """Yield the live containers with assignments, but not those whose cgroup has no nodes."""
    unpinned = state.cpusets.unpinned | state.cpusets.repairs.keys()
    for holder in state.holders.values():
        if not holder.ended and holder.key[1] != POOL and holder.container_id not in unpinned:
            yield holder
