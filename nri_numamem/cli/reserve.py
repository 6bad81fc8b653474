"""``nri-numamem reserve``: what the kubelet demands of reservedMemory, and a proposal.

The kubelet starts only if its reservations per NUMA node add up to kubeReserved, systemReserved and
the hard eviction threshold. The command computes that sum from a kubelet's configuration, its flags
and its drop-in directory, compares it with what is configured, and divides it among the nodes.
"""

import argparse
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nri_numamem.cli.host_arguments import add_config_argument, plugin_settings
from nri_numamem.cli.machine_argument import add_machine_argument, machine_of
from nri_numamem.cli.output import DOCUMENT_VERSION, add_output_argument, print_document
from nri_numamem.config.documents import load_document, name_of, read_file
from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings, settings_from_mapping
from nri_numamem.config.values import SettingsError
from nri_numamem.host.roots import HostRoots
from nri_numamem.kubelet.config_file import (
    ArgumentsError,
    KubeletConfigError,
    merge,
    parse_arguments,
    read_kubelet_config,
)
from nri_numamem.memorymanager import (
    HostReservation,
    Reservation,
    Reserved,
    ReservedMemoryError,
    derive,
)
from nri_numamem.numa import Machine, format_quantity
from nri_numamem.numa.quantity import parse_quantity

