"""Looks at the machine while the plugin serves, so that its books stay those of this machine.

Sizes of nodes and hugepage pools change while pods run, and not all of it is told: a pool is
resized by a write to a file. So there is a look every LOOK_S seconds, and one at the next tick
after the kernel told of memory or nodes; ticks are a second apart, so a burst of such messages is
one look or two. A look takes 1.5 ms with eight nodes and two page sizes. Whatever it finds enters
the engine between two requests.

The same files say whether the kernel has the hugepages that the books call free, and the cgroups of
pods that hold some which of those in use are theirs. That is read for each creation that asks for
hugepages (0.4 ms, and 0.03 ms for each such pod), and compared in each look, for the log. Nothing
here ever fails: what cannot be read is told once, and the books alone decide.
"""

import signal
import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from nri_numamem.engine.books import outside_record, pools_record
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Container, MachineChanged, PodSandbox
from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.machine.hugepages import read_pod_use, read_pool_use
from nri_numamem.machine.sysfs import MachineError
from nri_numamem.machine.topology import read_machine
from nri_numamem.machine.uevents import Told, Uevents, describe
from nri_numamem.memorymanager import Machine, Outside, PoolUse, hugepages_resource, outside

# An administrator who resizes a pool and starts a pod meanwhile waits no longer than for an image.
LOOK_S = 10.0

# Differences that never stand still (a database beside the pods) are told once in a while.
RETELL_S = 60.0

# Only this host's kernel tells; a simulated host has its files elsewhere.
_SYSFS = Path("/sys")


def _sizes(pod: PodSandbox, container: Container | None) -> set[int]:
    """Return the page sizes of which something may be placed now."""
    asked = [pod.hugepage_limits]
    if container is not None:
        if container.cpuset_mems:
            return set()
        asked += [container.hugepages_unified, container.hugepage_limits or {}]
    return {size for limits in asked if limits for size, limit in limits.items() if limit > 0}


