"""``nri-numamem run``: the plugin as a service that connects to the runtime's socket.

When the runtime goes away, because it was restarted or never was there, the plugin tries again
with growing pauses, for ever: it never ends by itself, and never hammers. A second connection is
opened only after the first is closed, because two live instances of one plugin make every
container creation fail.
"""

import argparse
import os
import select
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

from nri_numamem.cli import configuration
from nri_numamem.cli.lasting import AlreadyRunningError
from nri_numamem.cli.service import HostRoots, Identity, Served, Service, build_engine
from nri_numamem.cli.signals import Signals
from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.engine.settings import LOG_FORMATS, LOG_LEVELS, STATE_FILE, Settings
from nri_numamem.nri.stream import TICK_S, Ended
from nri_numamem.observe import logs
from nri_numamem.observe.systemd import Notifier

DEFAULT_SOCKET = Path("/var/run/nri/nri.sock")
DEFAULT_CONFIG = Path("/etc/nri-numamem/config.yaml")

# Between two attempts: from a second, since a runtime's restart takes that long, doubling to half
# a minute. Less would fill logs on a host whose runtime has NRI off.
PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 30.0
# A connection that held this long was a good one: after it the pauses begin anew. A runtime that
# drops us each time right after it configured us is not hammered.
STEADY_S = 10.0
# A refused registration does not mend itself; somebody has to look at it.
PAUSE_REFUSED_S = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument(
        "--socket", type=Path, default=DEFAULT_SOCKET, help="the runtime's NRI socket (%(default)s)"
    )
    parser.add_argument(
        "--idx", default="10", type=_two_digits, help="place among the plugins, 00-99 (%(default)s)"
    )
    parser.add_argument(
        "--name", default="nri-numamem", help="the plugin's name for the runtime (%(default)s)"
    )
    parser.add_argument(
        "--config", type=Path, help=f"settings in YAML (default: {DEFAULT_CONFIG} if it exists)"
    )
    parser.add_argument(
        "--reserved-memory",
        action="append",
        default=[],
        metavar="NODE:TYPE=QUANTITY[,...][;...]",
        help="memory that is not for pods, in the kubelet's grammar, instead of the "
        "configuration's reservedMemory; for example '0:memory=1Gi;1:memory=1Gi'",
    )
    parser.add_argument(
        "--kubelet-config",
        type=Path,
        metavar="FILE",
        help="the kubelet's configuration file: what the settings leave out is taken from it, "
        "instead of from their kubeletConfigFile",
    )
    parser.add_argument(
        "--state-file",
        metavar="FILE",
        help="what outlives this process, and the lock against a second one, instead of the "
        f"configuration's stateFile; an empty one is none (default: {STATE_FILE}, and none with "
        "another --socket)",
    )
    parser.add_argument(
        "--metrics-address",
        metavar="HOST:PORT",
        help="where Prometheus metrics are served, instead of the configuration's metricsAddress; "
        "an empty one is nowhere (default: nowhere)",
    )
    parser.add_argument("--log-file", type=Path, help="write the log there instead of to stderr")
    parser.add_argument("--log-level", choices=LOG_LEVELS)
    parser.add_argument("--log-format", choices=LOG_FORMATS)
    roots = parser.add_argument_group("where the host's kernel shows itself")
    roots.add_argument("--sysfs-root", type=Path, default=HostRoots().sysfs)
    roots.add_argument("--proc-root", type=Path, default=HostRoots().proc)
    roots.add_argument("--cgroup-root", type=Path, default=HostRoots().cgroup)


