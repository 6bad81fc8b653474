"""The plugin as the runtime starts it from its plugin directory.

What it gets: three environment variables and nothing else, the runtime's socket on descriptor 3,
/dev/null for standard input and output, and its configuration as text from Configure. It serves
that one connection and ends with it; the runtime never starts it again by itself.

A configuration that cannot be used is refused where the runtime survives that (NRI >= 0.7.0).
Older runtimes would exit, so there the plugin stays, leaves every container alone, and says so.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from nri_numamem.cli import configuration
from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.service import HostRoots, Identity, Service, build_engine
from nri_numamem.cli.signals import Signals
from nri_numamem.engine.plan import Record
from nri_numamem.nri.methods import Configuration, Refused
from nri_numamem.nri.stream import Ended
from nri_numamem.observe import logs

_NAME = re.compile(r"(?:\d\d-)?(.+)")  # NRI 0.3 puts the index into the name
_LAST_DESCRIPTOR = 1 << 16


@dataclass(frozen=True, slots=True)
class _Launch:
    descriptor: int
    identity: Identity


class LaunchedService(Service):
    """A service that learns its settings from the runtime."""

    def configure(self, configuration_: Configuration) -> None:
        """Build the engine from the configuration's text; Refused when that cannot be."""
        try:
            settings = configuration.load_text(configuration_.text, "NRI configuration")
            logs.configure(settings.log_file or "auto", settings.log_level, settings.log_format)
            self.use(build_engine(settings, self._roots))
        except UsageError as error:
            if configuration_.survives_refusal:
                raise Refused(f"nri-numamem: {error}") from error
            fields = {"error": str(error)}
            self.emit(Record("not configured, every container is left alone", "error", fields))


def main(environment: Mapping[str, str]) -> int:
    """Serve the runtime's connection to its end; 0 when the runtime closed it."""
    try:
        launch = _launch_of(environment)
        # NRI < 0.6.0 leaks another end of the socket into us, which would hide the end of file.
        # Before anything is opened here.
        os.closerange(launch.descriptor + 1, _LAST_DESCRIPTOR)
        sock = socket.socket(fileno=launch.descriptor)
    except (UsageError, OSError) as error:
        logs.configure("auto")
        logs.get_logger().error("cannot start", error=str(error))
        return 2
    sock.set_inheritable(False)
    logs.configure("auto")
    log = logs.get_logger()
    service = LaunchedService(log, HostRoots())
    with Signals() as signals:
        served = service.serve(sock, launch.identity, signals)
    clean = served.ended in (Ended.EOF, Ended.STOPPED)
    level = "info" if clean else "error"
    service.emit(Record("ended", level, {"why": served.why, "was_registered": served.registered}))
    return 0 if clean else 1


def _launch_of(environment: Mapping[str, str]) -> _Launch:
    descriptor = environment["NRI_PLUGIN_SOCKET"]
    name = _NAME.fullmatch(environment.get("NRI_PLUGIN_NAME", ""))
    if not descriptor.isdecimal():
        raise UsageError(f"NRI_PLUGIN_SOCKET={descriptor!r} is no file descriptor")
    if name is None:
        raise UsageError("NRI_PLUGIN_NAME is not set, though NRI_PLUGIN_SOCKET is")
    # The runtime goes by the file's name and ignores what is registered.
    idx = environment.get("NRI_PLUGIN_IDX", Identity().idx)
    return _Launch(int(descriptor), Identity(name[1], idx))
