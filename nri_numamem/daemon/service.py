"""The plugin as a program: puts the engine, the connections, the jobs and the logs together.

One object lives as long as the process, whatever connections come and go: after the runtime was
restarted, the engine still has what pods hold between two of their containers.
"""

from collections.abc import Iterable

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.cgroup_scan import CgroupScan
from nri_numamem.daemon.connection import Connection, ConnectionResult
from nri_numamem.daemon.cpuset_check import CpusetCheck
from nri_numamem.daemon.description import Description
from nri_numamem.daemon.exchanges import NAMES as EXCHANGES
from nri_numamem.daemon.exchanges import Exchanges
from nri_numamem.daemon.host_reader import HostReader
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.instance import StateStore
from nri_numamem.daemon.invariant_check import InvariantCheck
from nri_numamem.daemon.jobs import GcControl, Job, Jobs, LimitedJob, PeriodicJob
from nri_numamem.daemon.live_settings import LiveSettings
from nri_numamem.daemon.machine_monitor import MachineMonitor
from nri_numamem.daemon.metrics_endpoint import MetricsEndpoint
from nri_numamem.daemon.network_hints import NO_ACCESS, NamespaceAccess
from nri_numamem.daemon.pod_reaper import PodReaper
from nri_numamem.daemon.record_path import RecordPath
from nri_numamem.daemon.requests import Requests
from nri_numamem.daemon.signals import DUMP_STATE, STOPPING, Signals
from nri_numamem.daemon.supervisor_status import Heartbeat, SupervisorStatus
from nri_numamem.daemon.system import System
from nri_numamem.engine.core.events import Event, Synchronize
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.dump import restored_record, state_record
from nri_numamem.engine.records.process import Stopped
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.poller import Channel
from nri_numamem.nri.protobuf_version import check_protobuf
from nri_numamem.nri.request_ids import RequestIds
from nri_numamem.nri.session import PluginSession
from nri_numamem.observe.log.loggers import Logger
from nri_numamem.observe.plugin_file import StartMode
from nri_numamem.observe.systemd import Notifier
from nri_numamem.version import VERSION

# A state is offered to the state file after each batch of replies; the job is for what jobs change.
STATE_FILE_S = 5.0