DEFAULT_KUBELET = "/var/lib/kubelet/config.yaml"
# The error with which a kubelet ends. Source: kubelet memorymanager, validateReservedMemory.
_ERROR = re.compile(
    r'the total amount "[^"]*" of type "([^"]+)" is not equal to the value "([^"]+)"'
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The sum that the kubelet demands, and what is configured."""

    parts: Mapping[str, Mapping[str, int]]
    """Resource -> setting -> bytes."""
    demanded: Mapping[str, int]
    """Resource -> bytes."""
    configured: tuple[Reservation, ...]
    origin: str
    """Where `configured` was written; "" if nothing is configured."""
    proposal: Reserved

    @property
    def differences(self) -> dict[str, int]:
        """Return resource -> bytes configured beyond the demand; negative below it."""
        found = Counter({resource: -size for resource, size in self.demanded.items()})
        for entry in self.configured:
            found.update(entry.limits)
        return {resource: size for resource, size in found.items() if size}


EXAMPLES = (
    'nri-numamem reserve --kubelet "$(pgrep -o -x kubelet)"',
    "nri-numamem reserve --machine machine.yaml --output flag",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--kubelet",
        metavar="FILE|PID",
        help="the kubelet's configuration, or the process id of a kubelet, whose flags and drop-in "
        f"directory count too (default: {DEFAULT_KUBELET} if it exists)",
    )
    parser.add_argument(
        "--error",
        metavar="TEXT",
        help="the error with which the kubelet ended ('the total amount ... is not equal to ...'): "
        "its value is the demand",
    )
    add_config_argument(parser)
    add_machine_argument(parser)
    text = (
        "json and yaml are the whole comparison; of the proposal alone, config is the key "
        "reservedMemory of the kubelet's configuration and of the plugin's, and flag the kubelet's "
        "--reserved-memory"
    )
    add_output_argument(parser, text, ("config", "flag"))
    parser.epilog = (
        "Exit status: 0 if the configuration is what the kubelet demands, or nothing is "
        "configured, or with --output config or flag; 1 if it differs; 2 if a file cannot be used."
    )


def main(args: argparse.Namespace) -> int:
    """Print demand, configuration and proposal; return 1 if the first two differ.

    The proposal alone is no comparison: then the status is 0.
    """
    comparison = _compare(args, machine_of(args.machine))
    if args.output == "flag":
        print(_flag(comparison.proposal))
    elif args.output == "config":
        entries = _entries(comparison.proposal, as_text=True)
        print_document({"reservedMemory": entries}, "yaml")
    elif args.output != "table":
        print_document(comparison_document(comparison), args.output)
    else:
        _show(comparison)
    is_proposal = args.output in ("config", "flag")
    return int(not is_proposal and bool(comparison.configured and comparison.differences))


def _compare(args: argparse.Namespace, machine: Machine) -> Comparison:
    settings = plugin_settings(args.config)[0]
    kubelet = _kubelet_settings(args.kubelet)
    source = settings if kubelet is None else kubelet
    host = HostReservation(source.kube_reserved, source.system_reserved, source.eviction_hard)
    try:
        parts = host.parts(sum(node.memory_bytes for node in machine.nodes))
        demanded = {resource: sum(amounts.values()) for resource, amounts in parts.items()}
        if args.error is not None:
            from_error = _demand_of(args.error)
            demanded |= from_error
            parts = {**parts, **{name: {"--error": size} for name, size in from_error.items()}}
        proposal = derive({name: size for name, size in demanded.items() if size}, machine)
    except ReservedMemoryError as error:
        raise UsageError(str(error)) from error
    configured = settings
    if not settings.reserved_memory and kubelet is not None:
        configured = kubelet
    origin = configured.place_of(("reservedMemory",)) if configured.reserved_memory else ""
    return Comparison(parts, demanded, configured.reserved_memory, origin, proposal)


def _kubelet_settings(source: str | None) -> Settings | None:
    """Return a kubelet's settings; None if none is given and the default file is missing."""
    if source is None and not Path(DEFAULT_KUBELET).exists():
        return None
    if source is not None and source.isascii() and source.isdecimal():
        document, origin = _document_of_process(int(source))
    else:
        path = Path(source or DEFAULT_KUBELET)
        document, origin = load_document(read_file(path), name_of(path)), name_of(path)
    try:
        settings = settings_from_mapping(read_kubelet_config(document).settings)
    except (KubeletConfigError, SettingsError) as error:
        raise UsageError(f"{origin}: {error}") from error
    return replace(settings, origins={"reservedMemory": lambda _path: origin})


def _document_of_process(pid: int) -> tuple[object, str]:
    """Return the configuration of a running kubelet, with its flags and drop-in files."""
    process = HostRoots().proc / str(pid)
    words = read_file(process / "cmdline").decode("utf-8", "surrogateescape").split("\0")[:-1]
    program = Path(words[0]).name if words else "a thread of the kernel"
    if program != "kubelet":
        raise UsageError(f"process {pid} is {program}, not a kubelet; give a configuration file")
    try:
        arguments = parse_arguments(words)
    except ArgumentsError as error:
        raise UsageError(f"kubelet {pid}: {error}") from error
    document: object = {"kind": "KubeletConfiguration"}
    if arguments.config is not None:
        path = process / "cwd" / arguments.config
        document = load_document(read_file(path), arguments.config)
    if arguments.config_dir is not None:
        folder = process / "cwd" / arguments.config_dir
        for path in sorted(folder.glob("*.conf")):
            document = merge(document, load_document(read_file(path), str(path)))
    if isinstance(document, Mapping):
        document = {**document, **arguments.overrides}
    return document, f"kubelet {pid}"


def _demand_of(error: str) -> dict[str, int]:
    """Return resource -> bytes from the error of a kubelet."""
    found = _ERROR.search(error.replace("\\", ""))
    if found is None:
        raise UsageError(
            "--error: this is not the kubelet's error; give its text from 'the total amount' on"
        )
    try:
        return {found[1]: parse_quantity(found[2])}
    except ValueError as problem:
        raise UsageError(f"--error: {problem}") from problem


def comparison_document(comparison: Comparison) -> dict[str, object]:
    """Return the comparison as one object; amounts are bytes. docs/output.md documents it."""
    return {
        "version": DOCUMENT_VERSION,
        "demanded": {
            resource: {"bytes": size, "parts": dict(comparison.parts.get(resource, {}))}
            for resource, size in comparison.demanded.items()
        },
        "configured": [
            {"numaNode": entry.numa_node, "limits": dict(entry.limits)}
            for entry in comparison.configured
        ],
        "origin": comparison.origin or None,
        "differences": comparison.differences,
        "proposal": _entries(comparison.proposal, as_text=False),
    }


def _entries(reserved: Reserved, *, as_text: bool) -> list[dict[str, object]]:
    return [
        {
            "numaNode": node_id,
            "limits": {
                name: format_quantity(size) if as_text else size for name, size in limits.items()
            },
        }
        for node_id, limits in sorted(reserved.items())
    ]


def _flag(reserved: Reserved) -> str:
    entries = [f"{node_id}:{_amounts(limits, '=', ',')}" for node_id, limits in reserved.items()]
    return f"--reserved-memory '{';'.join(entries)}'"


def _amounts(limits: Mapping[str, int], sign: str, separator: str) -> str:
    return separator.join(f"{name}{sign}{format_quantity(size)}" for name, size in limits.items())


def _show(comparison: Comparison) -> None:
    from nri_numamem.cli.render.screen import Screen  # noqa: PLC0415 - only for people

    screen = Screen()
    screen.heading("What the kubelet demands")
    for resource, total in comparison.demanded.items():
        terms = comparison.parts.get(resource, {}).items()
        parts = " + ".join(f"{name} {format_quantity(size)}" for name, size in terms)
        equals = f" = {parts}" if len(terms) > 1 else f" ({parts})" if parts else ""
        screen.text(f"{resource} {format_quantity(total)}{equals}")
    screen.heading("What is configured")
    if not comparison.configured:
        screen.text("nothing; the plugin divides the demand among the nodes, as proposed here")
    else:
        for entry in comparison.configured:
            screen.text(f"node {entry.numa_node}: {_amounts(entry.limits, ' ', ', ')}")
        screen.text(f"({comparison.origin})")
        for resource, size in comparison.differences.items():
            side = "too much" if size > 0 else "too little"
            screen.text(f"{resource}: {format_quantity(abs(size))} {side}")
        if not comparison.differences:
            screen.text("This is what the kubelet demands.")
    screen.heading("Proposal, in proportion to the nodes' memory")
    for node_id, limits in comparison.proposal.items():
        screen.text(f"node {node_id}: {_amounts(limits, ' ', ', ')}")
    screen.text("To copy it: --output config for either file, --output flag for the kubelet.")
