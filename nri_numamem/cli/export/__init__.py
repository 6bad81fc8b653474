"""``nri-numamem export``: this host for a NUMA-aware scheduler plugin, as a NodeResourceTopology.

It also writes Events of pods.

``collect`` reads the plugin's state directory and the host, ``nri_numamem.export`` makes the
object, ``nri_numamem.exporter`` keeps it in the API server up to date. ``server`` deletes it there,
``podresources`` serves the kubelet's PodResources API with the plugin's memory. ``claims`` is the
driver of resource claims, a task of ``nri-numamem agent``.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeAlias

from nri_numamem.apiserver.access import Access, hide_from_other_processes
from nri_numamem.apiserver.client import Client
from nri_numamem.cli.export.collect import HostInputs, collect
from nri_numamem.cli.export.server import (
    access_of,
    add_server_arguments,
    delete,
)
from nri_numamem.cli.host_arguments import add_node_name_argument, node_name_of
from nri_numamem.cli.live import collect as live
from nri_numamem.cli.output import add_log_arguments, print_document
from nri_numamem.config.errors import UsageError
from nri_numamem.config.table import LOG_FORMATS, LOG_LEVELS
from nri_numamem.engine.records.export import ExportStarted, ExportStopped
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.export.noderesourcetopology import noderesourcetopology
from nri_numamem.export.podevents import PodEvent
from nri_numamem.export.resourceslice import with_classes
from nri_numamem.exporter.loop import Exporter
from nri_numamem.exporter.mailbox import Mailbox, Registered, Stop
from nri_numamem.host.pod_logs import POD_LOGS
from nri_numamem.numa import CpuSet
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.systemd import Notifier

EXAMPLES = (
    "nri-numamem export --dry-run",
    "nri-numamem export --dry-run --node-name worker-3 -o json | jq .zones",
    "nri-numamem export --dry-run --resource-slice",
    "nri-numamem export --kubeconfig /etc/nri-numamem/kubeconfig",
    "nri-numamem export --delete",
    "nri-numamem export --no-write --podresources unix:///run/nri-numamem-export/podresources.sock",
)

_KUBELET_ROOT = Path("/var/lib/kubelet")
_LOOK_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    _add_actions(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json"),
        default="yaml",
        help="format of --dry-run (default: %(default)s)",
    )
    add_node_name_argument(parser)
    add_server_arguments(parser)
    live.add_arguments(parser)
    _add_kubelet_arguments(parser)
    add_log_arguments(parser, "log on standard error")
    parser.set_defaults(
        log_level=LOG_LEVELS[0],
        log_format=LOG_FORMATS[0],
        claims=False,
        node_allocatable=False,
    )
    parser.epilog = (
        "Without --dry-run or --delete it keeps the object in the API server up to date until "
        "SIGTERM. Needs root, because only root can read the state directory. With --dry-run each "
        "missing input is one line on standard error. Exit status: 0 on success, 1 if there is no "
        "object or it could not be deleted, 2 if the command line or the configuration is wrong, "
        "or a permission is missing."
    )


def _add_actions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--dry-run",
        action="store_true",
        help="print the object on standard output, and write nothing to the API server",
    )
    actions.add_argument(
        "--delete", action="store_true", help="delete this host's object from the API server"
    )
    actions.add_argument(
        "--delete-all",
        action="store_true",
        help="delete the objects of all hosts that nri-numamem has written",
    )
    parser.add_argument(
        "--resource-slice",
        action="store_true",
        help="with --dry-run, print the ResourceSlice for resource claims and its DeviceClasses "
        "instead; `nri-numamem agent --claims` writes the slice",
    )
    parser.add_argument(
        "--no-write",
        action="store_true",
        help="write nothing to the API server, and only serve --podresources",
    )
    parser.add_argument(
        "--no-pod-events",
        dest="pod_events",
        action="store_false",
        help="write no Event of a pod whose container is refused, or runs unpinned",
    )
    parser.add_argument(
        "--podresources",
        metavar="ADDRESS",
        help="serve the kubelet's PodResources API with the plugin's memory, on a socket such as "
        "unix:///run/nri-numamem-export/podresources.sock",
    )


def _add_kubelet_arguments(parser: argparse.ArgumentParser) -> None:
    kubelet = parser.add_argument_group("the kubelet")
    kubelet.add_argument(
        "--kubelet-root",
        type=Path,
        default=_KUBELET_ROOT,
        metavar="DIRECTORY",
        help="where its cpu_manager_state is, and its config.yaml unless kubeletConfigFile names "
        "another file (default: %(default)s)",
    )
    kubelet.add_argument(
        "--podresources-socket",
        type=Path,
        metavar="FILE",
        help="its PodResources socket, which lists devices and CPUs (default: "
        "pod-resources/kubelet.sock in --kubelet-root, if it exists)",
    )
    kubelet.add_argument(
        "--reserved-cpus",
        metavar="LIST",
        help="its reserved CPUs (default: those of its static CPU manager, else "
        "reservedSystemCPUs of its configuration)",
    )
    kubelet.add_argument(
        "--pod-logs",
        type=Path,
        default=POD_LOGS,
        metavar="DIRECTORY",
        help="its podLogsDir, which has the names of all pods (default: %(default)s)",
    )


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a task of the agent uses."""

    node_name: str
    access: Callable[[], Access]
    emit: Callable[[Record], None]
    registered: Callable[[Registered], None]
    """Receives whether the kubelet has registered the driver of resource claims."""
    post: Callable[[PodEvent], None]
    """Receives Events of pods to write."""