class Service:
    """The parts of the plugin, and the one engine that they share.

    `status` is shared with the process that watches this one, if there is one.
    """

    def __init__(
        self,
        log: Logger,
        roots: HostRoots,
        system: System,
        engine: Engine | None = None,
        *,
        notifier: Notifier | None = None,
        status: SupervisorStatus | None = None,
        namespaces: NamespaceAccess = NO_ACCESS,
    ) -> None:
        self.notifier = notifier or Notifier({})
        self._roots, self._system = roots, system
        self._connection: Connection | None = None
        self._connections, self._is_synchronized = 0, False
        clock, get_engine = system.clock, self._get_engine
        self._state_store = StateStore(lambda r: self.emit(r), clock, system.open_state_file)  # noqa: PLW0108 - emit needs the store
        records = RecordPath(log, clock, get_engine, self._state_store.append)
        self.emit, self._history, self._meter = records.emit, records.history, records.meter
        self.live = LiveSettings(self.emit, self._apply)
        self._signals: Signals | None = None
        self.time_limit = system.new_time_limit()
        self._heartbeat = Heartbeat(status, self._meter.ticked)
        self._gc_control = GcControl()
        self._description = Description(self._state_store.describe, clock.wall_s)
        self.mode = StartMode.SERVICE
        self._pod_reaper = PodReaper(roots.cgroup)
        self._cgroup_scan = CgroupScan(roots.cgroup, clock.wall_s)
        self._cpuset_check = CpusetCheck(roots.cgroup, clock.wall_s)
        self._machine_monitor = MachineMonitor(
            roots, get_engine, self.emit, listen=system.listen_uevents
        )
        self._invariant_check = InvariantCheck(self._rebuild)
        self.host_reader = HostReader(
            roots, get_engine, self._machine_monitor, self.emit, namespaces
        )
        self.requests = Requests(
            self.time_limit,
            clock,
            self._pod_reaper,
            records.refusals,
            self.emit,
            observe=self._observe,
            configure=self.configure,
        )
        self.requests.engine = engine
        self.metrics = MetricsEndpoint(
            self._meter, self.emit, clock, get_engine, self._state_store, roots.cgroup, status
        )
        self.jobs = Jobs(self._make_jobs(), system.clock, self.emit)

    @property
    def engine(self) -> Engine | None:
        """The engine that decides; None before a launched plugin has its configuration."""
        return self.requests.engine

    def use(self, engine: Engine) -> None:
        """Decide with this engine from now on; log its machine."""
        self.requests.engine = engine
        self._machine_monitor.begin(self._system.clock.monotonic_s())
        found = (*engine.context.start_records(VERSION), *self.host_reader.watch_cpus(self.jobs))
        for record in filter(None, (*found, check_protobuf())):
            self.emit(record)

    def start(self, engine: Engine, settings: Settings, started_as: str) -> None:
        """Decide with this engine and the state that an earlier process left.

        Raises AlreadyRunningError if another one runs; a later one shows `started_as` in its error.
        """
        restored = self._state_store.open(settings.state_file_or_default, started_as)
        self._description.started(settings, self.mode, started_as)
        self.live.use(settings)
        self.host_reader.started(settings)
        self.metrics.watch_residency(settings.residency, self._roots, self.jobs, self.time_limit)
        self._start_exchanges(settings)
        self.use(Engine(engine.context, restored))
        if restored is not None:
            self._pod_reaper.expect(holder.sandbox_id for holder in restored.holders.values())
            self.emit(restored_record(restored))

    def _start_exchanges(self, settings: Settings) -> None:
        self.host_reader.exchanges = Exchanges(
            settings,
            self.emit,
            self._system.clock,
            lambda: self._is_synchronized and self._state_store.is_writable,
            lambda: None if self._signals is None else self._signals.wake_up(),
        )
        for each in self.host_reader.exchanges:
            self.jobs.add(LimitedJob(each, self.time_limit, self._get_engine))

    def close(self) -> None:
        """Stop the metrics, write the state file, then release the lock for a standby."""
        self._description.ended()
        self._history.add(Stopped())
        self.metrics.close()
        self._state_store.close()
        self._machine_monitor.close()
        self.host_reader.close()

    def serve(self, channel: Channel, identity: Identity, signals: Signals) -> ConnectionResult:
        """Serve one connection to its end; closes the channel."""
        self._connections += 1
        self._description.connecting(identity)
        request_ids = RequestIds(self._connections)
        self.requests.connected(request_ids)
        self._cgroup_scan.disconnected()
        session = PluginSession(
            self.requests,
            Decoder(self.host_reader),
            plugin_name=identity.name,
            plugin_idx=identity.idx,
            limiter=self.requests.limit,
            timed=self._meter.timed,
            request_ids=request_ids,
            fails_on_timeout=lambda: self.live.fails_on_timeout,
        )
        self._signals = signals
        self._connection = Connection(channel, session, self, self._system, signals.wake)
        try:
            with self.time_limit, self._heartbeat, self._gc_control:
                return self._connection.serve()
        finally:
            self._connection, self._is_synchronized = None, False
            self._description.disconnected()
            self._meter.disconnected()

    def end_connection(self, cause: str) -> None:
        """End the present connection, if there is one, after the current callback."""
        if self._connection is not None:
            self._connection.end(cause)

    # What the requests call.

    def configure(self, configuration: Configuration) -> None:
        """Record the runtime; an external plugin has its own configuration file."""
        self._description.configured(configuration)
        self.host_reader.configured(configuration)

    def configure_late(self, configuration: Configuration) -> None:
        """Apply a configuration that `configure` did not apply in time, after the reply."""
        Service.configure(self, configuration)

    def _observe(self, event: Event) -> None:
        """Pass a decided event to the jobs that depend on it."""
        now_s = self._system.clock.monotonic_s()
        self._cgroup_scan.observe(event, now_s)
        if isinstance(event, Synchronize):
            self._is_synchronized = True
            self._invariant_check.synchronized()
            self._cpuset_check.synchronized(now_s)

    # What the connection calls.

    def after_replies(self, session: PluginSession) -> None:
        """Commit and log what was decided; to be called when the replies were sent."""
        self.requests.commit()
        unapplied = session.after_replies()
        self.requests.emit(session.take_records())
        if unapplied is not None:
            self.configure_late(unapplied)
        if self.requests.failure is not None:
            self.end_connection(self.requests.failure)
        self._offer_state(0.0)

    def registered(self) -> None:
        """Count the registration, and report to systemd that the plugin is ready."""
        self._meter.registered()
        self.notifier.ready("registered with the runtime")

    def ending(self, result: ConnectionResult) -> None:
        """Do nothing: the runtime does not kill an external plugin."""

    def take_signals(self) -> bool:
        """Act on the signals that arrived; return whether to stop."""
        return self._signals is not None and self.handle_signals(self._signals)

    def tick(self) -> None:
        """Run the jobs that are due."""
        self.jobs.run_due()

    # What all parts call.

    def handle_signals(self, signals: Signals) -> bool:
        """Act on the signals that arrived; return whether to stop."""
        numbers = signals.take()
        if DUMP_STATE in numbers:
            self.dump_state()
        self.live.take(numbers, signals.wake_up)
        self.jobs.run_due(*EXCHANGES)
        self._offer_state(0.0)  # the agent makes the slice from the state file
        return not numbers.isdisjoint(STOPPING)

    def dump_state(self) -> None:
        """Log the allocation state and the kernel's hugepage pools."""
        if self.engine is not None:
            self.emit(state_record(self.engine.state))
            self._machine_monitor.show(self.engine)

    def _apply(self, settings: Settings) -> None:
        """Apply the settings that may change while the plugin runs."""
        self._machine_monitor.logs_uevents = settings.log_level == "debug"
        self.metrics.open(settings.metrics_address, settings.metrics_textfile or "")
        self._description.changed(settings)

    def _make_jobs(self) -> list[Job]:
        limit, get_engine = self.time_limit, self._get_engine
        return [
            PeriodicJob("heartbeat", self._heartbeat.run),
            PeriodicJob("systemd", self._notify_alive),
            self._machine_monitor,
            LimitedJob(self._pod_reaper, limit, get_engine),
            PeriodicJob("instance lock", self._state_store.check_lock, STATE_FILE_S),
            PeriodicJob("state file", self._offer_state, STATE_FILE_S),
            PeriodicJob("metrics", self.metrics.start_threads, STATE_FILE_S),
            LimitedJob(self._cgroup_scan, limit, get_engine),
            LimitedJob(self._cpuset_check, limit, get_engine),
            LimitedJob(self._invariant_check, limit, get_engine),
            self._gc_control,
            # Reading the host can take seconds; the wait for the next tick comes on top of it.
            PeriodicJob("heartbeat after the jobs", self._heartbeat.run),
        ]

    def _notify_alive(self, now_s: float) -> Iterable[Record]:
        self.notifier.alive(now_s)
        return ()

    def _offer_state(self, _now_s: float) -> Iterable[Record]:
        """Hand over the state to be written; not within a request, because its time is limited."""
        self._description.flush()
        if (engine := self.requests.engine) is not None:
            self._state_store.offer(engine.state)
        return ()

    def _rebuild(self, is_empty: bool) -> None:
        """Let a Synchronize compute the state anew, from an empty one if `is_empty`."""
        if is_empty and self.engine is not None:
            self.requests.engine = Engine(self.engine.context)
        self.end_connection("the accounting violates an invariant")

    def _get_engine(self) -> Engine | None:
        return self.requests.engine
