"""The process that keeps the object in the API server up to date: sets up its parts.

With ``--podresources`` it also serves the PodResources API, with ``--no-write`` only that.
"""

import argparse
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from nri_numamem.apiserver.access import hide_from_other_processes
from nri_numamem.apiserver.client import Answer, Client
from nri_numamem.cli.export.collect import HostInputs
from nri_numamem.cli.export.server import access_of
from nri_numamem.engine.records.export import ExportStarted, ExportStopped
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.exporter.loop import Exporter
from nri_numamem.exporter.mailbox import Mailbox, Stop
from nri_numamem.numa import CpuSet
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.systemd import Notifier

_LOOK_S = 1.0


def run(args: argparse.Namespace, node_name: str, reserved_cpus: CpuSet | None) -> int:
    """Write until a signal ends the process; return the exit status. Raises UsageError."""
    access = None if args.no_write else access_of(args)
    hide_from_other_processes()  # some kernels refuse
    logs.configure("stderr", args.log_level, args.log_format)
    log = logs.get_logger()

    def emit(record: Record) -> None:
        getattr(log, record.level)(record.event, **fields_of(record))

    serving = _serving(args, emit)
    server = "" if access is None else str(access().server)
    emit(ExportStarted(node_name=node_name, server=server))
    notifier = Notifier(os.environ)
    mailbox: Mailbox[Answer] = Mailbox()
    with mailbox, serving:
        if access is None:
            _wait(mailbox, notifier)
        else:
            Exporter(
                node_name,
                HostInputs(args, node_name, reserved_cpus),
                Client(access),
                mailbox,
                notifier,
                emit,
                time.monotonic,
                _random,
            ).run()
        notifier.stopping()
    emit(ExportStopped())
    return 0


def _serving(
    args: argparse.Namespace, emit: Callable[[Record], None]
) -> AbstractContextManager[None]:
    """Return a context that serves the PodResources API if ``--podresources`` is given.

    Raises UsageError for an invalid address.
    """
    if args.podresources is None:
        return nullcontext()
    from nri_numamem.cli.export.podresources import path_of, serving  # noqa: PLC0415 - gRPC

    return serving(path_of(args.podresources), args, emit)


def _wait(mailbox: Mailbox[Answer], notifier: Notifier) -> None:
    """Wait for a signal while other threads serve."""
    notifier.ready("serving the PodResources API")
    while not isinstance(mailbox.wait(_LOOK_S), Stop):
        notifier.alive(time.monotonic())


def _random() -> float:
    # The kernel's: the module random costs 1 MiB of memory.
    return int.from_bytes(os.urandom(4), "big") / (1 << 32)
