"""``nri-numamem state``: read and write the kubelet's state file, memory_manager_state.

``state show FILE`` verifies the checksum and prints policy, format, nodes and assignments. A file
with a wrong checksum is shown too, and the exit status is 1. Of the plugin's own state file it
prints the assignments. ``state export FILE`` converts the plugin's state, from the last record
"state_dump" of a log or the output of ``simulate --output json``, into a state file of format V1.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nri_numamem.cli.output import DOCUMENT_VERSION, add_output_argument, print_document
from nri_numamem.config.documents import load_document, name_of, read_file
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.policy import STATIC
from nri_numamem.engine.core.snapshot import restore
from nri_numamem.engine.core.text import escape
from nri_numamem.engine.records.machine import StateDump
from nri_numamem.kubelet.state_file import (
    Checkpoint,
    CheckpointError,
    format_checkpoint_v1,
    parse_checkpoint,
    verify,
)
from nri_numamem.memorymanager import Block, State
from nri_numamem.memorymanager.holder import container_name
from nri_numamem.memorymanager.state import Assignments
from nri_numamem.memorymanager.state_json import StateJson, block_json, entries_json, state_json
from nri_numamem.numa import humanize_bytes
from nri_numamem.observe.log.journal import FIELD_PREFIX
from nri_numamem.observe.log.read_back import IncompleteRecordError, last_record
from nri_numamem.scenario.scenario import ScenarioError, scenario_from_document

if TYPE_CHECKING:
    from nri_numamem.cli.render.screen import Screen

DEFAULT_FILE = Path("/var/lib/kubelet/memory_manager_state")

_DUMP_FIELDS = {
    "machineState": f"{FIELD_PREFIX}MACHINESTATE",
    "entries": f"{FIELD_PREFIX}ENTRIES",
}

EXAMPLES = (
    "nri-numamem state show /var/lib/kubelet/memory_manager_state",
    "nri-numamem state export /var/log/nri-numamem/nri-numamem.log > memory_manager_state",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    description = (
        "Verify a state file of the kubelet and show its nodes and assignments; of the plugin's "
        "own state file, its assignments."
    )
    show = actions.add_parser(
        "show", help="verify a state file and show it", description=description, allow_abbrev=False
    )
    show.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="?",
        default=DEFAULT_FILE,
        help="the state file; - is standard input (default: %(default)s)",
    )
    add_output_argument(show)
    show.epilog = (
        "Exit status: 0 if the checksum is correct or missing, 1 if it is wrong, 2 if FILE cannot "
        "be read."
    )
    description = (
        "Print the plugin's state as a state file of the kubelet in format V1, with its checksum."
    )
    export = actions.add_parser(
        "export",
        help="convert the plugin's state into a state file",
        description=description,
        allow_abbrev=False,
    )
    for action in (show, export):
        action.set_defaults(parser=action)
    export.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a log whose last record state_dump is used, as JSON lines or as the output of "
        "`journalctl -o export`; or the output of `simulate --output json`; - is standard input",
    )


def main(args: argparse.Namespace) -> int:
    """Run the action; return 0, or 1 after printing an error of the file."""
    if args.action == "export":
        _export(args.file)
        return 0
    try:
        _show_file(args)
    except (CheckpointError, SnapshotError) as error:
        print(f"nri-numamem: {name_of(args.file)}: {error}", file=sys.stderr)
        return 1
    return 0


def _export(path: Path) -> None:
    content = read_file(path)
    try:
        dump = last_record(content, StateDump.event, _DUMP_FIELDS)
    except IncompleteRecordError as error:
        raise UsageError(f"{name_of(path)}: {error}") from error
    document = load_document(content, name_of(path)) if dump is None else dump
    parts = ("machineState", "entries")
    if not isinstance(document, dict) or any(part not in document for part in parts):
        problem = "no machineState and entries"
        remedy = (
            "give a log with a record state_dump (JSON lines, or the output of journalctl "
            "-o export), or the output of simulate --output json"
        )
        raise UsageError(f"{name_of(path)}: {problem}; {remedy}")
    state = {part: document[part] for part in parts}
    try:
        accounting = scenario_from_document({"state": state, "pods": [], "steps": []}).accounting
    except ScenarioError as error:
        raise UsageError(f"{name_of(path)}: {error}") from error
    # Without a newline at the end, as the kubelet writes it.
    print(format_checkpoint_v1(accounting, STATIC), end="")


def _show_file(args: argparse.Namespace) -> None:
    content = read_file(args.file)
    if _is_own(content):
        _show_own(args, content)
        return
    checkpoint = parse_checkpoint(content)
    if args.output != "table":
        print_document(checkpoint_document(checkpoint), args.output)
    else:
        _show(args.file, checkpoint)
    verify(checkpoint)


def _is_own(content: bytes) -> bool:
    """Return whether a file has the keys of the plugin's state; it may be damaged."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.keys() >= {"version", "payload"}


