"""``nri-numamem config``: check, show and write configuration files.

``config default`` prints a file with all keys and their meaning. ``config show FILE`` prints the
effective settings and where each was written; with ``--running`` those of the running plugin.
``config check FILE`` does what the plugin does at its start, and prints the reserved memory of each
NUMA node.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nri_numamem.cli.host_arguments import (
    LAUNCHED_CONFIGS,
    add_state_file_argument,
    config_files,
    state_file_of,
)
from nri_numamem.cli.machine_argument import add_machine_argument, machine_of
from nri_numamem.cli.output import DOCUMENT_VERSION, add_output_argument, print_document
from nri_numamem.cli.render.texts import partition_text
from nri_numamem.config import load
from nri_numamem.config.errors import UsageError
from nri_numamem.config.example import example_text
from nri_numamem.config.policy import context_of
from nri_numamem.config.settings import effective_settings
from nri_numamem.engine.features.partitions.layouts import partitions_on
from nri_numamem.numa import format_quantity
from nri_numamem.observe.plugin_file import PluginFileError, plugin_file_of, read_plugin_file

if TYPE_CHECKING:
    from nri_numamem.engine.core.context import Context


EXAMPLES = (
    "nri-numamem config default > /etc/nri-numamem/config.yaml",
    "nri-numamem config show --running",
    "nri-numamem config check /etc/nri/conf.d/10-nri-numamem.conf",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    description = "Print a configuration file with all keys, their meaning and their defaults."
    default = actions.add_parser(
        "default", help="print a file to edit", description=description, allow_abbrev=False
    )
    description = "Print the effective settings of a file, and where each one was written."
    show = actions.add_parser(
        "show", help="show the settings of a file", description=description, allow_abbrev=False
    )
    _add_files(show)
    show.add_argument(
        "--running",
        action="store_true",
        help="show the settings of the running plugin instead of FILE; a launched plugin gets its "
        "configuration from the runtime",
    )
    add_state_file_argument(show)
    add_output_argument(show)
    description = "Check a configuration file as the plugin does at its start."
    check = actions.add_parser(
        "check", help="check a file", description=description, allow_abbrev=False
    )
    _add_files(check)
    add_machine_argument(check)
    for action in (default, show, check):
        action.set_defaults(parser=action)
    check.epilog = "Exit status: 0 if the plugin can start with FILE, 2 if not."


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="?",
        help=f"the configuration (default: {load.DEFAULT_CONFIG}, or the file of a launched plugin "
        f"in {LAUNCHED_CONFIGS}, if it exists)",
    )
    parser.add_argument(
        "--kubelet-config",
        metavar="FILE",
        type=Path,
        help="the kubelet's configuration file, instead of kubeletConfigFile in FILE",
    )


def main(args: argparse.Namespace) -> int:
    """Run the action; raise UsageError if a file cannot be used."""
    if args.action == "default":
        print(example_text(), end="")
        return 0
    if args.action == "show":
        heading, document = _running(args) if args.running else _of_file(args)
        if args.output != "table":
            print_document({"version": DOCUMENT_VERSION, "settings": document}, args.output)
        else:
            _show(heading, document)
        return 0
    path = _chosen(args.file)
    settings = load.load_file(path, args.kubelet_config)
    _print_check(path, context_of(settings, machine_of(args.machine)))
    return 0


_Document: TypeAlias = dict[str, dict[str, object]]
"""Key of a setting -> its value, None if unset, and its origin."""


def _of_file(args: argparse.Namespace) -> tuple[str, _Document]:
    path = _chosen(args.file)
    found = effective_settings(load.load_file(path, args.kubelet_config))
    document = {key: {"value": value, "origin": origin} for key, (value, origin) in found.items()}
    return f"Settings of {path}", document


def _chosen(given: Path | None) -> Path:
    """Return the file, or without one the plugin's own, whether it exists or not."""
    return given or next(iter(config_files()), load.DEFAULT_CONFIG)


def _running(args: argparse.Namespace) -> tuple[str, _Document]:
    """Return a heading and the settings that the running plugin wrote; UsageError without any."""
    path = plugin_file_of(state_file_of(args.state_file))
    try:
        facts = read_plugin_file(path)
    except PluginFileError as error:
        raise UsageError(f"{error}; run this as root") from error
    if facts is None:
        raise UsageError(f"{path}: does not exist; start the plugin, or name its --state-file")
    settings = {
        key: {"value": setting.value, "origin": setting.origin}
        for key, setting in facts.settings.items()
    }
    ended = "" if facts.ended_s is None else ", which has ended"
    return f"Settings of the plugin with pid {facts.pid}{ended}", settings


def _print_check(path: Path, context: "Context") -> None:
    source = "reservedMemory" if context.policy.reserved_memory else "the host's reservation"
    print(f"{path}: valid")
    for node_id, limits in sorted(context.reserved.items()):
        amounts = [f"{name} {format_quantity(size)}" for name, size in limits.items()]
        print(f"  node {node_id}: reserved {', '.join(amounts) or 'nothing'} ({source})")
    for found in partitions_on(context):
        print(f"  {partition_text(found)}")
    for note in context.policy.notes:
        print(f"  note: {note}")


def _show(heading: str, document: _Document) -> None:
    from rich.text import Text  # noqa: PLC0415 - only for people

    from nri_numamem.cli.render.bars import fixed, plain_table  # noqa: PLC0415 - people
    from nri_numamem.cli.render.screen import Screen  # noqa: PLC0415 - only for people

    screen = Screen()
    screen.heading(heading)
    table = plain_table(fixed("key"), "value", "origin")
    for key, entry in document.items():
        # As plain strings, rich reads lists as its markup.
        table.add_row(key, Text(_flow(entry["value"])), Text(str(entry["origin"])))
    screen.shown(table)


def _flow(value: object) -> str:
    """Return a value in YAML's flow style."""
    if value is None:
        return "unset"
    if value == "":
        return '""'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return str(value)
