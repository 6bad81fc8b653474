"""The plugin as the runtime starts it from its plugin directory.

What it gets: three environment variables and nothing else, the runtime's socket on descriptor 3,
/dev/null for standard input and output, and its configuration as text from Configure. It serves
that one connection and ends with it. The runtime never starts it again, so it tells its keeper
whether an end of the process would be a crash.

A configuration that cannot be used is refused where the runtime survives that (NRI >= 0.7.0).
Older runtimes would exit, so there the plugin stays, leaves every container alone, and says so.

Those runtimes also never tell a launched plugin what is running: after their restart its books
would be empty under pods that run. So there it goes on as an external plugin, which is told, as
soon as the runtime listens; where it does not listen, the plugin stays, and says so. Before NRI
0.6.1 a registration can deadlock with the start of a container (containerd issue 10085), and just
after the runtime's own start is the worst moment for one; so there it stays as well.

Only the runtime's Configure can be answered with a refusal, so the engine is built within it. If
that takes too long or fails, the reply is neutral, and it is done again as soon as the reply is on
its way, before anything else is read: the Synchronize that follows finds an engine. If that fails
as well, the process ends, and its keeper starts another one, which is told anew what is running.
"""

import os
import re
import socket
import traceback
from collections.abc import Mapping

from nri_numamem.cli import configuration
from nri_numamem.cli.errors import NoEngineError, UsageError
from nri_numamem.cli.keeper import Tether
from nri_numamem.cli.service import STDERR, HostRoots, Identity, Service, build_engine
from nri_numamem.cli.signals import Signals
from nri_numamem.engine.plan import Record
from nri_numamem.nri.methods import Configuration, Refused
from nri_numamem.nri.stream import Ended
from nri_numamem.observe import logs
from nri_numamem.observe.logs import Logger

# Ticks, a second apart, that a runtime which has configured us is given to listen: it launches
# other plugins first.
CONNECT_TRIES = 30

# The first releases with NRI 0.6.1.
_REGISTERS_SAFELY = {"containerd": (1, 7, 16), "cri-o": (1, 32, 0)}
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")

_NAME = re.compile(r"(?:\d\d-)?(.+)")  # NRI 0.3 puts the index into the name


class LaunchedService(Service):
    """A service that learns its settings from the runtime."""

    def __init__(self, log: Logger, roots: HostRoots, tether: Tether | None) -> None:
        crash_descriptor = STDERR if tether is None else tether.crash_descriptor
        super().__init__(log, roots, crash_descriptor=crash_descriptor)
        self._tether = tether
        self._unfinished: str | None = None
        """The text of a configuration that was answered but not taken."""
        self._runtime_pid = os.getppid()
        self._tries = 0
        self.outside: socket.socket | None = None
        """The connection to go on with, if the one that the runtime made is of no use."""

    def configure(self, configuration_: Configuration) -> None:
        """Build the engine from the configuration's text; Refused when that cannot be.

        External plugins are configured with nothing: what the first connection told stays.
        """
        if self.outside is not None:
            return
        self._unfinished = configuration_.text
        try:
            self._set_up(configuration_.text)
        except UsageError as error:
            if configuration_.survives_refusal:
                self._unfinished = None
                raise Refused(f"nri-numamem: {error}") from error
            self._stay_without_engine(error)
        self._unfinished = None
        if configuration_.survives_refusal:
            return
        if _registers_safely(configuration_):
            self._tries = CONNECT_TRIES
        else:
            self._tell_untold("the runtime is too old", "upgrade it, or restart pods with it")

    def after_replies(self) -> None:
        """Take a configuration that was answered without it; NoEngineError when that fails too."""
        if self._unfinished is not None:
            try:
                self._set_up(self._unfinished)
            except UsageError as error:  # too late for a refusal
                self._stay_without_engine(error)
            except Exception as error:
                text = "".join(traceback.format_exception(error)).rstrip()
                self.emit(Record("not configured, ending", "error", {"exception": text}))
                raise NoEngineError("the configuration was not taken") from error
            self._unfinished = None
        super().after_replies()

    def tick(self) -> None:
        """Also go over to an external connection; ConnectionAbortedError when that is made."""
        super().tick()
        if not self._tries or self.engine is None:
            return
        from nri_numamem.cli.restarted import connect  # noqa: PLC0415 - only for old runtimes

        self._tries -= 1
        try:
            self.outside = connect(self._runtime_pid)
        except OSError as error:
            if not self._tries:
                self._tell_untold(str(error), "allow external plugins in the runtime")
            return
        self._tries = 0
        # The old connection is closed before the new one registers: two break every creation.
        raise ConnectionAbortedError("an external plugin is told what is running")

    def _tell_untold(self, why: str, remedy: str) -> None:
        fields = {"why": why, "remedy": remedy}
        self.emit(Record("not told what is running", "warning", fields))

    def _set_up(self, text: str) -> None:
        settings = configuration.load_text(text, "NRI configuration")
        logs.configure(settings.log_file or "auto", settings.log_level, settings.log_format)
        if self._tether is not None:
            self._tether.running(text)
        try:
            self.take_over(build_engine(settings, self._roots), "launched by the runtime")
        except UsageError:
            if self._tether is not None:
                self._tether.over()
            raise

    def _stay_without_engine(self, error: UsageError) -> None:
        fields = {"error": str(error)}
        self.emit(Record("not configured, every container is left alone", "error", fields))


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
        if service.outside is not None:
            service.emit(Record("connecting as an external plugin", fields={"why": served.why}))
            served = service.serve(service.outside, identity, signals)
    service.close()
    clean = served.ended in (Ended.EOF, Ended.STOPPED)
    if clean and tether is not None:
        tether.over()
    level = "info" if clean else "error"
    service.emit(Record("ended", level, {"why": served.why, "was_registered": served.registered}))
    return 0 if clean else 1


def _registers_safely(configuration_: Configuration) -> bool:
    """Tell whether this runtime is one that is known to accept a plugin at any moment."""
    version = _VERSION.match(configuration_.runtime_version)
    least = _REGISTERS_SAFELY.get(configuration_.runtime_name)
    if version is None or least is None:
        return False
    return tuple(map(int, version.groups())) >= least


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
