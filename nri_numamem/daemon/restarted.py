"""The launched plugin after its first process died: the same plugin, as an external connection.

The supervisor runs this in a process of its own. The worker connects to the runtime's socket, under
the name, the index and the configuration of the first process, serves that connection, and ends
with it. It connects to no other process than the runtime that launched the first one.
"""

from collections.abc import Mapping

from nri_numamem.config import load as configuration
from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.external import DEFAULT_SOCKET
from nri_numamem.daemon.identity import identity_of
from nri_numamem.daemon.service import Service, build_engine
from nri_numamem.daemon.supervisor import SupervisorStatus
from nri_numamem.daemon.system import System, host_system
from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.engine.records.events import EventName
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.event_loop import Ended
from nri_numamem.nri.poller import Channel
from nri_numamem.observe.log import loggers as logs


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
        self._runtime_pid = runtime_pid
        # The first process has read the same text without an error.
        self._settings = configuration.load_text(status.configuration(), "NRI configuration")
        settings = self._settings
        logs.configure(settings.log_file or "auto", settings.log_level, settings.log_format)
        self._system = system or host_system()
        self._service = Service(
            logs.get_logger(),
            HostRoots(),
            self._system,
            crash_descriptor=status.crash_descriptor,
        )

    def restart(self, why: str, crash: str) -> int:
        """Serve one external connection; return 0 if it ended on purpose or there can be none."""
        self._emit(EventName.RESTARTING_AFTER_CRASH, why, crash)
        try:
            engine = build_engine(self._settings, HostRoots())
            self._service.start(engine, self._settings, "started again after it died")
            channel = connect(self._system, self._runtime_pid)
        except (OSError, UsageError) as error:
            fields: dict[str, RecordValue] = {
                "cause": str(error),
                "socket": str(DEFAULT_SOCKET),
                "remedy": "restart the runtime, or run the plugin as a service",
            }
            self._service.emit(Record(EventName.RESTART_FAILED, fields))
            logs.flush()
            return 0
        with self._system.open_signals() as signals:
            result = self._service.serve(channel, self._identity, signals)
        self._service.close()
        clean = result.ended in (Ended.EOF, Ended.STOPPED)
        fields = {"cause": result.cause, "was_registered": result.registered}
        self._service.emit(Record(EventName.PLUGIN_EXITED, fields, alternate=not clean))
        logs.flush()
        return 0 if clean else 1

    def abandon(self, why: str, crash: str) -> int:
        """Log that there will be no further start; return 0."""
        self._emit(EventName.RESTART_LIMIT_REACHED, why, crash)
        logs.flush()
        return 0

    def _emit(self, event: EventName, why: str, crash: str) -> None:
        fields: dict[str, RecordValue] = {"cause": why}
        if crash:
            fields["exception"] = crash
        self._service.emit(Record(event, fields))


def connect(system: System, runtime_pid: int) -> Channel:
    """Return a connection to the runtime; OSError when there is none, or it is another."""
    channel = system.connector.connect(DEFAULT_SOCKET)
    pid = system.connector.peer_pid(channel)
    if pid != runtime_pid:
        channel.close()
        raise OSError(f"process {pid} listens there, not {runtime_pid}")
    return channel
