"""The plugin as the runtime starts it from its plugin directory.

The process gets three environment variables, the runtime's socket on descriptor 3, /dev/null for
standard input and output, and its configuration as text in Configure. It serves that one connection
and ends with it. The runtime never starts it again, so it records for its supervisor why it ends: a
runtime that closed the connection but lives on gets another process as an external plugin.

A configuration that cannot be used is rejected where the runtime survives that (NRI >= 0.7.0).
Older runtimes would exit, so there the plugin stays, manages no container, and logs why.

Those runtimes also never synchronize a launched plugin: after their restart its accounting would be
empty while pods run. So there the plugin continues as an external plugin, which is synchronized, as
soon as the runtime listens; where the runtime does not listen, the plugin stays, and logs that.
Before NRI 0.6.1 a registration can deadlock with the start of a container (containerd issue 10085),
and just after the runtime's own start is the worst moment for one; so there it stays as well.

Only Configure can be answered with a rejection, so the engine is built within it. If that takes too
long or fails, the reply is empty, and the engine is built as soon as the reply was sent, before
anything else is read: the Synchronize that follows finds an engine. If that fails as well, the
process ends, and its supervisor starts another one, which the runtime synchronizes.
"""

import os
import re
import socket
from collections.abc import Iterable, Mapping
from functools import partial

