"""The plugin as a program: the engine, fed by sessions, and the records on their way to the log.

One object lives as long as the process, whatever connections come and go: after the runtime was
restarted, the engine still knows what pods hold between two of their containers.
"""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.signals import SHOW_BOOKS, STOPPING, Signals
from nri_numamem.cli.sweep import PodSweep
from nri_numamem.engine.books import books_record
from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Event, PodCgroupGone
from nri_numamem.engine.plan import Plan, Record
from nri_numamem.engine.settings import Settings
from nri_numamem.machine.cgroups import pod_hugepage_limits
from nri_numamem.machine.devices import device_numa_nodes
from nri_numamem.machine.sysfs import MachineError
from nri_numamem.machine.topology import read_machine
from nri_numamem.memorymanager import NodeSet, ReservedMemoryError
from nri_numamem.nri.decode import Decoder, Device
from nri_numamem.nri.methods import Configuration
from nri_numamem.nri.mux import MuxError
from nri_numamem.nri.session import PluginSession
from nri_numamem.nri.stream import Ended, Stream
from nri_numamem.observe.logs import Logger
from nri_numamem.version import VERSION


@dataclass(frozen=True, slots=True)
class HostRoots:
    """Where this host's kernel shows itself; a simulated machine has roots of its own."""

    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")


def build_engine(settings: Settings, roots: HostRoots) -> Engine:
    """Return an engine for this host; UsageError when machine and settings do not go together."""
    try:
        return Engine(Context.of(read_machine(roots.sysfs, roots.proc), settings))
    except (MachineError, ReservedMemoryError) as error:
        raise UsageError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Identity:
    """Under which name and index the plugin registers."""

    name: str = "nri-numamem"
    idx: str = "10"


@dataclass(frozen=True, slots=True)
class Served:
    """How a connection went."""

    ended: Ended | None
    """None when the peer spoke something that is not NRI, or the socket failed."""
    registered: bool
    why: str


class Service:
    """Answers events with the engine, and logs what comes of them."""

    def __init__(self, log: Logger, roots: HostRoots, engine: Engine | None = None) -> None:
        self.engine = engine
        self._log = log
        self._roots = roots
        self._pods = PodSweep(roots.cgroup)

    def use(self, engine: Engine) -> None:
        """Decide with this engine from now on; says on which machine."""
        self.engine = engine
        self.emit(engine.context.record(VERSION))

    def configure(self, configuration: Configuration) -> None:
        """Take what the runtime says at configuration; here the file has said it all."""

    def handle(self, event: Event) -> Plan:
        """Answer an event; without an engine everything is left alone.

        Before a container is refused, room is made where pods have ended without a word.
        """
        if self.engine is None:
            return Plan()
        plan = self.engine.handle(event)
        if plan.refusal is not None and self.sweep():
            plan = self.engine.handle(event)
        return plan

    def emit(self, record: Record, **more: object) -> None:
        """Log a record."""
        write = getattr(self._log, record.level)
        write(record.event, **record.fields, **more)

    def show_books(self) -> None:
        """Log the whole books."""
        if self.engine is not None:
            self.emit(books_record(self.engine.state.books))

    def serve(self, sock: socket.socket, identity: Identity, signals: Signals) -> Served:
        """Serve one connection to its end; closes the socket. Raises nothing of the peer's."""
        session = PluginSession(
            self, self._decoder(), plugin_name=identity.name, plugin_idx=identity.idx
        )

        def after() -> None:
            for record in session.take_records():
                self.emit(record)

        def on_wake() -> bool:
            return self.take_signals(signals)

        with sock:
            stream = Stream(
                sock, session, after=after, wake=signals.wake, on_wake=on_wake, on_tick=self.sweep
            )
            try:
                ended = stream.serve(session.start())
            except (OSError, MuxError) as error:
                return Served(None, session.registered, str(error))
        return Served(ended, session.registered, session.refused or ended.value)

    def sweep(self) -> bool:
        """Release what pods hold whose end nobody told; tells whether there was something."""
        if self.engine is None:
            return False
        records = [
            record
            for pod in self._pods.look(self.engine.state.pods)
            for record in self.engine.handle(PodCgroupGone(pod)).records
        ]
        for record in records:
            self.emit(record, noticed_by="its cgroup is gone")
        return bool(records)

    def take_signals(self, signals: Signals) -> bool:
        """Act on the signals that came; tells whether to stop."""
        numbers = signals.take()
        if SHOW_BOOKS in numbers:
            self.show_books()
        return not numbers.isdisjoint(STOPPING)

    def _decoder(self) -> Decoder:
        return Decoder(self._pod_hugepages, self._device_nodes)

    def _pod_hugepages(self, cgroup_parent: str) -> Mapping[int, int]:
        try:
            return pod_hugepage_limits(self._roots.cgroup, cgroup_parent)
        except MachineError as error:
            self.emit(Record("cannot read a pod's cgroup", "warning", {"error": str(error)}))
            return {}

    def _device_nodes(self, cgroup_parent: str, devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        if self.engine is None or not self.engine.context.wants_devices(cgroup_parent):
            return ()
        sysfs, proc = self._roots.sysfs, self._roots.proc
        found = (device_numa_nodes(sysfs, d.type, d.major, d.minor, d.path, proc) for d in devices)
        return tuple(nodes for nodes in found if nodes is not None)
