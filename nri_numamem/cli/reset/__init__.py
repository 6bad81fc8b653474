"""``nri-numamem reset``: unpins containers, so that they can use all nodes of their pods again.

For an uninstall. A container that the plugin pinned keeps its `cpuset.mems` until it ends; this
command sets it to all nodes of the pod's cgroup, through the runtime, because NRI cannot send an
empty value. Hugepage limits stay, because NRI updates cannot remove them; the output names them.

When the plugin starts, it adopts containers that are pinned already. If the state file of an
earlier process is lost, the plugin may have pinned them itself; the history shows what it sent.
Other adopted containers are reset only with --adopted.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from nri_numamem.cli.host_arguments import (
    add_root_arguments,
    add_state_file_argument,
    state_file_of,
)
from nri_numamem.cli.output import DOCUMENT_VERSION, add_output_argument, print_document
from nri_numamem.cli.reset.pins import (
    Condition,
    Pin,
    find_directories,
    find_pins,
    read_pins,
    sent_nodes,
)
from nri_numamem.cli.reset.sender import Sender
from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.external import DEFAULT_SOCKET
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.instance import AlreadyRunningError, InstanceLock
from nri_numamem.daemon.system import System, host_system
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.snapshot import SnapshotVersionError
from nri_numamem.engine.core.text import escape
from nri_numamem.host.cgroups import set_mems
from nri_numamem.host.sysfs import MachineError
from nri_numamem.observe.files import lock_file_of, reason_of
from nri_numamem.observe.history.lines import read_history
from nri_numamem.observe.history.records import read_records
from nri_numamem.observe.state_file import existing_state_file, read_state

_IDENTITY = Identity("nri-numamem-reset", "10")


EXAMPLES = (
    "nri-numamem reset --dry-run",
    "nri-numamem reset",
)


_Results: TypeAlias = Sequence[tuple[Pin, str]]
"""Containers with outcomes: the condition found, "done", "failed", or "unknown" to the runtime."""

_REMARKS = {
    "pinned": "would get all nodes of its pod",
    "done": "has all nodes of its pod now",
    "failed": "the runtime did not apply the update; its log says why",
    "unknown": "the runtime does not report it as running; it ends with its pod",
    Condition.RESET: "has all nodes of its pod already",
    Condition.CHANGED: "left as it is: not the plugin's nodes",
    Condition.ADOPTED: "left as it is: set by the plugin or by something else; see --adopted",
    Condition.CONFLICT: "left as it is: something else set these nodes; see --adopted",
    Condition.GONE: "ended",
}
FAILED = ("failed", "unknown")
UNPROVEN = Condition.ADOPTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, without a connection"
    )
    add_reset_arguments(parser)
    add_output_argument(parser)
    parser.epilog = (
        "Refused while the plugin runs. If the runtime launches the plugin, first remove it from "
        "/opt/nri/plugins and restart the runtime. Without a state file the history shows what the "
        "plugin pinned. Exit status: 0 if the plugin pins no container any more, 1 if it does or "
        "may do so, 2 if nothing could be done."
    )


def add_reset_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of reset() except --dry-run and --output."""
    parser.add_argument(
        "--adopted",
        action="store_true",
        help="also unpin containers whose nodes may have been set by the plugin or by something "
        "else, or were changed by something else",
    )
    parser.add_argument(
        "--socket",
        type=Path,
        default=DEFAULT_SOCKET,
        help="the runtime's NRI socket (default: %(default)s)",
    )
    add_state_file_argument(parser)
    add_root_arguments(parser, "cgroup")


def main(args: argparse.Namespace) -> int:
    """Reset the containers; return 1 if the plugin's nodes are, or may be, still in effect."""
    outcomes = reset(args)
    return 1 if outcomes.intersection((*FAILED, UNPROVEN)) else 0