from nri_numamem.config import load as configuration
from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.connection import ConnectionResult
from nri_numamem.daemon.identity import Identity, identity_of
from nri_numamem.daemon.jobs import PeriodicJob
from nri_numamem.daemon.live_settings import read_drop_in
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.supervisor_status import LAUNCHED, SupervisorStatus
from nri_numamem.daemon.system import System, host_system
from nri_numamem.engine.records.connection import (
    ConfigurationFailedExiting,
    ConfigurationFailedInactive,
    ConfigurationRejected,
    RuntimeNeverSynchronizes,
    SwitchedToExternal,
)
from nri_numamem.engine.records.process import (
    CapabilitiesKept,
    NotStarted,
    PluginExited,
    SupervisorUnavailable,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.event_loop import Ended
from nri_numamem.nri.plugin_service import Refused
from nri_numamem.nri.poller import Channel
from nri_numamem.observe.files import traceback_of
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.log.loggers import Logger
from nri_numamem.observe.plugin_file import StartMode

# Ticks that a runtime has, after it configured the plugin, to listen: it launches other plugins
# first.
CONNECT_TRIES = 30

# The first releases with NRI 0.6.1.
_REGISTERS_SAFELY = {"containerd": (1, 7, 16), "cri-o": (1, 32, 0)}
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


class LaunchedService(Service):
    """A service that gets its settings from the runtime."""

    def __init__(
        self,
        log: Logger,
        roots: HostRoots,
        system: System,
        status: SupervisorStatus | None,
        unwatched: str = "",
    ) -> None:
        super().__init__(log, roots, system, status=status)
        self.jobs.add(PeriodicJob("switch to external", self._switch_to_external))
        self.mode = StartMode.LAUNCHED
        self._status = status
        self._unwatched = unwatched
        """Why there is no supervisor, until that is recorded."""
        self._identity = Identity()
        self._runtime_pid = os.getppid()
        self._tries = 0
        self.external_channel: Channel | None = None
        """The connection that replaces the one that the runtime made, if any."""
        self._is_last_connection = False
        """Whether that connection is served."""

    def configure(self, configuration_: Configuration) -> None:
        """Build the engine from the configuration's text; Refused when that is impossible.

        External plugins get no text: the configuration of the first connection stays.
        """
        if self.external_channel is not None:
            super().configure(configuration_)
            return
        try:
            self._set_up(configuration_)
        except UsageError as error:
            if configuration_.survives_refusal:
                refused = Refused(f"nri-numamem: {error}")
                names = configuration_.names
                self.emit(ConfigurationRejected(runtime=names, error=str(refused)))
                logs.flush()  # the runtime kills the process after the reply
                raise refused from error
            self.emit(ConfigurationFailedInactive(error=str(error)))
        self._expect_no_synchronize(configuration_)

    def configure_late(self, configuration_: Configuration) -> None:
        """Build the engine after the reply; end the connection if that fails because of a bug."""
        if self.external_channel is not None:
            super().configure_late(configuration_)
            return
        try:
            self._set_up(configuration_)
        except UsageError as error:  # too late for a refusal
            self.emit(ConfigurationFailedInactive(error=str(error)))
        except Exception as error:  # noqa: BLE001 - logged; another process tries again
            self.emit(ConfigurationFailedExiting(exception=traceback_of(error)))
            self.end_connection("the configuration was not applied")
            return
        self._expect_no_synchronize(configuration_)

    def _expect_no_synchronize(self, configuration_: Configuration) -> None:
        """Prepare the switch to an external plugin where launched ones get no Synchronize."""
        if configuration_.survives_refusal:
            return
        if _registers_safely(configuration_):
            self._tries = CONNECT_TRIES
        else:
            remedy = "upgrade it, or restart pods with it"
            self.emit(RuntimeNeverSynchronizes(cause="the runtime is too old", remedy=remedy))

    def _switch_to_external(self, _now_s: float) -> Iterable[Record]:
        """Connect to the runtime's socket; if that works, end the present connection."""
        if not self._tries or self.engine is None:
            return ()
        from nri_numamem.daemon.restarted import connect  # noqa: PLC0415 - only for old runtimes

        self._tries -= 1
        try:
            self.external_channel = connect(self._system, self._runtime_pid)
        except OSError as error:
            if self._tries:
                return ()
            remedy = "allow external plugins in the runtime"
            return (RuntimeNeverSynchronizes(cause=str(error), remedy=remedy),)
        self._tries = 0
        # The old connection is closed before the new one registers: two would conflict.
        self.end_connection("an external plugin is synchronized")
        return ()

    def run(self, channel: Channel, identity: Identity) -> int:
        """Serve the connections to their end; return 0 if the runtime or a signal ended them."""
        self._identity = identity
        with self._system.open_signals() as signals:
            result = self.serve(channel, identity, signals)
            if self.external_channel is not None:
                self.emit(SwitchedToExternal(cause=result.cause))
                self._is_last_connection = True
                result = self.serve(self.external_channel, identity, signals)
        self.close()
        logs.flush()
        return 0 if _is_clean(result) else 1

    def ending(self, result: ConnectionResult) -> None:
        """Record why the process ends: the runtime kills it as soon as the channel is closed."""
        if self.external_channel is not None and not self._is_last_connection:
            return
        is_clean = _is_clean(result)
        if self._status is not None:
            if result.ended is Ended.STOPPED:
                self._status.over()
            elif is_clean:
                self._status.disconnected()
        self.emit(
            PluginExited(
                cause=result.cause, was_registered=result.registered, alternate=not is_clean
            )
        )
        logs.flush()

    def _set_up(self, configuration_: Configuration) -> None:
        try:
            self._build(configuration_.text)
        except UsageError:
            if self._status is not None:
                self._status.over()
            raise
        super().configure(configuration_)

    def _build(self, text: str) -> None:
        settings = configuration.load_text(text, "NRI configuration")
        self.live.reads_from(partial(read_drop_in, self._identity, text), "auto")
        logs.configure(settings.log_file or "auto", settings.log_level, settings.log_format)
        if self._unwatched:
            self.emit(SupervisorUnavailable(error=self._unwatched))
            self._unwatched = ""
        if self._status is not None:
            self._status.running(text)
        engine = build_engine(settings, self._roots)
        self.start(engine, settings, "launched by the runtime")


def main(
    environment: Mapping[str, str],
    status: SupervisorStatus | None = None,
    problem: str = "",
    unwatched: str = "",
) -> int:
    """Serve the runtime's connection to its end; 0 when the runtime closed it.

    `status` is None if there is no supervisor, and `unwatched` is why. `problem` is why
    capabilities were not dropped.
    """
    try:
        identity = identity_of(environment)
        sock = socket.socket(fileno=_descriptor_of(environment))
    except (UsageError, OSError) as error:
        logs.configure("auto")
        logs.get_logger().error(NotStarted.event, error=str(error))
        if status is not None:
            status.over()
        return 2
    sock.set_inheritable(False)
    sock.setblocking(False)  # noqa: FBT003 - its only argument
    logs.configure("auto")
    # Import what Configure needs: the runtime waits longer for a start than for a reply.
    configuration.load_text("logLevel: info", "a sample")
    service = LaunchedService(logs.get_logger(), HostRoots(), host_system(), status, unwatched)
    service.metrics.count_start(LAUNCHED)
    if problem:
        service.emit(CapabilitiesKept(error=problem))
    return service.run(sock, identity)


def _is_clean(result: ConnectionResult) -> bool:
    """Return whether the runtime or a signal ended the connection."""
    return result.ended in (Ended.EOF, Ended.STOPPED)


def _registers_safely(configuration_: Configuration) -> bool:
    """Return whether this runtime is known to accept a plugin at any moment."""
    version = _VERSION.match(configuration_.runtime_version)
    least = _REGISTERS_SAFELY.get(configuration_.runtime_name)
    if version is None or least is None:
        return False
    return tuple(map(int, version.groups())) >= least


def _descriptor_of(environment: Mapping[str, str]) -> int:
    descriptor = environment["NRI_PLUGIN_SOCKET"]
    if not descriptor.isdecimal():
        raise UsageError(f"NRI_PLUGIN_SOCKET={descriptor!r} is not a file descriptor")
    return int(descriptor)
