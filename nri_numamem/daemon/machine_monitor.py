"""Reads the machine at the start and while the plugin serves, so that the accounting matches it.

Sizes of nodes and hugepage pools change while pods run, and the kernel sends no uevent when a pool
is resized by a write to a file. So the machine is read every READ_S seconds, and at the next tick
after a uevent about memory or nodes; a burst of uevents causes one or two reads. A read takes
1 ms with eight nodes and two page sizes. A change enters the engine between two requests.

The same files show whether the kernel has the hugepages that the accounting calls free; the cgroups
of pods with hugepages show which pages in use belong to pods. Both are read for each creation that
requests hugepages (0.4 ms, and 0.03 ms for each such pod), and compared in each read, for the log.
A file that cannot be read is logged once; decisions then use the accounting alone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from nri_numamem.config.errors import UsageError
from nri_numamem.config.policy import context_of
from nri_numamem.config.settings import Settings
from nri_numamem.daemon.instance import check_state_file
from nri_numamem.engine.core.events import Container, MachineChanged, PodSandbox
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.dump import non_pod_hugepages_record, pools_record
from nri_numamem.engine.records.machine import (
    HugepagePoolsUnreadable,
    MachineMonitorFailed,
    MachineUnreadable,
    UeventsReceived,
    UeventsUnavailable,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.host.hugepages import PoolDirectories, read_pod_use, read_pool_use
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_machine
from nri_numamem.host.uevents import UeventBatch, UeventSocket, describe
from nri_numamem.memorymanager import NonPodHugepages, PoolUse, non_pod_hugepages
from nri_numamem.numa import Machine, hugepages_resource
from nri_numamem.observe.files import reason_of, traceback_of
from nri_numamem.observe.threads import start_thread

# A pod that starts after its administrator resized a pool waits no longer than for an image.
READ_S = 10.0

# Differences that change all the time (a database outside of pods) are logged this often.
RELOG_S = 60.0

# Only the kernel of this host sends uevents; a simulated host has another root.
_SYSFS = Path("/sys")


def _sizes(pod: PodSandbox, container: Container | None) -> set[int]:
    """Return the page sizes that a placement may use."""
    requested = [pod.hugepage_limits]
    if container is not None:
        if container.cpuset_mems:
            return set()
        requested += [container.hugepages_unified, container.hugepage_limits or {}]
    return {size for limits in requested if limits for size, limit in limits.items() if limit > 0}


def build_engine(settings: Settings, roots: HostRoots) -> Engine:
    """Return an engine for this host; UsageError when host and settings do not go together."""
    check_state_file(settings.state_file_or_default, roots.kubelet)
    for group, is_on in (
        ("claims", settings.claims.enabled),
        ("earmarks", settings.earmarks.enabled),
    ):
        if is_on and not settings.state_file_or_default:
            place = settings.place_of((group, "enabled"))
            why = 'needs the directory of the state file; stateFile must not be ""'
            text = f"{group}.enabled {why}"
            raise UsageError(f"{place}: {text}" if place else text)
    try:
        machine = read_machine(roots.sysfs, roots.proc)
    except MachineError as error:
        raise UsageError(str(error)) from error
    return Engine(context_of(settings, machine))


class MachineMonitor:
    """A periodic job. `emit` logs a record and may be called by any thread."""

    name = "machine monitor"

    def __init__(
        self,
        roots: HostRoots,
        get_engine: Callable[[], Engine | None],
        emit: Callable[[Record], None],
        *,
        listen: Callable[[], UeventSocket] = UeventSocket.open,
    ) -> None:
        self._roots = roots
        self._get_engine = get_engine
        self._emit = emit
        self._listen = listen if roots.sysfs == _SYSFS else None
        self._uevents: UeventSocket | None = None
        self.logs_uevents = False
        """Whether each uevent is logged, at the level debug."""
        self._machine: Machine | None = None
        """The machine of the last read."""
        self._pools: PoolDirectories | None = None
        """The pools of `_machine`."""
        self._read_at_s = 0.0
        self._refused: Machine | None = None
        self._refusal: Record | None = None
        self._problem = ""
        self._seen = self._logged = NonPodHugepages()
        self._logged_at_s = 0.0

    def begin(self, now_s: float) -> None:
        """Start the interval: the engine's machine has just been read."""
        self._read_at_s = self._logged_at_s = now_s

    def due(self, _now_s: float) -> bool:
        """Return True: the uevents are read at each tick."""
        return True

    def run(self, now_s: float) -> Iterable[Record]:
        """Read the machine if READ_S seconds have passed or the kernel sent a uevent."""
        engine = self._get_engine()
        if engine is not None:
            uevents = self._receive_uevents()
            if uevents and self.logs_uevents:
                self._log_uevents(uevents)
            if uevents or now_s - self._read_at_s >= READ_S:
                self.read(engine, now_s)
        return ()

    def read(self, engine: Engine, now_s: float) -> None:
        """Pass a changed machine to the engine; log hugepages that are used outside of pods."""
        self._read_at_s = now_s
        try:
            machine = read_machine(self._roots.sysfs, self._roots.proc)
            if machine != self._machine:  # nodes or page sizes may have changed
                self._machine, self._pools = machine, None
            if machine not in (engine.context.machine, self._refused):
                self._change(engine, machine)
            self._compare(non_pod_hugepages(engine.state.accounting, self._read_use(engine)), now_s)
        except MachineError as error:
            self._log_problem(MachineUnreadable(error=str(error)), str(error))
        except Exception as error:  # noqa: BLE001 - a bug must not end the loop
            text = traceback_of(error)
            self._log_problem(MachineMonitorFailed(exception=text), text)
        else:
            self._problem = ""

    def _change(self, engine: Engine, machine: Machine) -> None:
        self._refused = machine  # until the engine accepts it, also if a bug prevents that
        records = engine.apply(MachineChanged(machine)).records
        if engine.context.machine == machine:
            self._refused = self._refusal = None
        elif records[-1:] == (self._refusal,):
            return  # the sizes drift on, and the reason is the same
        else:
            self._refusal = records[-1]
        for record in records:
            self._emit(record)

    def _compare(self, found: NonPodHugepages, now_s: float) -> None:
        """Log a difference that lasted from one read to the next: pods come and go."""
        lasts = found == self._seen
        self._seen = found
        if found != self._logged and (lasts or now_s - self._logged_at_s >= RELOG_S):
            self._logged, self._logged_at_s = found, now_s
            self._emit(non_pod_hugepages_record(found))

    def pool_use(
        self, engine: Engine | None, pod: PodSandbox, container: Container | None
    ) -> PoolUse | None:
        """Return the kernel's hugepage pools for the request of a container, or of a whole pod.

        None if there is no request for hugepages, nothing is placed, or a file cannot be read.
        """
        sizes = _sizes(pod, container)
        if engine is None or not sizes:
            return None
        if engine.context.unmanaged_reason(pod, container) is not None:
            return None
        if container is None and not engine.context.places_pods:
            return None
        try:
            return self._read_use(engine, sizes)
        except MachineError as error:
            self._log_problem(HugepagePoolsUnreadable(error=str(error)), str(error))
            return None

    def _read_use(self, engine: Engine, sizes: Collection[int] | None = None) -> PoolUse:
        if self._pools is None:
            self._pools = PoolDirectories.find(self._roots.sysfs)
        use = read_pool_use(self._pools, sizes)
        if sizes is None:
            machine = engine.context.machine
            sizes = {
                size for node in machine.nodes for size, count in node.hugepages.items() if count
            }
        names = {hugepages_resource(size) for size in sizes}
        by_pods: dict[str, Mapping[int, Mapping[str, int]]] = {}
        for pod in engine.state.pods.values():
            containers = engine.state.accounting.assignments.get(pod.uid, {})
            if any(block.type in names for blocks in containers.values() for block in blocks):
                found = read_pod_use(self._roots.cgroup, pod.cgroup_parent, sizes)
                if found is not None:
                    by_pods[pod.uid] = found
        return replace(use, by_pods=by_pods)

    def show(self, engine: Engine) -> None:
        """Log the kernel's hugepage pools beside the accounting."""
        try:
            use = self._read_use(engine)
        except MachineError as error:
            self._emit(MachineUnreadable(error=str(error)))
        else:
            self._emit(pools_record(engine.state.accounting, use))

    def close(self) -> None:
        """Close the uevent socket."""
        if self._uevents is not None:
            self._uevents.close()
            self._uevents = None

    def _receive_uevents(self) -> UeventBatch:
        try:
            if self._listen is not None:
                listen, self._listen = self._listen, None
                self._uevents = listen()
            return self._uevents.receive() if self._uevents is not None else UeventBatch()
        except OSError as error:
            self.close()
            text = reason_of(error)
            self._emit(UeventsUnavailable(error=text, poll_interval_s=round(READ_S)))
            return UeventBatch()

    def _log_uevents(self, batch: UeventBatch) -> None:
        try:  # the library that parses the messages is slow to import
            start_thread(partial(self._describe, batch), "uevents")
        except OSError as error:
            self._emit(UeventsReceived(is_incomplete=batch.is_incomplete, error=reason_of(error)))

    def _describe(self, batch: UeventBatch) -> None:
        record = UeventsReceived(is_incomplete=batch.is_incomplete)
        try:
            record = replace(record, uevents=tuple(describe(batch.messages)))
        except Exception as error:  # noqa: BLE001 - only for the log
            record = replace(record, error=str(error))
        self._emit(record)

    def _log_problem(self, record: Record, text: str) -> None:
        """Log a problem once, until the machine could be read again."""
        if text != self._problem:
            self._problem = text
            self._emit(record)
