"""Releases pods and containers that ended without an event: their cgroup existed, and is gone.

containerd sends no pod events for pods that are older than its process, so after its restart the
cgroup is the only sign of their end. A pod is not released if its cgroup was never seen, because
the cgroup may be in another place.

The same holds for containers that are recorded under their id: those of an earlier sandbox beside
a newer one of the same pod, and those that the runtime did not report. The pod's cgroup does not
show their end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from nri_numamem.daemon.cgroup_sweep import ContainerCgroups
from nri_numamem.engine.core.events import Container, PodCgroupGone, PodSandbox, StopContainer
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.pods import PodReleased
from nri_numamem.engine.records.record import Record
from nri_numamem.host.cgroups import cgroup_exists
from nri_numamem.host.sysfs import MachineError

REAP_S = 5.0


class PodReaper:
    """A periodic job that reads the cgroups of all pods."""

    name = "pod reaper"

    def __init__(self, cgroup_root: Path) -> None:
        self._cgroup_root = cgroup_root
        self._reaped_at_s: float | None = None
        self._seen: set[str] = set()
        """Sandbox ids of pods that had a cgroup."""
        self._expected: set[str] = set()
        self._seen_containers: set[str] = set()
        """Ids of containers that are recorded under their id and had a cgroup."""

    def expect(self, sandbox_ids: Iterable[str]) -> None:
        """Treat the cgroups of these pods as seen, as soon as the cgroup of any pod is found.

        They are the pods of an earlier process. One cgroup that is found shows that theirs would
        be found as well.
        """
        self._expected = set(sandbox_ids)

    def due(self, _engine: Engine, now_s: float) -> bool:
        """Return whether REAP_S seconds have passed."""
        return self._reaped_at_s is None or now_s - self._reaped_at_s >= REAP_S

    def run(self, engine: Engine, now_s: float) -> Iterable[Record]:
        """Release the pods that lost their cgroup; return the records."""
        self._reaped_at_s = now_s
        records = self.release(engine, self.find_gone(engine.state.pods))
        for holder in self._find_gone_containers(engine.state):
            pod = engine.state.pods[holder.sandbox_id]
            container = Container(holder.container_id, holder.sandbox_id, holder.container_name)
            records += engine.apply(StopContainer(pod, container)).records
        return records

    def find_gone(self, pods: Mapping[str, PodSandbox]) -> list[PodSandbox]:
        """Return those of `pods` (sandbox id -> pod) that had a cgroup and lost it.

        The next call returns them again if they are still in `pods`.
        """
        present = {sandbox_id for sandbox_id, pod in pods.items() if self._exists(pod)}
        if present:
            self._seen |= self._expected
            self._expected = set()
        self._seen = (self._seen | present) & pods.keys()
        return [pod for sandbox_id, pod in pods.items() if sandbox_id in self._seen - present]

    def release(self, engine: Engine, pods: Iterable[PodSandbox]) -> list[Record]:
        """Release pods; return the records."""
        return [
            replace(record, detected_by="cgroup_removed")
            if isinstance(record, PodReleased)
            else record
            for pod in pods
            for record in engine.apply(PodCgroupGone(pod)).records
        ]

    def _find_gone_containers(self, state: EngineState) -> list[Holder]:
        """Return the containers recorded under their id that had a cgroup and lost it."""
        holders = [h for h in state.holders.values() if h.key[1] == h.container_id and not h.ended]
        cgroups = ContainerCgroups(self._cgroup_root, state)
        sandboxes = {holder.sandbox_id for holder in holders}
        try:
            present = {one for sandbox_id in sandboxes for one in cgroups.ids(sandbox_id)}
        except MachineError:
            return []  # the next run may read it
        known = {holder.container_id for holder in holders}
        self._seen_containers = (self._seen_containers | present) & known
        gone = self._seen_containers - present
        return [h for h in holders if h.container_id in gone and h.sandbox_id in state.pods]

    def _exists(self, pod: PodSandbox) -> bool:
        return cgroup_exists(self._cgroup_root, pod.cgroup_parent)
