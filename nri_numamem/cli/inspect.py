"""``nri-numamem inspect``: this host's NUMA nodes as the plugin sees them.

The default output is tables: NUMA nodes with their classes, the current use of the hugepage pools,
and on this host (without ``--sysfs-root``) network devices with their NUMA nodes.
``--output yaml`` prints the machine in the format of scenarios.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from nri_numamem.cli.host_arguments import add_config_argument, add_root_arguments, plugin_settings
from nri_numamem.cli.output import add_output_argument, print_document
from nri_numamem.config.errors import UsageError
from nri_numamem.host.hugepages import HugepagePool, read_pools, read_reserved_pages
from nri_numamem.host.network import NetworkDevice, read_network_devices
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_machine
from nri_numamem.numa import (
    Classification,
    Machine,
    MemoryNodesError,
    NodeSet,
    NumaNode,
    classify,
    format_quantity,
    humanize_bytes,
)

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLES = (
    "nri-numamem inspect",
    "nri-numamem inspect --output yaml > machine.yaml",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_output_argument(parser, "json and yaml are the `machine` of a scenario")
    add_config_argument(parser)
    add_root_arguments(parser, "sysfs", "proc")


def main(args: argparse.Namespace) -> int:
    """Print the machine; raise UsageError if it or the settings cannot be read."""
    settings = plugin_settings(args.config)[0].memory_nodes
    try:
        machine = read_machine(args.sysfs_root, args.proc_root)
        if args.output != "table":
            nodes = [_node_document(node) for node in machine.nodes]
            print_document({"machine": {"nodes": nodes}}, args.output)
        else:
            pools, reserved = read_pools(args.sysfs_root), read_reserved_pages(args.sysfs_root)
            found = classify(machine, settings)
            _print_tables(machine, found, pools, reserved, _network_devices(args.sysfs_root))
    except (MachineError, MemoryNodesError) as error:
        raise UsageError(str(error)) from error
    return 0


def _network_devices(sysfs_root: Path) -> list[NetworkDevice]:
    """Return this host's network devices; none for the files of another machine."""
    if sysfs_root != HostRoots().sysfs:
        return []
    try:
        return read_network_devices(sysfs_root)
    except OSError as error:
        raise UsageError(f"cannot list network devices by rtnetlink: {error}") from error


def _node_document(node: NumaNode) -> dict[str, object]:
    """Return a node as in the `machine` part of a scenario."""
    document: dict[str, object] = {
        "id": node.node_id,
        "memory": format_quantity(node.memory_bytes),
        "hugepages": {
            format_quantity(size): pages for size, pages in sorted(node.hugepages.items())
        },
    }
    if node.cpus:
        document["cpus"] = str(node.cpus)
    if node.distances:
        document["distances"] = dict(node.distances)
    if node.is_movable_only:
        document["movableOnly"] = True
    if node.memory_tier is not None:
        document["memoryTier"] = node.memory_tier
    return document


def _print_tables(
    machine: Machine,
    classification: Classification,
    pools: Mapping[int, Mapping[int, HugepagePool]],
    reserved: Mapping[int, int],
    devices: Sequence[NetworkDevice],
) -> None:
    from nri_numamem.cli.render.screen import Screen  # noqa: PLC0415 - only for people

    screen = Screen()
    screen.heading("NUMA nodes")
    screen.shown(_node_table(machine, classification))
    for note in _notes(classification):
        screen.text(note)
    table = _pool_table(pools, reserved)
    if table.row_count:
        screen.heading("Hugepage pools, in pages")
        screen.shown(table)
        screen.text(
            "rsvd: reserved for mappings but not yet faulted in; the kernel counts these pages "
            "for the whole system only"
        )
    if devices:
        screen.heading("Network devices")
        screen.shown(_device_table(devices))


def _notes(classification: Classification) -> Iterator[str]:
    """Yield what the classes mean for the nodes that are not used like the others."""
    if not classification.has_cpus:
        yield "no node shows CPUs: sysfs is incomplete, and all nodes are used"
    if classification.excluded:
        yield "excluded: no container is placed there (memoryNodes)"
    if classification.last_resort:
        yield "last resort: used only for what fits nowhere else"