def _show_own(args: argparse.Namespace, content: bytes) -> None:
    assignments = restore(content).accounting.assignments
    if args.output != "table":
        document = {"version": DOCUMENT_VERSION, "format": "nri-numamem"}
        print_document({**document, "entries": entries_json(assignments)}, args.output)
        return
    screen = _new_screen()
    screen.heading(f"{name_of(args.file)}: state of the plugin")
    _show_assignments(screen, assignments, {})


def _new_screen() -> "Screen":
    from nri_numamem.cli.render.screen import Screen  # noqa: PLC0415 - only for people

    return Screen()


def checkpoint_document(checkpoint: Checkpoint) -> dict[str, object]:
    """Return the content as one object with the kubelet's keys."""
    return {
        "version": DOCUMENT_VERSION,
        "format": checkpoint.format.value,
        "policyName": checkpoint.policy_name,
        "checksum": checkpoint.checksum,
        "expectedChecksum": checkpoint.expected_checksum,
        "verified": checkpoint.is_verified,
        **_state_json(checkpoint),
        "podEntries": {
            uid: {"memoryBlocks": [block_json(block) for block in blocks]}
            for uid, blocks in checkpoint.pod_entries.items()
        },
    }


def _state_json(checkpoint: Checkpoint) -> StateJson:
    return state_json(State(checkpoint.machine_state, checkpoint.entries))


def _show(path: Path, checkpoint: Checkpoint) -> None:
    screen = _new_screen()
    screen.heading(f"{name_of(path)}: format {checkpoint.format}")
    screen.labelled("policy", escape(checkpoint.policy_name))
    if checkpoint.is_verified:
        screen.labelled("checksum", f"{checkpoint.checksum}, correct")
    elif checkpoint.has_no_checksum:
        text = "none: the kubelet accepts such a file, but nothing shows whether it is damaged"
        screen.labelled("checksum", text, "yellow")
    else:
        text = f"{checkpoint.checksum}, but the content gives {checkpoint.expected_checksum}"
        screen.labelled("checksum", text, "red")
    if checkpoint.machine_state:
        screen.accounting(_state_json(checkpoint), None, {}, lists_containers=False)
        screen.legend()
    _show_assignments(screen, checkpoint.entries, checkpoint.pod_entries)


def _show_assignments(
    screen: "Screen", entries: Assignments, pods: Mapping[str, tuple[Block, ...]]
) -> None:
    from nri_numamem.cli.render.bars import fixed, numeric, plain_table  # noqa: PLC0415 - people

    rows = [
        (uid, container_name(name), blocks)
        for uid, containers in entries.items()
        for name, blocks in containers.items()
    ]
    rows += [(uid, "(whole pod)", blocks) for uid, blocks in pods.items()]
    if not rows:
        screen.heading("No assignments")
        return
    screen.heading("Assignments")
    table = plain_table("pod", "container", fixed("nodes"), fixed("resource"), numeric("size"))
    for uid, name, blocks in rows:
        first = (escape(uid), escape(name))
        for block in blocks:
            size = humanize_bytes(block.size)
            table.add_row(*first, str(block.numa_affinity), escape(block.type), size)
            first = ("", "")
    screen.shown(table)