Task: TypeAlias = Callable[[TaskContext], AbstractContextManager[None]]
"""Returns a context in which the task runs, on threads of its own."""


def main(args: argparse.Namespace, tasks: Sequence[Task] = ()) -> int:
    """Print, delete or write the object; return the exit status. The tasks run while it writes."""
    if args.delete_all:
        return _delete(args, None)
    if args.resource_slice and not args.dry_run:
        raise UsageError(
            "--resource-slice needs --dry-run; to write it: nri-numamem agent --claims"
        )
    name = node_name_of(args.node_name)
    if args.delete:
        return _delete(args, name)
    reserved_cpus = _cpus(args.reserved_cpus)
    if args.dry_run:
        return _print(args, name, reserved_cpus)
    if args.no_write and args.podresources is None:
        raise UsageError("--no-write leaves nothing to do; add --podresources")
    return _write(args, name, reserved_cpus, tasks)


def _print(args: argparse.Namespace, name: str, reserved_cpus: CpuSet | None) -> int:
    """Print the object, and a line for each missing input; return 1 if there is no object."""
    collected = collect(args, name, reserved_cpus)
    for problem in collected.problems:
        print(f"nri-numamem: {problem.text}", file=sys.stderr)
    if collected.host is None:
        return 1
    if args.resource_slice:
        print_document(with_classes(collected.host), args.output)
    else:
        print_document(noderesourcetopology(collected.host), args.output)
    return 0


def _delete(args: argparse.Namespace, name: str | None) -> int:
    """Delete the object of a host, or all of them for None; return 1 if that failed."""
    deletion = delete(args, name)
    what = "all objects of nri-numamem" if name is None else f"noderesourcetopology {name}"
    if deletion.problem:
        print(f"nri-numamem: cannot delete {what}: {deletion.problem}", file=sys.stderr)
        return 1
    print(f"deleted {what}" if deletion.is_done else f"{what}: there is none")
    return 0


def _cpus(text: str | None) -> CpuSet | None:
    try:
        return None if text is None else CpuSet.parse(text)
    except ValueError as error:
        raise UsageError(f"--reserved-cpus: {error}; give a list such as 0-1,64-65") from error


def _write(
    args: argparse.Namespace,
    node_name: str,
    reserved_cpus: CpuSet | None,
    tasks: Sequence[Task],
) -> int:
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
    mailbox = Mailbox()
    events: SimpleQueue[PodEvent] = SimpleQueue()
    with mailbox, serving, ExitStack() as stack:
        if access is None:
            _wait(mailbox, notifier)
        else:
            context = TaskContext(node_name, access, emit, mailbox.post, events.put)
            for task in tasks:
                stack.enter_context(task(context))
            Exporter(
                node_name,
                HostInputs(args, node_name, reserved_cpus, events),
                Client(access),
                mailbox,
                notifier,
                emit,
                time.monotonic,
                time.time,
                _random,
                has_claims=args.claims,
                counts_for_node=args.node_allocatable,
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


def _wait(mailbox: Mailbox, notifier: Notifier) -> None:
    """Wait for a signal while other threads serve."""
    notifier.ready("serving the PodResources API")
    while not isinstance(mailbox.wait(_LOOK_S), Stop):
        notifier.alive(time.monotonic())


def _random() -> float:
    # The kernel's: the module random costs 1 MiB of memory.
    return int.from_bytes(os.urandom(4), "big") / (1 << 32)
