"""The NUMA nodes of the report, for people. On large machines close nodes share a line."""

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from nri_numamem.cli.render.bars import (
    ASSIGNED,
    FREE,
    HELD,
    NOT_FOR_PODS,
    POOLS,
    bar,
    fixed,
    legend_of,
    plain_table,
)
from nri_numamem.cli.render.node_table import (
    LABEL_WIDTH,
    MAX_UNFOLDED_NODES,
    bar_widths,
    free_width_of,
    node_columns,
)
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.texts import left_out_text
from nri_numamem.cli.status.report import (
    Amounts,
    Node,
    PartitionRow,
    Report,
    sums_of,
)
from nri_numamem.engine.core.cpu_requests import MILLICORES
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.memorymanager.largest import Largest
from nri_numamem.numa import MEMORY, Machine, NodeSet, humanize_bytes

_PARTS = (NOT_FOR_PODS, POOLS, ASSIGNED, HELD, FREE)
# Lines that fit on a screen with the containers.
_CLUSTERS_MOST = 16


def show_nodes(screen: Screen, report: Report) -> None:
    """Print the nodes, or groups of close ones, their sums, and the largest requests that fit."""
    rows = [([node], str(node.node_id)) for node in report.nodes]
    title = "NUMA nodes"
    if len(report.nodes) > MAX_UNFOLDED_NODES and report.facts.context is not None:
        by_id = {node.node_id: node for node in report.nodes}
        found = clusters_of(report.facts.context.machine, NodeSet(by_id))
        rows = [([by_id[n] for n in nodes], str(nodes)) for nodes in found]
        if len(rows) < len(by_id):
            title = "NUMA nodes by distance; amounts are sums"
    screen.heading(title)
    screen.shown(_node_table(rows, screen.width, ascii_only=screen.ascii_only))
    screen.shown(legend_of(_PARTS, gap=2, ascii_only=screen.ascii_only))
    for number, text in enumerate(_totals(sums_of(report.nodes))):
        screen.labelled("" if number else "total", text)
    for number, text in enumerate(filter(None, (cpus_text(nodes) for nodes, _ in rows))):
        screen.labelled("" if number else "CPUs", text)
    context = report.facts.context
    if context is not None and context.classification.excluded:
        screen.labelled("left out", left_out_text(context.classification.excluded))
    if report.partitions:
        _show_partitions(screen, report.partitions)
        return
    for number, text in enumerate(_fitting(report)):
        screen.labelled("" if number else "fits now", text)


def _node_table(
    rows: Sequence[tuple[Sequence[Node], str]], width: int, *, ascii_only: bool
) -> Table:
    sums = [sums_of(nodes) for nodes, _ in rows]
    # Not every node has pools of each size.
    resources = [
        name
        for name in dict.fromkeys(name for each in sums for name in each)
        if name == MEMORY or any(each[name].total for each in sums if name in each)
    ]
    free_width = free_width_of(each[name].free for each in sums for name in each)
    label_width = max(LABEL_WIDTH, *(len(label) for _, label in rows))
    bars = bar_widths(resources, width - (label_width - LABEL_WIDTH), free_width)
    table = node_columns(bars, label_width, free_width)
    for (nodes, label), amounts in zip(rows, sums, strict=True):
        cells: list[str | Text] = []
        for resource in resources:
            if resource not in amounts:
                cells += ["", ""]
                continue
            cells.append(_bar(amounts[resource], bars[resource], ascii_only=ascii_only))
            cells.append(humanize_bytes(amounts[resource].free))
        table.add_row(label, _group(nodes), *cells)
    return table


def _bar(amounts: Amounts, width: int, *, ascii_only: bool) -> Text:
    sizes = (
        amounts.system_reserved + amounts.outside,
        amounts.pools,
        amounts.assigned,
        amounts.held,
        amounts.free,
    )
    return bar(list(zip(_PARTS, sizes, strict=True)), width, ascii_only=ascii_only)


def _group(nodes: Sequence[Node]) -> str:
    """Return the group of assigned nodes, "single", or for nodes of several groups "mixed"."""
    groups = {node.group for node in nodes if node.is_assigned}
    if all(len(group) == 1 for group in groups):
        return "single" if groups else ""
    return str(groups.pop()) if len(groups) == 1 else "mixed"


