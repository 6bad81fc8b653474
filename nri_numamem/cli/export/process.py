"""The process that keeps the object in the API server up to date, put together from its parts."""

import argparse
import os
import time

from nri_numamem.apiserver.client import Answer, Client
from nri_numamem.cli.export.inputs import HostInputs
from nri_numamem.cli.export.server import access_of
from nri_numamem.engine.plan import Record
from nri_numamem.engine.records.events import EventName
from nri_numamem.exporter.loop import Exporter
from nri_numamem.exporter.mailbox import Mailbox
from nri_numamem.exporter.protection import hide_from_other_processes
from nri_numamem.numa import CpuSet
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.systemd import Notifier


def run(args: argparse.Namespace, node_name: str, reserved_cpus: CpuSet | None) -> int:
    """Write until a signal ends the process; return the exit status. Raises UsageError."""
    access = access_of(args)
    hide_from_other_processes()  # a kernel that refuses leaves what is usual
    logs.configure("stderr", args.log_level, args.log_format)
    log = logs.get_logger()

    def emit(record: Record) -> None:
        getattr(log, record.level)(record.event, **record.fields)

    fields = {"node_name": node_name, "server": str(access().server)}
    emit(Record(EventName.EXPORT_STARTED, fields))
    notifier = Notifier(os.environ)
    mailbox: Mailbox[Answer] = Mailbox()
    with mailbox:
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
    emit(Record(EventName.EXPORT_STOPPED))
    return 0


def _random() -> float:
    # The kernel's: the module random costs 1 MiB of memory.
    return int.from_bytes(os.urandom(4), "big") / (1 << 32)