def main(args: argparse.Namespace) -> int:
    """Serve until a signal asks to stop; 0 then, 1 when another instance is running."""
    settings = settings_of(args)
    roots = HostRoots(args.sysfs_root, args.proc_root, args.cgroup_root)
    engine = build_engine(settings, roots)
    logs.configure(settings.log_file or "stderr", settings.log_level, settings.log_format)
    service = Service(logs.get_logger(), roots, notifier=Notifier(os.environ))
    try:
        service.take_over(engine, f"started as nri-numamem run --socket {args.socket}")
    except AlreadyRunningError as error:
        if settings.log_file:
            service.emit(Record("not started", "error", {"error": str(error)}))
        print(f"nri-numamem: {error}", file=sys.stderr)
        return 1
    with Signals() as signals:
        _serve_for_ever(service, signals, args.socket, Identity(args.name, args.idx))
        service.notifier.stopping()
    service.close()
    service.emit(Record("stopped"))
    return 0


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the settings of file and flags together; UsageError says what is wrong where."""
    path = args.config
    if path is None and DEFAULT_CONFIG.exists():
        path = DEFAULT_CONFIG
    if path is None:
        settings = configuration.load_text("", "no configuration", args.kubelet_config)
    else:
        settings = configuration.load_file(path, args.kubelet_config)
    if args.reserved_memory:
        settings = replace(
            settings, reserved_memory=configuration.parse_reserved(args.reserved_memory)
        )
    if args.state_file is not None:
        state_file = str(Path(args.state_file).absolute()) if args.state_file else ""
        settings = replace(settings, state_file=state_file)
    elif settings.state_file is None and args.socket.resolve() != DEFAULT_SOCKET.resolve():
        # Another runtime than the host's: an experiment, which must not touch the host's state.
        settings = replace(settings, state_file="")
    if args.metrics_address is not None:
        address = configuration.parse_metrics_address(args.metrics_address)
        settings = replace(settings, metrics_address=address)
    if args.log_file is not None:
        settings = replace(settings, log_file=str(args.log_file.absolute()))
    return replace(
        settings,
        log_level=args.log_level or settings.log_level,
        log_format=args.log_format or settings.log_format,
    )


def _two_digits(text: str) -> str:
    if len(text) == 2 and text.isascii() and text.isdigit():
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of two digits, such as 10")


def _serve_for_ever(service: Service, signals: Signals, path: Path, identity: Identity) -> None:
    pause_s = PAUSE_MIN_S
    told = ""
    while True:
        try:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.connect(str(path))
            except OSError:
                sock.close()
                raise
        except OSError as error:
            why = f"{path}: {error.strerror}"
            if why != told:  # once, not every half minute
                service.emit(_cannot_connect(why))
                told = why
                # Ready to wait: a host without NRI shall not be stuck in its start because of us.
                service.notifier.ready(f"waiting for the runtime: {why}")
        else:
            told = ""
            began_s = time.monotonic()
            served = service.serve(sock, identity, signals)
            if served.ended is Ended.STOPPED:
                return
            if served.registered and time.monotonic() - began_s >= STEADY_S:
                pause_s = PAUSE_MIN_S
            service.emit(_connection_ended(served))
            service.notifier.status(f"not connected: {served.why}")
            if served.ended is Ended.FINISHED:
                pause_s = PAUSE_REFUSED_S
        # Hosts that lost their runtimes together do not come back together.
        if _pause(service, signals, pause_s * (1.0 + os.urandom(1)[0] / 1275)):
            return
        pause_s = min(pause_s * 2, max(PAUSE_MAX_S, pause_s))


def _pause(service: Service, signals: Signals, seconds: float) -> bool:
    """Wait, but not for signals; tells whether one asked to stop."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        service.notifier.alive(time.monotonic())
        ready, _, _ = select.select([signals.wake], [], [], min(left_s, TICK_S))
        if ready and service.take_signals(signals):
            return True
    return False


def _cannot_connect(why: str) -> Record:
    remedy = "is the runtime up, and NRI enabled in its configuration?"
    return Record("cannot connect, trying again", "warning", {"why": why, "remedy": remedy})


def _connection_ended(served: Served) -> Record:
    fields: dict[str, RecordValue] = {"why": served.why, "was_registered": served.registered}
    if served.ended is Ended.FINISHED:
        event = "connection given up" if served.registered else "registration refused"
        return Record(event, "error", fields)
    return Record("disconnected, connecting again", "warning", fields)