def _totals(sums: Mapping[str, Amounts]) -> Iterator[str]:
    """Yield a text per resource: what is free on all nodes, of what pods may use."""
    for resource, amounts in sums.items():
        for_pods = amounts.assigned + amounts.held + amounts.free
        if resource == MEMORY or amounts.total:
            free = humanize_bytes(amounts.free)
            yield f"{resource} {free} free of {humanize_bytes(for_pods)} for pods"


def _fitting(report: Report) -> Iterator[str]:
    """Yield a text per resource: what fits now on one node, and on several."""
    for resource, one in report.one_node.items():
        yield f"{resource} {_fits(one, report.several_nodes.get(resource))}"


def _fits(*largest: Largest | None) -> str:
    found = [each for each in largest if each is not None and each.size_bytes]
    texts = (f"{humanize_bytes(each.size_bytes)} on {format_nodes(each.nodes)}" for each in found)
    return ", ".join(texts) or "nothing"


def _show_partitions(screen: Screen, rows: Sequence[PartitionRow]) -> None:
    """Print the partitions, each with a line per resource."""
    screen.heading("Partitions")
    # Names that are longer would leave no room for amounts on a narrow screen.
    has_room = all(len(row.found.partition.name) <= screen.width // 4 for row in rows)
    name = fixed("partition") if has_room else "partition"
    table = plain_table(name, fixed("nodes"), fixed("resource"), "free", "fits now")
    for row in rows:
        if row.found.problem:
            table.add_row(row.found.partition.name, "-", "", "", _unusable(row.found.problem))
        for number, (resource, amounts) in enumerate(row.amounts.items()):
            for_pods = amounts.assigned + amounts.held + amounts.free
            if resource != MEMORY and not amounts.total:
                continue
            cells = ("", "") if number else (row.found.partition.name, str(row.found.nodes))
            free = f"{humanize_bytes(amounts.free)} of {humanize_bytes(for_pods)}"
            fits = _fits(row.one_node.get(resource), row.several_nodes.get(resource))
            table.add_row(*cells, resource, free, fits)
    screen.shown(table)


def _unusable(problem: str) -> Text:
    return Text(f"unusable: {problem}", "bold red")


def clusters_of(machine: Machine, nodes: NodeSet) -> list[NodeSet]:
    """Divide nodes into sets that are connected by short distances, at most 16 if possible.

    Each node is alone if the machine shows no distances, or only equal ones.
    """
    known = [node for node in machine.nodes if node.node_id in nodes]
    pairs = {
        (a.node_id, b.node_id): a.distance_to(b.node_id)
        for a in known
        for b in known
        if a.node_id < b.node_id and a.distances
    }
    for most in sorted(set(pairs.values())):
        found = _connected(nodes, [pair for pair, distance in pairs.items() if distance <= most])
        if len(found) == 1:
            break
        if len(found) <= _CLUSTERS_MOST:
            return found
    return [NodeSet([node_id]) for node_id in nodes]


def _connected(nodes: NodeSet, pairs: list[tuple[int, int]]) -> list[NodeSet]:
    """Return the sets of nodes that are connected by pairs, ordered by their lowest ids."""
    of_node = {node_id: NodeSet([node_id]) for node_id in nodes}
    for a, b in pairs:
        if b not in of_node[a]:
            joined = of_node[a] | of_node[b]
            of_node.update(dict.fromkeys(joined, joined))
    return list(dict.fromkeys(of_node.values()))


def cpus_text(nodes: Sequence[Node]) -> str:
    """Return the CPU requests on some nodes, "3.5 of 8 requested on node 0"; "" if unknown."""
    known = [node.cpus for node in nodes if node.cpus is not None]
    if not known:
        return ""
    requested, usable = sum(each.requested for each in known), sum(each.usable for each in known)
    where = format_nodes(NodeSet(node.node_id for node in nodes))
    return f"{requested / MILLICORES:g} of {usable / MILLICORES:g} requested on {where}"
