"""``nri-numamem inspect``: this host's NUMA nodes as the plugin sees them.

For people tables, also of the hugepage pools as they are now; ``--output yaml`` prints the machine
as scenarios describe machines.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.service import HostRoots
from nri_numamem.machine.hugepages import HugepagePool, read_pools, read_reserved_pages
from nri_numamem.machine.sysfs import MachineError
from nri_numamem.machine.topology import read_machine
from nri_numamem.memorymanager import Machine, NumaNode, format_quantity, humanize_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument("--output", choices=("table", "yaml"), default="table")
    parser.add_argument("--sysfs-root", type=Path, default=HostRoots().sysfs)
    parser.add_argument("--proc-root", type=Path, default=HostRoots().proc)


def main(args: argparse.Namespace) -> int:
    """Print the machine; UsageError when it cannot be read."""
    try:
        machine = read_machine(args.sysfs_root, args.proc_root)
        if args.output == "yaml":
            _print_yaml(machine)
        else:
            pools, promised = read_pools(args.sysfs_root), read_reserved_pages(args.sysfs_root)
            _print_table(machine)
            _print_pools(pools, promised)
    except MachineError as error:
        raise UsageError(str(error)) from error
    return 0


def machine_document(machine: Machine) -> dict[str, object]:
    """Return the machine as the `machine` part of a scenario."""
    return {"nodes": [_node_document(node) for node in machine.nodes]}


def _node_document(node: NumaNode) -> dict[str, object]:
    document: dict[str, object] = {
        "id": node.node_id,
        "memory": format_quantity(node.memory_bytes),
        "hugepages": {
            format_quantity(size): pages for size, pages in sorted(node.hugepages.items())
        },
    }
    if node.cpus:
        document["cpus"] = _ranges(node.cpus)
    if node.distances:
        document["distances"] = dict(node.distances)
    return document


def _ranges(ids: Iterable[int]) -> str:
    """Format CPU ids, which go beyond what a NodeSet holds, as the kernel does."""
    parts: list[list[int]] = []
    for number in ids:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


def _print_yaml(machine: Machine) -> None:
    import yaml  # noqa: PLC0415 - only here

    yaml.safe_dump({"machine": machine_document(machine)}, sys.stdout, sort_keys=False)


def _print_table(machine: Machine) -> None:
    from rich.console import Console  # noqa: PLC0415 - only here
    from rich.table import Table  # noqa: PLC0415

    sizes = sorted({size for node in machine.nodes for size in node.hugepages})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("node", justify="right")
    table.add_column("memory", justify="right")
    for size in sizes:
        table.add_column(f"{format_quantity(size)} pages", justify="right")
    table.add_column("CPUs")
    table.add_column("distances")
    for node in machine.nodes:
        distances = (f"{other}:{distance}" for other, distance in node.distances.items())
        table.add_row(
            str(node.node_id),
            humanize_bytes(node.memory_bytes),
            *(str(node.hugepages.get(size, "-")) for size in sizes),
            _ranges(node.cpus) or "none",
            " ".join(distances) or "unknown",
        )
    Console(highlight=False).print(table)


def _print_pools(
    pools: Mapping[int, Mapping[int, HugepagePool]], promised: Mapping[int, int]
) -> None:
    """Print a row per page size and node; of promised pages the kernel knows no nodes."""
    from rich.console import Console  # noqa: PLC0415 - only here
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("hugepages", "node", "pages", "in use", "free", "surplus", "promised"):
        table.add_column(name, justify="right")
    for size in sorted({size for of_node in pools.values() for size in of_node}):
        found = {node: of_node[size] for node, of_node in pools.items() if size in of_node}
        if not any(pool.total_pages for pool in found.values()):
            continue
        for node, pool in found.items():
            table.add_row(format_quantity(size), str(node), *_counts(pool), "")
        whole = HugepagePool(
            sum(pool.total_pages for pool in found.values()),
            sum(pool.free_pages for pool in found.values()),
            sum(pool.surplus_pages for pool in found.values()),
        )
        table.add_row(format_quantity(size), "all", *_counts(whole), str(promised.get(size, 0)))
    if table.row_count:
        console = Console(highlight=False)
        console.print()
        console.print(table)


def _counts(pool: HugepagePool) -> tuple[str, str, str, str]:
    used = max(0, pool.total_pages - pool.free_pages)
    return str(pool.total_pages), str(used), str(pool.free_pages), str(pool.surplus_pages)
