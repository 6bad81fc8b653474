"""``nri-numamem reset``: gives containers back the nodes that the plugin took from them.

For an uninstall. A container that the plugin pinned keeps its `cpuset.mems` for as long as it
lives; this command sets it to all nodes of the pod's cgroup, through the runtime. An empty value
cannot be sent. Hugepage limits stay, because NRI updates cannot remove them; they are named.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nri_numamem.cli.host_arguments import (
    add_root_arguments,
    add_state_file_argument,
    state_file_of,
)
from nri_numamem.cli.output import add_output_argument, print_document
from nri_numamem.cli.reset.pins import Condition, Pin, find_directories, read_pins
from nri_numamem.cli.reset.sender import Sender
from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.external import DEFAULT_SOCKET
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.instance import AlreadyRunningError, InstanceLock
from nri_numamem.daemon.system import System, host_system
from nri_numamem.engine.plan import Record
from nri_numamem.engine.snapshot import SnapshotError
from nri_numamem.engine.text import escape
from nri_numamem.host.cgroups import set_mems
from nri_numamem.host.sysfs import MachineError
from nri_numamem.observe.state_file import read_state

_IDENTITY = Identity("nri-numamem-reset", "10")

DOCUMENT_VERSION = 1

EXAMPLES = (
    "nri-numamem reset --dry-run",
    "nri-numamem reset",
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one container."""

    pin: Pin
    outcome: str
    """The condition that was found, "done", "failed", or "unknown" to the runtime."""


_REMARKS = {
    "pinned": "would get all nodes of its pod",
    "done": "has all nodes of its pod now",
    "failed": "the runtime did not apply the update; its log says why",
    "unknown": "the runtime does not report it as running; it ends with its pod",
    Condition.RESET: "has all nodes of its pod already",
    Condition.CHANGED: "left as it is: not the plugin's nodes",
    Condition.ADOPTED: "left as it is: it had these nodes before the plugin; see --adopted",
    Condition.GONE: "ended",
}
_FAILED = ("failed", "unknown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, without a connection"
    )
    parser.add_argument(
        "--adopted",
        action="store_true",
        help="also reset containers that had their nodes before the plugin first saw them",
    )
    parser.add_argument(
        "--socket",
        type=Path,
        default=DEFAULT_SOCKET,
        help="the runtime's NRI socket (default: %(default)s)",
    )
    add_state_file_argument(parser)
    add_output_argument(parser)
    add_root_arguments(parser, "cgroup")
    parser.epilog = (
        "Refused while the plugin runs. A plugin that the runtime launches is removed from "
        "/opt/nri/plugins first, and the runtime restarted. Exit status: 0 if no container is "
        "pinned any more, 1 if some still are, 2 if nothing could be done."
    )


def main(args: argparse.Namespace) -> int:
    """Reset the containers; return 1 if one of them is still pinned."""
    system = host_system()
    lock = InstanceLock(_ignored, system.clock)
    try:
        state_file = state_file_of(args.state_file)
        lock_file = Path(f"{state_file}.lock")
        if lock_file.exists() and not args.dry_run:
            lock.acquire(lock_file, "nri-numamem reset")
        pins = _pins(state_file, args.cgroup_root)
        if args.adopted:
            pins = tuple(replace(pin, is_adopted=False) for pin in pins)
        results = _dry_run(pins) if args.dry_run else _reset(pins, args, system)
    except AlreadyRunningError as error:
        raise UsageError(f"the plugin runs: {error.holder}; {_STOP_IT}") from error
    except MachineError as error:
        raise UsageError(str(error)) from error
    finally:
        lock.release()
    if args.output != "table":
        documents = [_document(result) for result in results]
        print_document({"version": DOCUMENT_VERSION, "containers": documents}, args.output)
    else:
        _show(results, is_dry_run=args.dry_run)
    return 1 if any(result.outcome in _FAILED for result in results) else 0


_STOP_IT = (
    "stop it first (systemctl disable --now nri-numamem), or remove it from /opt/nri/plugins and "
    "restart the runtime"
)


def _ignored(_record: Record) -> None:
    """Reset without a lock where the file system refuses one."""


def _pins(path: Path, cgroup_root: Path) -> tuple[Pin, ...]:
    try:
        state = read_state(path)
    except FileNotFoundError as error:
        remedy = "without it nothing says what the plugin pinned; name it with --state-file"
        raise UsageError(f"{path}: no such file; {remedy}") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; run as root") from error
    except SnapshotError as error:
        raise UsageError(f"{path}: {error}") from error
    return read_pins(state, cgroup_root)


def _dry_run(pins: Sequence[Pin]) -> list[Result]:
    return [Result(pin, str(pin.condition)) for pin in pins]


def _reset(pins: Sequence[Pin], args: argparse.Namespace, system: System) -> list[Result]:
    pinned = {pin.container_id: pin for pin in pins if pin.condition is Condition.PINNED}
    if not pinned:
        return _dry_run(pins)
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

    return [Result(pin, outcome(pin)) for pin in pins]


def _document(result: Result) -> dict[str, object]:
    pin = result.pin
    return {
        "pod": pin.pod,
        "container": pin.name,
        "containerId": pin.container_id,
        "outcome": result.outcome,
        "assigned": str(pin.nodes),
        "podNodes": str(pin.allowed),
        "hugepageLimits": list(pin.hugepages),
    }


def _show(results: Sequence[Result], *, is_dry_run: bool) -> None:
    from nri_numamem.cli.render.plain_table import plain_table  # noqa: PLC0415 - people
    from nri_numamem.cli.render.screen import (  # noqa: PLC0415 - only for people
        Screen,
        new_console,
    )

    screen = Screen(new_console())
    screen.heading("Containers that would be reset" if is_dry_run else "Containers")
    if not results:
        screen.text("The state file names no running container.")
        return
    table = plain_table()
    table.add_column("pod", overflow="fold")
    table.add_column("container", overflow="fold")
    table.add_column("nodes", no_wrap=True)
    table.add_column("result", overflow="fold")
    for result in results:
        pin = result.pin
        nodes = f"{pin.nodes} > {pin.allowed}" if result.outcome in ("done", "pinned") else ""
        remark = _REMARKS[result.outcome]
        table.add_row(escape(pin.pod), escape(pin.name), nodes or str(pin.mems or ""), remark)
    screen.shown(table)
    limited = [result.pin for result in results if result.pin.hugepages and result.pin.mems]
    if limited:
        names = ", ".join(f"{escape(pin.name)} ({', '.join(pin.hugepages)})" for pin in limited)
        screen.text(f"Hugepage limits stay until the container ends: {names}.")
