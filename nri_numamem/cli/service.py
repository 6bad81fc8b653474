"""The plugin as a program: the engine, fed by sessions, and the records on their way to the log.

One object lives as long as the process, whatever connections come and go: after the runtime was
restarted, the engine still knows what pods hold between two of their containers.
"""

import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from nri_numamem.cli.collector import Collector
from nri_numamem.cli.deadline import Deadline
from nri_numamem.cli.errors import NoEngineError, UnsettledError, UsageError
from nri_numamem.cli.lasting import Lasting
from nri_numamem.cli.machine_watch import MachineWatch
from nri_numamem.cli.metrics import MetricsEndpoint
from nri_numamem.cli.second_look import SecondLook
from nri_numamem.cli.settling import Settling
from nri_numamem.cli.signals import SHOW_BOOKS, STOPPING, Signals
from nri_numamem.cli.sweep import PodSweep
from nri_numamem.cli.watchdog import Watchdog
from nri_numamem.engine.books import books_record
from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Event, PodCgroupGone
from nri_numamem.engine.plan import Plan, Record
from nri_numamem.engine.settings import STATE_FILE, Settings
from nri_numamem.engine.state import EngineState
from nri_numamem.machine.devices import device_numa_nodes
from nri_numamem.machine.sysfs import MachineError
from nri_numamem.machine.topology import read_machine
from nri_numamem.memorymanager import NodeSet, ReservedMemoryError
from nri_numamem.nri.decode import Decoder, Device
from nri_numamem.nri.methods import Configuration, Overrun
from nri_numamem.nri.mux import MuxError
from nri_numamem.nri.session import PluginSession
from nri_numamem.nri.stream import Ended, Stream
from nri_numamem.observe.logs import Logger
from nri_numamem.observe.systemd import Notifier
from nri_numamem.values import valueclass
from nri_numamem.version import VERSION

# How often it is looked for pods that ended without a word.
SWEEP_S = 5.0

STDERR = 2


@valueclass(frozen=True, slots=True)
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


@valueclass(frozen=True, slots=True)
class Identity:
    """Under which name and index the plugin registers."""

    name: str = "nri-numamem"
    idx: str = "10"


@valueclass(frozen=True, slots=True)
class Served:
    """How a connection went."""

    ended: Ended | None
    """None when the peer spoke something that is not NRI, or the socket failed."""
    registered: bool
    why: str


