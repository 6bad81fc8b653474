"""A table of memory per NUMA node: one line per node, one bar per resource.

The input has the kubelet's keys (``memorymanager.state_json``); the output is a rich table for a
number of columns. Each part of a bar has its own glyph, so the table is readable without colours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.table import Table
from rich.text import Text

from nri_numamem.cli.render.bars import (
    ASSIGNED,
    FREE,
    POOLS,
    RESERVED,
    bar,
    fixed,
    legend_of,
    numeric,
    plain_table,
)
from nri_numamem.engine.core.text import escape
from nri_numamem.memorymanager.state_json import NodeJson, StateJson, TableJson
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import HUGEPAGES_PREFIX, MEMORY, hugepages_page_size, humanize_bytes

# Narrower bars are unreadable; the table becomes wider than the terminal instead.
_BAR_LEAST = 6
_BAR_MOST = 40
_HUGEPAGES_BAR = 9
# The column is wider if it has an amount such as "1023.5Gi".
_FREE_LEAST = 7
LABEL_WIDTH = 5
_GROUP_WIDTH = 6
# Width from which the table has a column of containers.
_WIDE = 100
# The share of the other columns in such a table.
_NODES_SHARE = 0.72
# With more nodes, consecutive nodes with equal cells share a line.
MAX_UNFOLDED_NODES = 8


_PARTS = (RESERVED, POOLS, ASSIGNED, FREE)


def legend(*, ascii_only: bool = False) -> Text:
    """Return the legend of the bars as one line."""
    return legend_of(_PARTS, ascii_only=ascii_only)


def node_table(
    accounting: StateJson,
    *,
    width: int,
    pod_names: Mapping[str, str] | None = None,
    before: StateJson | None = None,
    ascii_only: bool = False,
) -> Table:
    """Return a table of the nodes for `width` columns.

    From 100 columns on, the last column lists the containers on each node; `pod_names` maps pod
    uids to names for it. Nodes that differ from `before` are marked with ">". With more than 8
    nodes, consecutive nodes with equal cells share a line, whose amounts are those of each node.
    """
    nodes = {int(node_id): node for node_id, node in accounting["machineState"].items()}
    resources = _resources(nodes.values())
    containers = (
        _containers_by_node(accounting, pod_names or {}) if shows_containers(width) else None
    )
    is_folded = len(nodes) > MAX_UNFOLDED_NODES
    # Two ids, a dash and the mark.
    label_width = max(LABEL_WIDTH, 2 * len(str(max(nodes))) + 2) if is_folded else LABEL_WIDTH
    free_width = free_width_of(
        figures["free"] for node in nodes.values() for figures in node["memoryMap"].values()
    )
    for_nodes = width if containers is None else round(width * _NODES_SHARE)
    bars = bar_widths(resources, for_nodes - (label_width - LABEL_WIDTH), free_width)
    table = node_columns(bars, label_width, free_width)
    if containers is not None:
        # Without a width of its own this column would take room from the others, ids included.
        left = width - _columns_width(bars, label_width, free_width)
        table.add_column("containers", width=max(1, left), no_wrap=True, overflow="ellipsis")
    lines: list[_Line] = []
    for node_id, node in sorted(nodes.items()):
        changed = before is not None and before["machineState"].get(str(node_id)) != node
        cells = [_group(node), *_figures(node, bars, ascii_only=ascii_only)]
        if containers is not None:
            cells.append(", ".join(containers.get(node_id, ())))
        lines.append(_Line(node_id, node_id, changed, tuple(cells)))
    for line in _folded(lines) if is_folded else lines:
        table.add_row(line.label, *line.cells)
    return table


def node_columns(bars: Mapping[str, int], label_width: int, free_width: int) -> Table:
    """Return a table without rows: node, group, and per resource its bar and free bytes.

    `bars` maps the resources to the widths of their bars.
    """
    columns = [numeric("node", label_width), fixed("group", _GROUP_WIDTH)]
    for resource, width in bars.items():
        columns += [fixed(_heading(resource), width), numeric("free", free_width)]
    return plain_table(*columns, gap=1)


def _columns_width(bars: Mapping[str, int], label_width: int, free_width: int) -> int:
    """Return the width of node_columns(), with a gap after each column."""
    columns = [label_width, _GROUP_WIDTH, *bars.values(), *(free_width for _ in bars)]
    return sum(columns) + len(columns)


def shows_containers(width: int) -> bool:
    """Return whether node_table() has a column of containers at this width."""
    return width >= _WIDE


def container_table(accounting: StateJson, pod_names: Mapping[str, str]) -> Table:
    """Return a table of node sets with the containers on them, for narrow terminals."""
    found: dict[NodeSet, list[str]] = {}
    for name, nodes in _containers(accounting, pod_names):
        found.setdefault(nodes, []).append(name)
    table = plain_table(fixed("nodes"), "containers")
    for nodes, names in sorted(found.items(), key=lambda item: tuple(item[0])):
        table.add_row(str(nodes), ", ".join(names))
    return table


def _figures(node: NodeJson, bars: Mapping[str, int], *, ascii_only: bool) -> Iterable[str | Text]:
    """Yield bar and free bytes of each resource; empty cells for a missing resource."""
    for resource, width in bars.items():
        figures = node["memoryMap"].get(resource)
        if figures is None:
            yield from ("", "")
        else:
            yield _bar(figures, width, ascii_only=ascii_only)
            yield humanize_bytes(figures["free"])


@dataclass(frozen=True, slots=True)
class _Line:
    """Consecutive nodes with equal cells; usually one node."""

    first: int
    last: int
    is_changed: bool
    cells: tuple[str | Text, ...]

    @property
    def label(self) -> str:
        ids = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{'>' if self.is_changed else ''}{ids:>4}"


def _folded(lines: Iterable[_Line]) -> list[_Line]:
    folded: list[_Line] = []
    for line in lines:
        last = folded[-1] if folded else None
        if (
            last is not None
            and line.first == last.last + 1
            and (line.is_changed, line.cells) == (last.is_changed, last.cells)
        ):
            folded[-1] = replace(last, last=line.last)
        else:
            folded.append(line)
    return folded


def _bar(figures: TableJson, width: int, *, ascii_only: bool) -> Text:
    pools = max(0, figures["total"] - figures["systemReserved"] - figures["allocatable"])
    sizes = (figures["systemReserved"], pools, figures["reserved"], figures["free"])
    return bar(list(zip(_PARTS, sizes, strict=True)), width, ascii_only=ascii_only)


def free_width_of(amounts: Iterable[int]) -> int:
    """Return the width of the columns of free bytes."""
    return max(_FREE_LEAST, *(len(humanize_bytes(size)) for size in amounts), 0)


def bar_widths(resources: Sequence[str], width: int, free_width: int) -> dict[str, int]:
    """Return resource -> width of its bar: fixed for hugepages, the remainder for memory."""
    pools = len(resources) - 1
    fixed = LABEL_WIDTH + _GROUP_WIDTH + pools * _HUGEPAGES_BAR + len(resources) * free_width
    gaps = 2 + 2 * len(resources)
    memory = min(_BAR_MOST, max(_BAR_LEAST, width - fixed - gaps))
    return {resource: memory if resource == MEMORY else _HUGEPAGES_BAR for resource in resources}


def _resources(nodes: Iterable[NodeJson]) -> list[str]:
    """Return memory, then the hugepage resources with pages on any node, ascending by size."""
    found = {
        resource
        for node in nodes
        for resource, figures in node["memoryMap"].items()
        if resource != MEMORY and figures["total"] > 0
    }
    return [MEMORY, *sorted(found, key=_page_size)]


def _page_size(resource: str) -> int:
    """Return the page size in bytes; 0 for an unknown resource name."""
    try:
        return hugepages_page_size(resource)
    except ValueError:
        return 0


def _heading(resource: str) -> str:
    """Return the heading of a resource's bars."""
    return resource if resource == MEMORY else f"{resource.removeprefix(HUGEPAGES_PREFIX)} pages"


def _group(node: NodeJson) -> str:
    if not node["numberOfAssignments"]:
        return ""
    return str(NodeSet(node["cells"])) if len(node["cells"]) > 1 else "single"


def _containers_by_node(
    accounting: StateJson, pod_names: Mapping[str, str]
) -> dict[int, list[str]]:
    """Return node id -> "pod/container" of every container with a block on the node."""
    found: dict[int, list[str]] = {}
    for text, nodes in _containers(accounting, pod_names):
        for node_id in nodes:
            found.setdefault(node_id, []).append(text)
    return found


def _containers(
    accounting: StateJson, pod_names: Mapping[str, str]
) -> Iterable[tuple[str, NodeSet]]:
    """Yield "pod/container" and its nodes; what is not a container has no second part."""
    for uid, containers in accounting["entries"].items():
        for name, blocks in containers.items():
            nodes = NodeSet(n for block in blocks for n in block["numaAffinity"])
            yield escape("/".join(filter(None, (pod_names.get(uid, uid), name)))), nodes
