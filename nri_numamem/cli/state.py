"""``nri-numamem state``: read and write the kubelet's state file, memory_manager_state.

``state show FILE`` verifies the checksum and prints policy, format, nodes and assignments. A file
with a wrong checksum is shown all the same, and makes the exit status 1. ``state export FILE``
turns the plugin's books (its log record "books", or what ``simulate --output json`` prints) into a
state file of format V1.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nri_numamem.cli.documents import load_document, name_of, read_file
from nri_numamem.cli.errors import UsageError
from nri_numamem.engine.books import entries, machine_state
from nri_numamem.engine.scenario import ScenarioError, scenario_from_document
from nri_numamem.memorymanager import Block, State, humanize_bytes
from nri_numamem.memorymanager.checkpoint import (
    Checkpoint,
    CheckpointError,
    format_checkpoint_v1,
    parse_checkpoint,
    verify,
)

if TYPE_CHECKING:
    from nri_numamem.cli.screen import Screen
    from nri_numamem.cli.tables import Books

DEFAULT_FILE = Path("/var/lib/kubelet/memory_manager_state")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    description = "Verify a state file of the kubelet and show what it holds."
    show = actions.add_parser(
        "show", help="verify a state file and show it", description=description, allow_abbrev=False
    )
    show.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="?",
        default=DEFAULT_FILE,
        help="the state file, - is standard input (%(default)s)",
    )
    show.add_argument("--output", choices=("table", "json"), default="table")
    description = (
        "Print the plugin's books as a kubelet's state file of format V1, with its checksum. "
        'FILE holds a log record "books" or the output of `simulate --output json`.'
    )
    export = actions.add_parser(
        "export",
        help="turn the plugin's books into a state file",
        description=description,
        allow_abbrev=False,
    )
    export.add_argument("file", metavar="FILE", type=Path, help="- is standard input")


def main(args: argparse.Namespace) -> int:
    """Run the action; return 0, or 1 after saying what is wrong with the file."""
    return _export(args.file) if args.action == "export" else _show_file(args)


def _export(path: Path) -> int:
    document = load_document(read_file(path), name_of(path))
    parts = ("machineState", "entries")
    if not isinstance(document, dict) or any(part not in document for part in parts):
        problem = "no books: machineState and entries are expected"
        raise UsageError(f"{name_of(path)}: {problem}; give a log record books, or a simulation")
    state = {part: document[part] for part in parts}
    try:
        books = scenario_from_document({"state": state, "pods": [], "steps": []}).books
    except ScenarioError as error:
        raise UsageError(f"{name_of(path)}: {error}") from error
    # Without a newline at the end, as the kubelet writes it.
    print(format_checkpoint_v1(books, "Static"), end="")
    return 0


def _show_file(args: argparse.Namespace) -> int:
    try:
        checkpoint = load_checkpoint(args.file)
    except CheckpointError as error:
        print(f"nri-numamem: {name_of(args.file)}: {error}", file=sys.stderr)
        return 1
    if args.output == "json":
        print(json.dumps(checkpoint_document(checkpoint), indent=2))
    else:
        _show(args.file, checkpoint)
    try:
        verify(checkpoint)
    except CheckpointError as error:
        print(f"nri-numamem: {name_of(args.file)}: {error}", file=sys.stderr)
        return 1
    return 0


def load_checkpoint(path: Path) -> Checkpoint:
    """Return a state file's content, its checksum not yet judged.

    Raises UsageError when the file cannot be read, CheckpointError when it is no state file.
    """
    return parse_checkpoint(read_file(path))


def load_verified(path: Path) -> Checkpoint:
    """Return a state file's content; UsageError when it cannot be trusted."""
    try:
        checkpoint = load_checkpoint(path)
        verify(checkpoint)
    except CheckpointError as error:
        raise UsageError(f"{name_of(path)}: {error}") from error
    return checkpoint


def checkpoint_document(checkpoint: Checkpoint) -> dict[str, object]:
    """Return the content as one JSON object, in the kubelet's words."""
    return {
        "format": checkpoint.format.value,
        "policyName": checkpoint.policy_name,
        "checksum": checkpoint.checksum,
        "expectedChecksum": checkpoint.expected_checksum,
        "verified": checkpoint.is_verified,
        **_books(checkpoint),
        "podEntries": {
            uid: {"memoryBlocks": [_block(block) for block in blocks]}
            for uid, blocks in checkpoint.pod_entries.items()
        },
    }


def books_of(books: State) -> "Books":
    """Return books in the kubelet's words, as tables take them."""
    return cast("Books", {"machineState": machine_state(books), "entries": entries(books)})


def _books(checkpoint: Checkpoint) -> "Books":
    return books_of(State(checkpoint.machine_state, checkpoint.entries))


def _block(block: Block) -> dict[str, object]:
    return {"numaAffinity": list(block.numa_affinity), "type": block.type, "size": block.size}


def _show(path: Path, checkpoint: Checkpoint) -> None:
    from nri_numamem.cli.screen import Screen, new_console  # noqa: PLC0415 - only for people

    screen = Screen(new_console())
    screen.heading(f"{name_of(path)}: format {checkpoint.format}")
    screen.labelled("policy", checkpoint.policy_name)
    if checkpoint.is_verified:
        how = "right" if checkpoint.checksum else "not computed by the kubelet that wrote it"
        screen.labelled("sum", f"{checkpoint.checksum}, {how}")
    else:
        told = f"{checkpoint.checksum}, but the content gives {checkpoint.expected_checksum}"
        screen.labelled("sum", told, "red")
    if checkpoint.machine_state:
        screen.books(_books(checkpoint), None, {})
        screen.legend()
    _show_assignments(screen, checkpoint)


def _show_assignments(screen: "Screen", checkpoint: Checkpoint) -> None:
    from rich.table import Table  # noqa: PLC0415 - only for people

    holders = [
        (uid, name, blocks)
        for uid, containers in checkpoint.entries.items()
        for name, blocks in containers.items()
    ]
    holders += [(uid, "(whole pod)", blocks) for uid, blocks in checkpoint.pod_entries.items()]
    if not holders:
        screen.heading("No assignments")
        return
    screen.heading("Assignments")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("pod", overflow="fold")
    table.add_column("container", overflow="fold")
    table.add_column("nodes", no_wrap=True)
    table.add_column("resource", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    for uid, name, blocks in holders:
        first = (uid, name)
        for block in blocks:
            size = humanize_bytes(block.size)
            table.add_row(*first, str(block.numa_affinity), block.type, size)
            first = ("", "")
    screen.shown(table)
