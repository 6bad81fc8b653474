"""``nri-numamem run``: the flags of the plugin as a service, and how its parts are put together."""

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nri_numamem.cli.host_arguments import add_root_arguments, roots_of
from nri_numamem.cli.output import add_log_arguments
from nri_numamem.config import load as configuration
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.config.settings import STATE_FILE, Settings
from nri_numamem.config.values import SettingsPath
from nri_numamem.daemon.external import DEFAULT_SOCKET, ExternalPlugin
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.network_hints import open_namespaces
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.standby import Form, Standby
from nri_numamem.daemon.supervisor_status import SERVICE
from nri_numamem.daemon.system import host_system
from nri_numamem.engine.records.process import CapabilitiesKept, Stopped, SupervisorUnavailable
from nri_numamem.host.capabilities import CAP_SYS_ADMIN, has_capability
from nri_numamem.host.roots import HostRoots
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.systemd import Notifier

EXAMPLES = (
    "nri-numamem run --config /etc/nri-numamem/config.yaml",
    "nri-numamem run --reserved-memory '0:memory=1Gi;1:memory=1Gi' --log-level debug",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument(
        "--socket",
        type=_socket_path,
        default=DEFAULT_SOCKET,
        help="the runtime's NRI socket (%(default)s)",
    )
    _add_identity_arguments(parser)
    parser.add_argument(
        "--config", type=Path, help=f"settings in YAML (default: {DEFAULT_CONFIG} if it exists)"
    )
    parser.add_argument(
        "--reserved-memory",
        action="append",
        default=[],
        metavar="NODE:TYPE=QUANTITY[,...][;...]",
        help="memory that pods cannot use, in the kubelet's syntax, instead of the "
        "configuration's reservedMemory; for example '0:memory=1Gi;1:memory=1Gi'",
    )
    parser.add_argument(
        "--kubelet-config",
        type=Path,
        metavar="FILE",
        help="the kubelet's configuration file, which supplies the settings that --config leaves "
        "out, instead of the configuration's kubeletConfigFile",
    )
    parser.add_argument(
        "--state-file",
        metavar="FILE",
        help="state kept across restarts, instead of the configuration's stateFile; while another "
        "instance holds its .lock, this one waits; '' disables both (default: "
        f"{STATE_FILE}, or '' with another --socket)",
    )
    parser.add_argument(
        "--metrics-address",
        metavar="ADDRESS",
        help="where Prometheus metrics are served, HOST:PORT or unix://PATH, instead of the "
        "configuration's metricsAddress; empty disables (default)",
    )
    parser.add_argument(
        "--log-file", type=Path, help="write the log to this file instead of stderr"
    )
    add_log_arguments(parser)
    add_root_arguments(parser)
    # Shared with the process that watches this one, or why there is none; set by cli.main.
    parser.set_defaults(status=None, unwatched="")


def _add_identity_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--idx",
        default="10",
        type=_two_digits,
        help="position among the plugins, 00-99 (%(default)s)",
    )
    parser.add_argument(
        "--name",
        type=_plugin_name,
        default="nri-numamem",
        help="the name to register with the runtime (%(default)s)",
    )


def main(args: argparse.Namespace) -> int:
    """Serve until a signal stops the process; return 0 then.

    While another instance runs, wait for its end.
    """
    settings = settings_of(args)
    roots = roots_of(args)
    engine = build_engine(settings, roots)
    # Before the first thread, which would keep the capability.
    namespaces = open_namespaces(settings, roots)
    problem = _drop_sys_admin(roots)
    _open_log(settings)
    system = host_system()
    service = Service(
        logs.get_logger(),
        roots,
        system,
        notifier=Notifier(os.environ),
        status=args.status,
        namespaces=namespaces,
    )
    service.metrics.count_start(SERVICE)
    if args.unwatched:
        service.emit(SupervisorUnavailable(error=args.unwatched))
    if problem:
        service.emit(CapabilitiesKept(error=problem))
    service.live.reads_from(partial(settings_of, args), "stderr")
    form = Form(
        started_as=f"started as nri-numamem run --socket {args.socket}",
        read=partial(settings_of, args),
        build=partial(build_engine, roots=roots),
        open_log=_open_log,
    )
    with system.open_signals() as signals:
        if Standby(form, service, system, signals).start(settings, engine):
            identity = Identity(args.name, args.idx)
            ExternalPlugin(service, system, signals, args.socket, identity).run()
        service.notifier.stopping()
    service.close()
    service.emit(Stopped())
    return 0


def _drop_sys_admin(roots: HostRoots) -> str:
    """Drop the capability that only the helper of networkHints needs; return why it failed."""
    if not has_capability(roots.proc, CAP_SYS_ADMIN):
        return ""
    from nri_numamem.daemon.privileges import drop_capabilities  # noqa: PLC0415 - rarely needed

    return drop_capabilities(kept=~(1 << CAP_SYS_ADMIN))


def _open_log(settings: Settings) -> None:
    logs.configure(settings.log_file or "stderr", settings.log_level, settings.log_format)


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the settings of file and flags together; raise UsageError for an invalid one."""
    settings = configuration.load_chosen(args.config, args.kubelet_config)
    changes = list(_changes(args, settings))
    places = {key: partial(_place, flag) for flag, key, _field, _value in changes}
    values = {field: value for _flag, _key, field, value in changes}
    return replace(settings, **values, origins={**settings.origins, **places})


def _place(flag: str, _path: SettingsPath) -> str:
    """Return the place of a setting that a flag sets."""
    return flag


def _changes(args: argparse.Namespace, settings: Settings) -> Iterator[tuple[str, str, str, Any]]:
    """Yield flag, key, field of Settings and value of what the flags set."""
    if args.reserved_memory:
        reservations = configuration.parse_reserved(args.reserved_memory)
        yield "--reserved-memory", "reservedMemory", "reserved_memory", reservations
    if args.state_file is not None:
        state_file = str(Path(args.state_file).absolute()) if args.state_file else ""
        yield "--state-file", "stateFile", "state_file", state_file
    elif settings.state_file is None and args.socket.resolve() != DEFAULT_SOCKET.resolve():
        # Another runtime than the host's: an experiment, which must not touch the host's state.
        yield "--socket", "stateFile", "state_file", ""
    if args.metrics_address is not None:
        address = configuration.parse_metrics_address(args.metrics_address)
        yield "--metrics-address", "metricsAddress", "metrics_address", address
    if args.log_file is not None:
        yield "--log-file", "logFile", "log_file", str(args.log_file.absolute())
    if args.log_level:
        yield "--log-level", "logLevel", "log_level", args.log_level
    if args.log_format:
        yield "--log-format", "logFormat", "log_format", args.log_format


def _socket_path(text: str) -> Path:
    limit = 107  # sun_path of Linux has 108 bytes with the closing NUL
    if not text or len(os.fsencode(text)) > limit:
        raise argparse.ArgumentTypeError(
            f"a socket's path has 1 to {limit} bytes; use a shorter one"
        )
    return Path(text)


def _plugin_name(text: str) -> str:
    """Return a name that any runtime may accept; some accept only letters, digits and "_.+-"."""
    if text and text.isprintable() and "/" not in text:
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not a name; use letters, digits and '_.+-'")


def _two_digits(text: str) -> str:
    if len(text) == 2 and text.isascii() and text.isdigit():
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of two digits, such as 10")
