"""Reads where the pages of managed containers are, and compares what is left on their nodes.

A round reads each container once, some at a tick (``cgroup_sweep``). What is available per NUMA
node is read before and after a round, because containers allocate while it lasts; an alarm counts
only if it follows from both. ``engine.features.residency`` decides.

Only for the setting `residency`; without it the module is not loaded.
"""

from collections.abc import Iterable, Iterator, Mapping

from nri_numamem.daemon.cgroup_sweep import (
    CONTAINERS_PER_TICK,
    ContainerCgroups,
    PageRound,
    assigned_containers,
)
from nri_numamem.engine.core.fields import holder_names
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.cpusets.check import nodes_of_container
from nri_numamem.engine.cpusets.records import pages_shown
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.residency import records
from nri_numamem.engine.features.residency.head_room import head_rooms, judge, unfaulted_bytes
from nri_numamem.engine.features.residency.remote_memory import (
    Round,
    judge_remote,
    likely_causes,
)
from nri_numamem.engine.features.residency.setting import Residency
from nri_numamem.engine.records.record import Record
from nri_numamem.host.cgroups import set_mems
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_available
from nri_numamem.numa.pages import Pages


class ResidencyCheck:
    """A periodic job. Any thread may read `last`."""

    name = "residency check"

    def __init__(
        self,
        setting: Residency,
        roots: HostRoots,
        *,
        per_tick: int = CONTAINERS_PER_TICK,
    ) -> None:
        self.last = Round(per_container=setting.per_container)
        """What the last complete round found."""
        self._setting = setting
        self._roots = roots
        self._page_round = PageRound(roots.cgroup, per_tick)
        self._begun_at_s: float | None = None
        self._is_reading = False
        self._found: dict[str, Pages] = {}
        self._available: Mapping[int, int] = {}
        """As it was when the round began."""

    def due(self, _engine: Engine, now_s: float) -> bool:
        """Return whether a round goes on, or the next one begins."""
        begun_at_s = self._begun_at_s
        is_over = begun_at_s is None or now_s - begun_at_s >= self._setting.interval_s
        return self._is_reading or is_over

    def run(self, engine: Engine, now_s: float) -> Iterable[Record]:
        """Read some containers; return the records of a round that is complete."""
        state = engine.state
        if not self._is_reading:
            self._begun_at_s, self._is_reading = now_s, True
            self._found, self._available = {}, self._read_available()
            self._page_round.begin(assigned_containers(state))
        for container_id, pages in self._page_round.read(state):
            if pages is not None:
                self._found[container_id] = pages
        if not self._page_round.is_over:
            return ()
        self._is_reading = False
        return list(self._finish(state))

    def _read_available(self) -> Mapping[int, int]:
        try:
            return read_available(self._roots.sysfs)
        except MachineError:
            return {}  # the watch of the machine records such files

    def _finish(self, state: EngineState) -> Iterator[Record]:
        """Compare what the round found; yield the records."""
        setting, before = self._setting, self.last
        pages = {one: found for one, found in self._found.items() if state.holder(one) is not None}
        resident = {one: found.charged_bytes for one, found in pages.items()}
        available = self._read_available()
        rooms = head_rooms(state, resident, available, self._available)
        low_nodes = None
        if setting.head_room is not None:
            verdict = judge(rooms, setting.head_room, before.low_nodes or frozenset())
            low_nodes = verdict.low_nodes
            for room in verdict.raised:
                yield records.head_room(room, setting.head_room, is_low=True)
            for room in verdict.cleared:
                yield records.head_room(room, setting.head_room, is_low=False)
        remote = judge_remote(state, pages, before.remote, setting.remote_percent)
        for container_id in remote.raised:
            yield self._found_remote(state, container_id, pages[container_id])
        for container_id in remote.cleared:
            nodes = nodes_of_container(state, container_id)
            holder = state.holders[state.keys[container_id]]
            yield records.RemoteMemoryCleared(
                names=holder_names(state, holder),
                nodes=nodes,
                pages=pages_shown(nodes, pages[container_id]),
            )
        self.last = Round(
            pages=pages,
            available=available,
            unfaulted=unfaulted_bytes(state, resident),
            head_rooms=rooms,
            low_nodes=low_nodes,
            remote=remote.rounds,
            per_container=setting.per_container,
        )

    def _found_remote(self, state: EngineState, container_id: str, pages: Pages) -> Record:
        holder = state.holders[state.keys[container_id]]
        nodes = nodes_of_container(state, container_id)
        try:
            directory = ContainerCgroups(self._roots.cgroup, state).directory(holder)
            mems = None if directory is None else set_mems(directory)
        except MachineError:
            mems = None
        is_v1 = not (self._roots.cgroup / "cgroup.controllers").exists()
        causes = likely_causes(state, container_id, pages, mems, is_v1=is_v1)
        return records.RemoteMemoryFound(
            names=holder_names(state, holder),
            nodes=nodes,
            pages=pages_shown(nodes, pages),
            cause="; ".join(causes),
        )