def _node_table(machine: Machine, classification: Classification) -> "Table":
    """Return a row for each node; consecutive nodes without CPUs and memory share one."""
    from nri_numamem.cli.render.bars import fixed, numeric, plain_table  # noqa: PLC0415 - only for people

    sizes = sorted({size for node in machine.nodes for size in node.hugepages})
    targets = NodeSet(node.node_id for node in machine.nodes if not _is_empty(node))
    targets = targets or machine.node_set
    has_tiers = any(node.memory_tier is not None for node in machine.nodes)
    numbers = ("node", "memory", *(f"{format_quantity(size)} pages" for size in sizes))
    columns = [*map(numeric, numbers), *map(fixed, ("class", "use"))]
    columns += [numeric("tier")] if has_tiers else []
    table = plain_table(*columns, "CPUs", f"distances to {targets}")
    for label, node in _rows(machine, classification):
        tier = "-" if node.memory_tier is None else str(node.memory_tier)
        distances = " ".join(str(node.distance_to(other)) for other in targets)
        is_merged = label != str(node.node_id)
        table.add_row(
            label,
            humanize_bytes(node.memory_bytes),
            *(str(node.hugepages.get(size, "-")) for size in sizes),
            classification.classes[node.node_id].value,
            classification.use_of(node.node_id).value.replace("_", " "),
            *((tier,) if has_tiers else ()),
            str(node.cpus) or "none",
            "-" if is_merged else distances if node.distances else "unknown",
        )
    return table


def _is_empty(node: NumaNode) -> bool:
    return not node.cpus and node.memory_bytes == 0


def _rows(machine: Machine, classification: Classification) -> Iterator[tuple[str, NumaNode]]:
    """Yield the ids of each row, and its first node."""

    def key(node: NumaNode) -> tuple[object, ...]:
        is_alone = -1 if _is_empty(node) else node.node_id
        known = classification.classes[node.node_id], node.memory_tier, tuple(node.hugepages)
        return (is_alone, *known)

    for _, group in groupby(machine.nodes, key):
        nodes = list(group)
        yield str(NodeSet(node.node_id for node in nodes)), nodes[0]


def _pool_table(
    pools: Mapping[int, Mapping[int, HugepagePool]], reserved: Mapping[int, int]
) -> "Table":
    """Return a row for each page size and node, and for each page size a row of sums."""
    from nri_numamem.cli.render.bars import numeric, plain_table  # noqa: PLC0415 - only for people

    table = plain_table(*map(numeric, ("size", "node", "total", "used", "free", "surplus", "rsvd")))
    for size in sorted({size for of_node in pools.values() for size in of_node}):
        by_node = {node: of_node[size] for node, of_node in pools.items() if size in of_node}
        if not any(pool.total_pages for pool in by_node.values()):
            continue
        for node, pool in by_node.items():
            table.add_row(format_quantity(size), str(node), *_counts(pool), "")
        pages = [(p.total_pages, p.free_pages, p.surplus_pages) for p in by_node.values()]
        whole = HugepagePool(*map(sum, zip(*pages, strict=True)))
        table.add_row(format_quantity(size), "all", *_counts(whole), str(reserved.get(size, 0)))
    return table


def _device_table(devices: Sequence[NetworkDevice]) -> "Table":
    from nri_numamem.cli.render.bars import fixed, numeric, plain_table  # noqa: PLC0415 - only for people

    table = plain_table(numeric("node"), fixed("device"), "parent")
    for device in devices:
        node = "unknown" if device.numa_nodes is None else str(device.numa_nodes)
        table.add_row(node, device.name, device.parent)
    return table


def _counts(pool: HugepagePool) -> tuple[str, str, str, str]:
    used = max(0, pool.total_pages - pool.free_pages)
    return str(pool.total_pages), str(used), str(pool.free_pages), str(pool.surplus_pages)