class Service:
    """Answers events with the engine, and logs what comes of them.

    `crash_descriptor` takes the tracebacks of a process that the watchdog ends.
    """

    def __init__(
        self,
        log: Logger,
        roots: HostRoots,
        engine: Engine | None = None,
        *,
        notifier: Notifier | None = None,
        crash_descriptor: int = STDERR,
    ) -> None:
        self.engine = engine
        self.notifier = notifier or Notifier({})
        self._collector = Collector()
        self._deadline = Deadline()
        self._watchdog = Watchdog(crash_descriptor)
        self._swept_at_s = 0.0
        self._settling = Settling(self.emit)
        self._log = log
        self._roots = roots
        self._pods = PodSweep(roots.cgroup)
        self._second_look = SecondLook(roots.cgroup, self.emit)
        self._machine = MachineWatch(roots.sysfs, roots.proc, roots.cgroup, self.emit)
        self._lasting = Lasting(self.emit)
        self._metrics = MetricsEndpoint(self.emit, self._state, lambda: self._lasting.failed_writes)
        self._meter = self._metrics.meter

    def use(self, engine: Engine) -> None:
        """Decide with this engine from now on; says on which machine."""
        self.engine = engine
        self._machine.begin(time.monotonic())
        self.emit(engine.context.record(VERSION))

    def take_over(self, engine: Engine, started_as: str) -> None:
        """Decide with this engine and what the process before this one left.

        Raises AlreadyRunningError when there is another one; `started_as` is for its words then.
        """
        path = engine.context.settings.state_file
        former = self._lasting.open(STATE_FILE if path is None else path, started_as)
        self.use(Engine(engine.context, former))
        if former is not None:
            self._pods.expect(holder.sandbox_id for holder in former.holders.values())
            fields = {"containers": len(former.holders), "ended_pods": len(former.homes)}
            self.emit(Record("state file read", fields=fields))
        self._metrics.open(engine.context.settings.metrics_address)

    def close(self) -> None:
        """Write what is to outlive the process, and stop serving metrics."""
        self._lasting.close()
        self._machine.close()
        self._metrics.close()

    def configure(self, configuration: Configuration) -> None:
        """Take what the runtime says at configuration; here the file has said it all."""

    def handle(self, event: Event) -> Plan:
        """Answer an event; without an engine everything is left alone.

        Before a container is refused, room is made where pods have ended without a word.
        """
        if self.engine is None or self._settling.has_failed:
            return Plan()
        self._settling.answered = plan = self.engine.handle(event)
        self._second_look.heard(event, time.monotonic())
        if plan.refusal is None:
            return plan
        # Told with the plan's records: if this takes too long, the release is undone as well.
        released = self._release_gone(self.engine)
        if released:
            plan = self.engine.handle(event)
            plan = replace(plan, records=(*released, *plan.records))
        return plan

    def emit(self, record: Record) -> None:
        """Count a record, and log it."""
        self._meter.count(record)
        write = getattr(self._log, record.level)
        write(record.event, **record.fields)

    def show_books(self) -> None:
        """Log the whole books."""
        if self.engine is not None:
            self.emit(books_record(self.engine.state.books))
            self._machine.show(self.engine)

    def serve(self, sock: socket.socket, identity: Identity, signals: Signals) -> Served:
        """Serve one connection to its end; closes the socket. Raises nothing of the peer's."""
        self._second_look.disconnected()
        self._settling.connected()
        session = PluginSession(
            self,
            self._decoder(),
            plugin_name=identity.name,
            plugin_idx=identity.idx,
            limiter=self.limit,
            timed=self._meter.timed,
        )
        is_announced = False

        def after() -> None:
            nonlocal is_announced
            self._settling.settle(self.engine)
            for record in session.take_records():
                self.emit(record)
            session.after_replies()
            self.after_replies()
            if session.registered and not is_announced:
                is_announced = True
                self._meter.registered()
                self.notifier.ready("registered with the runtime")

        def on_wake() -> bool:
            return self.take_signals(signals)

        with sock, self._deadline, self._watchdog, self._collector:
            stream = Stream(
                sock, session, after=after, wake=signals.wake, on_wake=on_wake, on_tick=self.tick
            )
            try:
                ended = stream.serve(session.start())
            except (OSError, MuxError, NoEngineError, UnsettledError) as error:
                return Served(None, session.registered, str(error))
            finally:
                self._meter.disconnected()
        return Served(ended, session.registered, session.refused or ended.value)

    def _state(self) -> EngineState | None:
        """Return what metrics are made of; asked from another thread."""
        engine = self.engine
        return None if engine is None else engine.settled_state

    def limit(self, limit_s: float, call: Callable[[], bytes]) -> bytes:
        """Return what `call` returns; Overrun after `limit_s`, as if it had never been called."""
        engine = self.engine
        if self._settling.answered is not None:  # in the same read; not within this one's time
            self._settling.settle(engine)
        state = None if engine is None else engine.settled_state
        try:
            return self._deadline.run(limit_s, call)
        except Overrun:
            self.engine = engine
            if engine is not None and state is not None:
                engine.restore(state)
            raise

    def tick(self) -> None:
        """Do what is due from time to time while nothing happens."""
        self._watchdog.feed()
        now_s = time.monotonic()
        self.notifier.alive(now_s)
        self._machine.tick(self.engine, now_s)
        if now_s - self._swept_at_s >= SWEEP_S:
            self._swept_at_s = now_s
            self.sweep()
            self._hand_over()
        self._second_look.look(self.engine, now_s)
        self._collector.tick()
        # A look at the host can take seconds where the kernel is busy; the wait for the next tick,
        # which follows, is not to be added to it.
        self._watchdog.feed()

    def after_replies(self) -> None:
        """Do what is not to delay a reply; may raise NoEngineError or UnsettledError."""
        self._settling.check()
        self._hand_over()

    def _hand_over(self) -> None:
        """Let the state be written; outside of requests, which a timer may cut short."""
        if self.engine is not None:
            self._lasting.offer(self.engine.state)

    def sweep(self) -> None:
        """Release what pods hold whose end nobody told."""
        if self.engine is not None:
            for record in self._release_gone(self.engine):
                self.emit(record)

    def _release_gone(self, engine: Engine) -> list[Record]:
        """Release them; return what is to be told."""
        return [
            replace(record, fields={**record.fields, "noticed_by": "its cgroup is gone"})
            for pod in self._pods.look(engine.state.pods)
            for record in engine.handle(PodCgroupGone(pod)).records
        ]

    def take_signals(self, signals: Signals) -> bool:
        """Act on the signals that came; tells whether to stop."""
        numbers = signals.take()
        if SHOW_BOOKS in numbers:
            self.show_books()
        return not numbers.isdisjoint(STOPPING)

    def _decoder(self) -> Decoder:
        readers = (self._second_look.hugepages, self._device_nodes, self._container_mems)
        return Decoder(*readers, lambda *asked: self._machine.pool_use(self.engine, *asked))

    def _container_mems(self, cgroup_parent: str, cgroups_path: str) -> NodeSet:
        return self._second_look.first(self.engine, cgroup_parent, cgroups_path)

    def _device_nodes(self, cgroup_parent: str, devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        if self.engine is None or not self.engine.context.wants_devices(cgroup_parent):
            return ()
        sysfs, proc = self._roots.sysfs, self._roots.proc
        found: list[NodeSet] = []
        for d in devices:
            nodes = device_numa_nodes(sysfs, d.type, d.major, d.minor, d.path, proc)
            if nodes is not None:
                found.append(nodes)
        return tuple(found)