def reset(args: argparse.Namespace) -> set[str]:
    """Reset the containers and print a table of them; return the outcomes.

    Raises UsageError if nothing could be done.
    """
    system = host_system()
    lock = InstanceLock(lambda _record: None, system.clock)  # a file system may refuse the lock
    try:
        state_file = state_file_of(args.state_file)
        lock_file = lock_file_of(state_file)
        if lock_file.exists() and not args.dry_run:
            lock.acquire(lock_file, "nri-numamem reset")
        pins, problem = _pins(state_file, args.cgroup_root)
        if args.adopted:
            pins = tuple(replace(pin, origin=Condition.PINNED) for pin in pins)
        results: _Results = [(pin, str(pin.condition)) for pin in pins]
        if not args.dry_run:
            results = _reset(results, args, system)
    except AlreadyRunningError as error:
        raise UsageError(f"the plugin runs: {error.holder}; {_STOP_IT}") from error
    except MachineError as error:
        raise UsageError(str(error)) from error
    finally:
        lock.release()
    if args.output != "table":
        documents = [_document(pin, outcome) for pin, outcome in results]
        print_document({"version": DOCUMENT_VERSION, "containers": documents}, args.output)
    else:
        _show(results, problem, is_dry_run=args.dry_run)
    return {outcome for _pin, outcome in results}


_STOP_IT = (
    "stop it first (systemctl disable --now nri-numamem), or remove it from /opt/nri/plugins and "
    "restart the runtime"
)


def _pins(path: Path, cgroup_root: Path) -> tuple[tuple[Pin, ...], str]:
    """Return the containers, and why the state file cannot be used; "" if it can."""
    try:
        entries, _damaged = read_records(read_history(path).entries)
        state = read_state(existing_state_file(path))
        return read_pins(state, cgroup_root, sent_nodes(entries)), ""
    except FileNotFoundError:
        problem = "no state file"
    except OSError as error:
        raise UsageError(f"{path}: {reason_of(error)}; run as root") from error
    except SnapshotVersionError as error:
        raise UsageError(f"{path}: {error}; use the release that wrote it") from error
    except SnapshotError as error:
        problem = str(error)
    source = "The history shows what the plugin pinned" if entries else "There is no history either"
    return find_pins(cgroup_root, entries), f"{path}: {problem}. {source}."


def _reset(found: _Results, args: argparse.Namespace, system: System) -> _Results:
    """Reset the pinned containers; return the results after it."""
    pinned = {pin.container_id: pin for pin, outcome in found if outcome == Condition.PINNED}
    if not pinned:
        return found
    directories = find_directories(args.cgroup_root, pinned)

    def is_done(pin: Pin) -> bool:
        mems = set_mems(directories[pin.container_id])
        return replace(pin, mems=mems).condition in (Condition.RESET, Condition.GONE)

    with system.open_signals() as signals:
        sender = Sender(
            {key: pin.allowed for key, pin in pinned.items()},
            lambda: all(is_done(pin) for key, pin in pinned.items() if key not in sender.unknown),
            system,
            signals,
        )
        sender.send(args.socket, _IDENTITY)

    def outcome(pin: Pin) -> str:
        if pin.container_id not in pinned:
            return str(pin.condition)
        if pin.container_id in sender.unknown:
            return "unknown"
        return "done" if is_done(pin) else "failed"

    return [(pin, outcome(pin)) for pin, _condition in found]


def _document(pin: Pin, outcome: str) -> dict[str, object]:
    return {
        "pod": pin.pod,
        "container": pin.name,
        "containerId": pin.container_id,
        "outcome": outcome,
        "assigned": str(pin.nodes),
        "podNodes": str(pin.allowed),
        "hugepageLimits": list(pin.hugepages),
    }


def _show(results: _Results, problem: str, *, is_dry_run: bool) -> None:
    from nri_numamem.cli.render.bars import fixed, plain_table  # noqa: PLC0415 - people
    from nri_numamem.cli.render.screen import Screen  # noqa: PLC0415 - only for people

    screen = Screen()
    screen.heading("Containers that would be reset" if is_dry_run else "Containers")
    if problem:
        screen.text(escape(problem))
    if not results:
        screen.text("There is no pinned container.")
        return
    table = plain_table("pod", "container", fixed("nodes"), "result")
    for pin, outcome in results:
        is_reset = outcome in ("done", "pinned")
        nodes = f"{pin.nodes} > {pin.allowed}" if is_reset else str(pin.mems or "")
        table.add_row(escape(pin.pod), escape(pin.name), nodes, _REMARKS[outcome])
    screen.shown(table)
    limited = [pin for pin, _outcome in results if pin.hugepages and pin.mems]
    if limited:
        names = ", ".join(f"{escape(pin.name)} ({', '.join(pin.hugepages)})" for pin in limited)
        screen.text(f"Hugepage limits stay until the container ends: {names}.")
