"""The plugin as the runtime starts it from its plugin directory.

What it gets: three environment variables and nothing else, the runtime's socket on descriptor 3,
/dev/null for standard input and output, and its configuration as text from Configure. It serves
that one connection and ends with it. The runtime never starts it again, so it tells its keeper
whether an end of the process would be a crash.

A configuration that cannot be used is refused where the runtime survives that (NRI >= 0.7.0).
Older runtimes would exit, so there the plugin stays, leaves every container alone, and says so.
"""

import re
import socket
from collections.abc import Mapping

from nri_numamem.cli import configuration
from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.keeper import Tether
from nri_numamem.cli.service import STDERR, HostRoots, Identity, Service, build_engine
from nri_numamem.cli.signals import Signals
from nri_numamem.engine.plan import Record
from nri_numamem.nri.methods import Configuration, Refused
from nri_numamem.nri.stream import Ended
from nri_numamem.observe import logs
from nri_numamem.observe.logs import Logger

_NAME = re.compile(r"(?:\d\d-)?(.+)")  # NRI 0.3 puts the index into the name


class LaunchedService(Service):
    """A service that learns its settings from the runtime."""

    def __init__(self, log: Logger, roots: HostRoots, tether: Tether | None) -> None:
        crash_descriptor = STDERR if tether is None else tether.crash_descriptor
        super().__init__(log, roots, crash_descriptor=crash_descriptor)
        self._tether = tether

    def configure(self, configuration_: Configuration) -> None:
        """Build the engine from the configuration's text; Refused when that cannot be."""
        try:
            settings = configuration.load_text(configuration_.text, "NRI configuration")
            logs.configure(settings.log_file or "auto", settings.log_level, settings.log_format)
            self.take_over(build_engine(settings, self._roots), "launched by the runtime")
        except UsageError as error:
            if configuration_.survives_refusal:
                raise Refused(f"nri-numamem: {error}") from error
            fields = {"error": str(error)}
            self.emit(Record("not configured, every container is left alone", "error", fields))
        else:
            if self._tether is not None:
                self._tether.running(configuration_.text)


def main(environment: Mapping[str, str], tether: Tether | None = None) -> int:
    """Serve the runtime's connection to its end; 0 when the runtime closed it.

    Without a `tether` nobody starts the plugin again.
    """
    try:
        identity = identity_of(environment)
        sock = socket.socket(fileno=_descriptor_of(environment))
    except (UsageError, OSError) as error:
        logs.configure("auto")
        logs.get_logger().error("cannot start", error=str(error))
        return 2
    sock.set_inheritable(False)
    logs.configure("auto")
    log = logs.get_logger()
    _load_ahead()
    service = LaunchedService(log, HostRoots(), tether)
    with Signals() as signals:
        served = service.serve(sock, identity, signals)
    service.close()
    clean = served.ended in (Ended.EOF, Ended.STOPPED)
    if clean and tether is not None:
        tether.over()
    level = "info" if clean else "error"
    service.emit(Record("ended", level, {"why": served.why, "was_registered": served.registered}))
    return 0 if clean else 1


def _load_ahead() -> None:
    """Load what a configuration needs: the runtime waits longer for a start than for a reply."""
    configuration.load_text("logLevel: info", "a sample")


def _descriptor_of(environment: Mapping[str, str]) -> int:
    descriptor = environment["NRI_PLUGIN_SOCKET"]
    if not descriptor.isdecimal():
        raise UsageError(f"NRI_PLUGIN_SOCKET={descriptor!r} is no file descriptor")
    return int(descriptor)


def identity_of(environment: Mapping[str, str]) -> Identity:
    """Return name and index that the runtime gave; UsageError when it gave none."""
    name = _NAME.fullmatch(environment.get("NRI_PLUGIN_NAME", ""))
    if name is None:
        raise UsageError("NRI_PLUGIN_NAME is not set, though NRI_PLUGIN_SOCKET is")
    # The runtime goes by the file's name and ignores what is registered.
    idx = environment.get("NRI_PLUGIN_IDX", Identity().idx)
    return Identity(name[1], idx)