class MachineWatch:
    """Belongs to the thread of the engine. `emit` takes records, from any thread."""

    def __init__(
        self,
        sysfs_root: Path,
        proc_root: Path,
        cgroup_root: Path,
        emit: Callable[[Record], None],
        *,
        listen: Callable[[], Uevents] = Uevents.listen,
    ) -> None:
        self._sysfs_root = sysfs_root
        self._proc_root = proc_root
        self._cgroup_root = cgroup_root
        self._emit = emit
        self._listen = listen if sysfs_root == _SYSFS else None
        self._uevents: Uevents | None = None
        self._looked_at_s = 0.0
        self._refused: Machine | None = None
        self._refusal: Record | None = None
        self._problem = ""
        self._seen = self._told = Outside()
        self._told_at_s = 0.0

    def begin(self, now_s: float) -> None:
        """Count the time from here: the engine's machine was read just now."""
        self._looked_at_s = self._told_at_s = now_s

    def tick(self, engine: Engine | None, now_s: float) -> None:
        """Look if it is time, or if the kernel told of something."""
        if engine is None:
            return
        told = self._take_uevents()
        if told and engine.context.settings.log_level == "debug":
            self._tell_of(told)
        if told or now_s - self._looked_at_s >= LOOK_S:
            self.look(engine, now_s)

    def look(self, engine: Engine, now_s: float) -> None:
        """Tell the engine of a machine that changed, and the log of pages that others took."""
        self._looked_at_s = now_s
        try:
            machine = read_machine(self._sysfs_root, self._proc_root)
            if machine not in (engine.context.machine, self._refused):
                self._change(engine, machine)
            self._compare(outside(engine.state.books, self._read_use(engine)), now_s)
        except MachineError as error:
            self._complain("cannot look at the machine", str(error))
        except Exception as error:  # noqa: BLE001 - a bug must not end the loop
            text = "".join(traceback.format_exception(error)).rstrip()
            self._complain("internal error while looking at the machine", text, "error")
        else:
            self._problem = ""

    def _change(self, engine: Engine, machine: Machine) -> None:
        self._refused = machine  # as long as nobody says otherwise, a bug included
        records = engine.handle(MachineChanged(machine)).records
        if engine.context.machine == machine:
            self._refused = self._refusal = None
        elif records[-1:] == (self._refusal,):
            return  # the sizes drift on, and the reason is the same
        else:
            self._refusal = records[-1]
        for record in records:
            self._emit(record)

    def _compare(self, found: Outside, now_s: float) -> None:
        """Tell a difference that has lasted from one look to the next: pods come and go."""
        lasts = found == self._seen
        self._seen = found
        if found != self._told and (lasts or now_s - self._told_at_s >= RETELL_S):
            self._told, self._told_at_s = found, now_s
            self._emit(outside_record(found))

    def pool_use(
        self, engine: Engine | None, pod: PodSandbox, container: Container | None
    ) -> PoolUse | None:
        """Return the kernel's figures for what a container, or a whole pod, may ask for.

        None where nobody asks for hugepages, or nothing will be placed, or it cannot be read.
        """
        sizes = _sizes(pod, container)
        if engine is None or not sizes or not engine.context.manages(pod):
            return None
        if container is None and not engine.context.places_pods:
            return None
        try:
            return self._read_use(engine, sizes)
        except MachineError as error:
            self._complain("cannot read the hugepage pools, the books alone decide", str(error))
            return None

    def _read_use(self, engine: Engine, sizes: Collection[int] | None = None) -> PoolUse:
        use = read_pool_use(self._sysfs_root, sizes)
        if sizes is None:
            machine = engine.context.machine
            sizes = {
                size for node in machine.nodes for size, count in node.hugepages.items() if count
            }
        names = {hugepages_resource(size) for size in sizes}
        by_pods: dict[str, Mapping[int, Mapping[str, int]]] = {}
        for pod in engine.state.pods.values():
            containers = engine.state.books.assignments.get(pod.uid, {})
            if any(block.type in names for blocks in containers.values() for block in blocks):
                found = read_pod_use(self._cgroup_root, pod.cgroup_parent, sizes)
                if found is not None:
                    by_pods[pod.uid] = found
        return replace(use, by_pods=by_pods)

    def show(self, engine: Engine) -> None:
        """Log the kernel's hugepage pools beside the books."""
        try:
            use = self._read_use(engine)
        except MachineError as error:
            self._emit(Record("cannot look at the machine", "warning", {"error": str(error)}))
        else:
            self._emit(pools_record(engine.state.books, use))

    def close(self) -> None:
        """Listen no more."""
        if self._uevents is not None:
            self._uevents.close()
            self._uevents = None

    def _take_uevents(self) -> Told:
        try:
            if self._listen is not None:
                listen, self._listen = self._listen, None
                self._uevents = listen()
            return self._uevents.take() if self._uevents is not None else Told()
        except OSError as error:
            self.close()
            fields: dict[str, RecordValue] = {
                "error": error.strerror or str(error),
                "looks_every_s": round(LOOK_S),
            }
            self._emit(Record("the kernel's uevents cannot be heard", fields=fields))
            return Told()

    def _tell_of(self, told: Told) -> None:
        # Beside the loop: the library that takes the messages apart is slow to load.
        thread = threading.Thread(target=self._describe, args=(told,), name="uevents", daemon=True)
        thread.start()

    def _describe(self, told: Told) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        fields: dict[str, RecordValue] = {"some_were_lost": told.is_incomplete}
        try:
            fields["uevents"] = list(describe(told.messages))
        except Exception as error:  # noqa: BLE001 - only for the log
            fields["error"] = str(error)
        self._emit(Record("the kernel told of memory or nodes", "debug", fields))

    def _complain(self, event: str, text: str, level: str = "warning") -> None:
        """Tell a problem once, until the machine could be looked at again."""
        if text != self._problem:
            self._problem = text
            name = "exception" if level == "error" else "error"
            self._emit(Record(event, level, {name: text}))
