"""The launched plugin after its first process died: the same plugin, as an external connection.

The keeper runs this in a process of its own. It connects to the socket that the runtime listens on,
under the name, the index and the configuration that the first process had, serves that connection,
and ends with it. It connects to no other process than the runtime that launched the first one.
"""

import contextlib
import socket
import struct
from collections.abc import Mapping

from nri_numamem.cli import configuration
from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.keeper import Tether
from nri_numamem.cli.launched import identity_of
from nri_numamem.cli.run import DEFAULT_SOCKET
from nri_numamem.cli.service import HostRoots, Service, build_engine
from nri_numamem.cli.signals import Signals
from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.nri.stream import Ended
from nri_numamem.observe import logs

_PEER_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Restarted:
    """What the keeper starts; knows where the runtime is and what the plugin was told."""

    def __init__(self, environment: Mapping[str, str], tether: Tether, runtime_pid: int) -> None:
        self._identity = identity_of(environment)
        self._runtime_pid = runtime_pid
        # The first process has read the same text without an error.
        self._settings = configuration.load_text(tether.configuration(), "NRI configuration")
        settings = self._settings
        logs.configure(settings.log_file or "auto", settings.log_level, settings.log_format)
        self._service = Service(
            logs.get_logger(), HostRoots(), crash_descriptor=tether.crash_descriptor
        )

    def come_back(self, why: str, crash: str) -> int:
        """Serve one external connection; 0 when it ended as it should, or there can be none."""
        self._tell("died, starting again", why, crash)
        try:
            engine = build_engine(self._settings, HostRoots())
            self._service.take_over(engine, "started again after it died")
            sock = connect(self._runtime_pid)
        except (OSError, UsageError) as error:
            fields: dict[str, RecordValue] = {
                "why": str(error),
                "socket": str(DEFAULT_SOCKET),
                "remedy": "restart the runtime, or run the plugin as a service",
            }
            self._service.emit(Record("cannot come back, ended", "error", fields))
            return 0
        with Signals() as signals:
            served = self._service.serve(sock, self._identity, signals)
        self._service.close()
        clean = served.ended in (Ended.EOF, Ended.STOPPED)
        fields = {"why": served.why, "was_registered": served.registered}
        self._service.emit(Record("ended", "info" if clean else "error", fields))
        return 0 if clean else 1

    def give_up(self, why: str, crash: str) -> int:
        """Tell that there will be no further start; 0."""
        self._tell("died too often, not started again", why, crash)
        return 0

    def _tell(self, event: str, why: str, crash: str) -> None:
        fields: dict[str, RecordValue] = {"why": why}
        if crash:
            fields["exception"] = crash
        self._service.emit(Record(event, "error", fields))


def connect(runtime_pid: int) -> socket.socket:
    """Return a connection to the runtime; OSError when there is none, or it is another."""
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        sock.connect(str(DEFAULT_SOCKET))
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
        pid = _PEER_CREDENTIALS.unpack(credentials)[0]
        if pid != runtime_pid:
            raise OSError(f"process {pid} listens there, not {runtime_pid}")
        stack.pop_all()
    return sock
