"""Compares the cgroups of known containers with the accounting.

All containers are compared 5 and 30 s after each Synchronize, when containers that were being
started at its time have their cgroups. Afterwards each container is compared once in five minutes.
A container whose repair waits for a reply is compared at each tick, because its memory may grow
meanwhile. A value that differs counts only if two ticks show it: a runtime writes `cpuset.mems`
some time after it makes a cgroup.

``engine.cpusets.verdict`` has the rules.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from nri_numamem.daemon.cgroup_scan import SCANS_AFTER_S
from nri_numamem.daemon.cgroup_sweep import ContainerCgroups
from nri_numamem.engine.core.events import CpusetRead, CpusetsRead
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.cpusets import records
from nri_numamem.engine.cpusets.check import nodes_of_container
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import ContainerCgroupUnreadable
from nri_numamem.host.cgroups import set_mems
from nri_numamem.host.containers import is_populated
from nri_numamem.host.numa_stat import container_use, read_pages
from nri_numamem.host.sysfs import MachineError
from nri_numamem.numa import NodeSet

SLICE_S = 10.0
ROUND_S = 300.0
"""Each container is compared once in this time, a slice of the sandboxes every SLICE_S."""

# As in the scan of cgroups; a pod with one container takes some 50 µs.
_PODS_LIMIT = 512


class CpusetCheck:
    """A periodic job that compares `cpuset.mems` in the cgroups with the engine's state."""

    name = "cpuset check"

    def __init__(self, cgroup_root: Path, wall_s: Callable[[], float]) -> None:
        """`wall_s` returns the Unix time, for the reasons in the engine's state."""
        self._cgroup_root = cgroup_root
        self._wall_s = wall_s
        self._due_s: list[float] = []
        """When to compare all containers, in monotonic seconds."""
        self._slice_at_s: float | None = None
        self._last_sandbox = ""
        """The last sandbox of the last slice, in the order of their ids."""
        self._suspects: dict[str, NodeSet] = {}
        """Container id -> the value that differed at the last tick."""
        self._repairs: dict[str, NodeSet] = {}
        """Container id -> the nodes that a repair is to set, until its cgroup has them."""
        self._restored: list[Record] = []
        self._error = ""
        """The error of the last run, which is recorded once."""

    def synchronized(self, now_s: float) -> None:
        """Compare all containers some time after a Synchronize."""
        self._due_s = [now_s + after_s for after_s in SCANS_AFTER_S]
        self._suspects.clear()

    def due(self, engine: Engine, now_s: float) -> bool:
        """Return whether containers are to be compared."""
        is_due = bool(self._due_s) and now_s >= self._due_s[0]
        return is_due or self._is_slice_due(now_s) or self._is_waiting(engine.state)

    def run(self, engine: Engine, now_s: float) -> Iterable[Record]:
        """Compare the containers that are due; return the records."""
        holders = _holders_by_sandbox(engine.state)
        self._note_repairs(engine.state)
        chosen = self._waiting_sandboxes(engine.state)
        if self._due_s and now_s >= self._due_s[0]:
            del self._due_s[0]
            chosen.update(sorted(holders)[:_PODS_LIMIT])
        if self._is_slice_due(now_s):
            self._slice_at_s = now_s
            chosen.update(self._next_slice(sorted(holders)))
        try:
            found = tuple(self._read(engine.state, holders, sorted(chosen)))
        except MachineError as error:
            return self._failed(str(error))
        self._error = ""
        restored, self._restored = self._restored, []
        if not found:
            return restored
        plan = engine.apply(CpusetsRead(found), int(self._wall_s()))
        self._note_repairs(engine.state)
        return (*restored, *plan.records)

    def _note_repairs(self, state: EngineState) -> None:
        """Add repairs that wait for a reply; forget those that will not be made any more."""
        ids = self._repairs.keys() | state.cpusets.repairs.keys()
        nodes = {one: nodes_of_container(state, one) for one in ids - state.cpusets.unpinned}
        self._repairs = {
            one: now for one, now in nodes.items() if now and self._repairs.get(one, now) == now
        }

    def _failed(self, error: str) -> Iterable[Record]:
        self._suspects.clear()
        if error == self._error:
            return ()
        self._error = error
        return (ContainerCgroupUnreadable(error=error),)

    def _is_slice_due(self, now_s: float) -> bool:
        return self._slice_at_s is None or now_s - self._slice_at_s >= SLICE_S

    def _is_waiting(self, state: EngineState) -> bool:
        return bool(self._suspects or self._repairs or state.cpusets.repairs)

    def _waiting_sandboxes(self, state: EngineState) -> set[str]:
        ids = (*self._suspects, *self._repairs)
        found = (state.holder(container_id) for container_id in ids)
        return {holder.sandbox_id for holder in found if holder is not None}

    def _next_slice(self, sandboxes: list[str]) -> list[str]:
        """Return the sandboxes after the last slice; all of them in ROUND_S."""
        slices = int(ROUND_S / SLICE_S)
        count = min(-(-len(sandboxes) // slices), _PODS_LIMIT)
        after = [sandbox for sandbox in sandboxes if sandbox > self._last_sandbox]
        chosen = (after or sandboxes)[:count]
        self._last_sandbox = chosen[-1] if chosen else ""
        return chosen

    def _read(
        self, state: EngineState, holders: dict[str, list[Holder]], sandboxes: Iterable[str]
    ) -> Iterator[CpusetRead]:
        """Yield what is to be compared: what differs again, and what the state waits for."""
        suspects, self._suspects = self._suspects, {}
        cgroups = ContainerCgroups(self._cgroup_root, state)
        for sandbox_id in sandboxes:
            for holder in holders.get(sandbox_id, ()):
                directory = cgroups.directory(holder)
                if directory is not None:
                    yield from self._read_one(state, suspects, holder, directory)

    def _read_one(
        self, state: EngineState, suspects: dict[str, NodeSet], holder: Holder, directory: Path
    ) -> Iterator[CpusetRead]:
        container_id, blocks = holder.container_id, state.blocks(holder.key)
        mems = set_mems(directory)
        if mems is None or not blocks or not is_populated(directory):
            return
        cpusets = state.cpusets
        known = cpusets.unconfirmed | cpusets.unpinned | cpusets.repairs.keys()
        if mems == blocks[0].numa_affinity:
            if self._repairs.pop(container_id, None) is not None:
                pages = read_pages(self._cgroup_root, directory)
                self._restored.append(records.restored(state, holder, mems, pages))
            if container_id in known:
                yield CpusetRead(container_id, mems)
        elif suspects.get(container_id) == mems or container_id in cpusets.repairs:
            use = container_use(self._cgroup_root, directory)
            yield CpusetRead(container_id, mems, use, read_pages(self._cgroup_root, directory))
        else:
            self._suspects[container_id] = mems


def _holders_by_sandbox(state: EngineState) -> dict[str, list[Holder]]:
    """Return sandbox id -> the live containers with assignments."""
    found: dict[str, list[Holder]] = {}
    for holder in state.holders.values():
        if not holder.ended:
            found.setdefault(holder.sandbox_id, []).append(holder)
    return found
