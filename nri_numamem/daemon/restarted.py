"""The launched plugin after its first process ended: the same plugin, as an external connection.

The supervisor runs this in a separate process, which ends with the supervisor. The worker
connects to the runtime's socket, under the name, the index and the configuration of the first
process, and connects again when the connection ends, as long as the runtime lives. It connects to
no other process than the runtime that launched the first one.
"""

import errno
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from nri_numamem.config import load as configuration
from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings
from nri_numamem.daemon import supervisor_status as causes
from nri_numamem.daemon.external import DEFAULT_SOCKET, ExternalPlugin
from nri_numamem.daemon.identity import identity_of
from nri_numamem.daemon.live_settings import read_drop_in
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.standby import Form, Standby
from nri_numamem.daemon.supervisor import DISCONNECTED, Ending
from nri_numamem.daemon.supervisor_status import SupervisorStatus
from nri_numamem.daemon.system import Connector, System, host_system
from nri_numamem.engine.records.process import (
    NotRegistered,
    RestartFailed,
    RestartingAfterCrash,
    RestartingAfterDisconnect,
    Stopped,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.poller import Channel
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.plugin_file import StartMode

_REMEDY = (
    "restart the runtime; if the host is slow, set a longer plugin_registration_timeout (CRI-O: "
    "nri_plugin_registration_timeout), or run the plugin as a service"
)


class RuntimeConnector(Connector):
    """Connects only to sockets of one process."""

    def __init__(self, connector: Connector, runtime_pid: int) -> None:
        self._connector = connector
        self._runtime_pid = runtime_pid

    def connect(self, path: Path) -> Channel:
        """Return a connection to the runtime; OSError when there is none, or it is another."""
        channel = self._connector.connect(path)
        pid = self._connector.peer_pid(channel)
        if pid != self._runtime_pid:
            channel.close()
            text = f"process {pid} listens there, not {self._runtime_pid}"
            raise ConnectionRefusedError(errno.ECONNREFUSED, text)
        return channel

    def peer_pid(self, channel: Channel) -> int:
        """Return the runtime's pid."""
        return self._connector.peer_pid(channel)


class Restarted:
    """The worker that the supervisor starts.

    The supervisor ends the worker's process without Python's exit handlers, so the log is flushed
    here.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        status: SupervisorStatus,
        runtime_pid: int,
        system: System | None = None,
    ) -> None:
        self._identity = identity_of(environment)
        self._is_configured = status.is_configured
        # The first process has read the same text without an error.
        self._settings = configuration.load_text(status.configuration(), "NRI configuration")
        _open_log(self._settings)
        system = system or host_system()
        connector = RuntimeConnector(system.connector, runtime_pid)
        self._system = replace(system, connector=connector)
        self._service = Service(logs.get_logger(), HostRoots(), self._system, status=status)
        self._service.mode = StartMode.RESTARTED

        read = partial(read_drop_in, self._identity, status.configuration())
        self._service.live.reads_from(read, "auto")

    def restart(self, ending: Ending) -> int:
        """Serve external connections until a signal; 1 if the plugin cannot start.

        A service that waited in standby may have taken over; then this worker waits in turn.
        Without a configuration from the runtime it only records that.
        """
        if not self._is_configured:
            cause = f"{ending.why}, before it had its configuration"
            self._service.emit(NotRegistered(cause=cause, exception=ending.crash, remedy=_REMEDY))
            logs.flush()
            return 0
        self._service.metrics.count_start(_start_cause(ending.why, ending.crash))
        if ending.failed_starts:
            attempts = f"no process could be started, {ending.failed_starts} attempts failed"
            remedy = "find what uses up process ids or memory, and limit it (podPidsLimit)"
            self._service.emit(
                RestartFailed(cause=f"{attempts}: {ending.start_error}", remedy=remedy)
            )
        away_ms = round(1000 * (self._system.clock.monotonic_s() - ending.at_s))
        record: Record = RestartingAfterDisconnect(cause=ending.why, away_ms=away_ms)
        if ending.why != DISCONNECTED:
            record = RestartingAfterCrash(cause=ending.why, away_ms=away_ms, exception=ending.crash)
        self._service.emit(record)
        try:
            engine = build_engine(self._settings, HostRoots())
        except UsageError as error:
            remedy = "restart the runtime, or run the plugin as a service"
            self._service.emit(RestartFailed(cause=str(error), remedy=remedy))
            logs.flush()
            return 1
        form = Form(
            started_as="started again after it ended",
            read=lambda: self._settings,
            build=lambda settings: build_engine(settings, HostRoots()),
            open_log=_open_log,
        )
        with self._system.open_signals() as signals:
            standby = Standby(form, self._service, self._system, signals)
            if standby.start(self._settings, engine):
                ExternalPlugin(
                    self._service, self._system, signals, DEFAULT_SOCKET, self._identity
                ).run()
        self._service.close()
        self._service.emit(Stopped())
        logs.flush()
        return 0


def _open_log(settings: Settings) -> None:
    logs.configure(settings.log_file or "auto", settings.log_level, settings.log_format)


def _start_cause(why: str, crash: str) -> str:
    """Return the cause of a start for the metrics."""
    if why == DISCONNECTED:
        return causes.DISCONNECTED
    if crash:
        return causes.CRASHED
    return causes.FAILED if why.startswith("exit status") else causes.KILLED


def connect(system: System, runtime_pid: int) -> Channel:
    """Return a connection to the runtime; OSError when there is none, or it is another."""
    return RuntimeConnector(system.connector, runtime_pid).connect(DEFAULT_SOCKET)
