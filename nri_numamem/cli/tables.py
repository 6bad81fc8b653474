"""The books as a picture: one line per NUMA node, one bar per resource.

Takes the books in the kubelet's words, as the log record "books" and the state file spell them,
and makes a rich table that fits the given width. Each part of a bar has a glyph of its own, so
that the picture reads without colours as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from rich.table import Table
from rich.text import Text

from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.quantity import (
    HUGEPAGES_PREFIX,
    MEMORY,
    hugepages_page_size,
    humanize_bytes,
)
from nri_numamem.values import valueclass

# Narrower bars say nothing; a table that is wider than the terminal says more.
_BAR_LEAST = 6
_BAR_MOST = 40
_HUGEPAGES_BAR = 9
_FREE_WIDTH = 7
_LABEL_WIDTH = 5
_GROUP_WIDTH = 6
# From here on there is room to name what lives on each node.
_WIDE = 100
# More lines than this are hard to compare; neighbours that look the same share one then.
_MOST_NODES_ALONE = 8


class Figures(TypedDict):
    """The five numbers of a resource on a node, in bytes."""

    total: int
    systemReserved: int
    allocatable: int
    reserved: int
    free: int


class NodeBooks(TypedDict):
    """A NUMA node in the books."""

    numberOfAssignments: int
    memoryMap: dict[str, Figures]
    cells: list[int]


class BlockEntry(TypedDict):
    """A block of an assignment."""

    numaAffinity: list[int]
    type: str
    size: int


class Books(TypedDict):
    """All of the books: node id -> node, and pod uid -> container -> blocks."""

    machineState: dict[str, NodeBooks]
    entries: dict[str, dict[str, list[BlockEntry]]]


class _Part:
    """One kind of bytes in a bar."""

    def __init__(self, name: str, glyph: str, ascii_glyph: str, style: str) -> None:
        self.name = name
        self.style = style
        self._glyph = glyph
        self._ascii_glyph = ascii_glyph

    def drawn(self, cells: int, *, ascii_only: bool) -> Text:
        glyph = self._ascii_glyph if ascii_only else self._glyph
        return Text(glyph * cells, style=self.style)


_RESERVED = _Part("system-reserved", "▒", "%", "bright_black")
_POOLS = _Part("hugepage pools", "≡", "=", "magenta")
_ASSIGNED = _Part("assigned", "█", "#", "cyan")
_FREE = _Part("free", "·", ".", "green")
_PARTS = (_RESERVED, _POOLS, _ASSIGNED, _FREE)


def legend(*, ascii_only: bool = False) -> Text:
    """Return the line that explains the bars."""
    line = Text()
    for part in _PARTS:
        line += part.drawn(2, ascii_only=ascii_only)
        line.append(f" {part.name}   ")
    line.rstrip()
    return line


def node_table(
    books: Books,
    *,
    width: int,
    pod_names: Mapping[str, str] | None = None,
    before: Books | None = None,
    ascii_only: bool = False,
) -> Table:
    """Return the nodes of the books as a table for `width` columns.

    From 100 columns on a last column names the containers on each node; `pod_names` translates
    pod uids there. Nodes that differ from those of the books `before` are marked. Of more than 8
    nodes, neighbours that look the same share a line, whose figures are each node's.
    """
    nodes = {int(node_id): node for node_id, node in books["machineState"].items()}
    resources = _resources(nodes.values())
    residents = _residents(books, pod_names or {}) if width >= _WIDE else None
    is_folded = len(nodes) > _MOST_NODES_ALONE
    # Two ids with a dash between them, and the mark.
    label_width = max(_LABEL_WIDTH, 2 * len(str(max(nodes))) + 2) if is_folded else _LABEL_WIDTH
    width -= label_width - _LABEL_WIDTH
    bars = _bar_widths(resources, width if residents is None else round(width * 0.72))
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("node", justify="right", width=label_width, no_wrap=True)
    table.add_column("group", width=_GROUP_WIDTH, no_wrap=True)
    for resource in resources:
        table.add_column(_heading(resource), width=bars[resource], no_wrap=True)
        table.add_column("free", justify="right", width=_FREE_WIDTH, no_wrap=True)
    if residents is not None:
        table.add_column("containers", no_wrap=True, overflow="ellipsis")
    lines: list[_Line] = []
    for node_id, node in sorted(nodes.items()):
        changed = before is not None and before["machineState"].get(str(node_id)) != node
        cells = [_group(node), *_figures(node, bars, ascii_only=ascii_only)]
        if residents is not None:
            cells.append(", ".join(residents.get(node_id, ())))
        lines.append(_Line(node_id, node_id, changed, tuple(cells)))
    for line in _folded(lines) if is_folded else lines:
        table.add_row(line.label, *line.cells)
    return table


def _figures(node: NodeBooks, bars: Mapping[str, int], *, ascii_only: bool) -> Iterable[str | Text]:
    """Return bar and free bytes of each resource; blanks for one that the node does not have."""
    for resource, width in bars.items():
        figures = node["memoryMap"].get(resource)
        if figures is None:
            yield from ("", "")
        else:
            yield _bar(figures, width, ascii_only=ascii_only)
            yield humanize_bytes(figures["free"])


@valueclass(frozen=True, slots=True)
class _Line:
    """Neighbouring nodes that look the same; mostly one."""

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


def bar_cells(sizes: Sequence[int], width: int) -> list[int]:
    """Share `width` cells among `sizes`; what is not 0 gets at least one cell.

    The largest takes what rounding leaves, so `width` must be a few times their number.
    """
    total = sum(sizes)
    if not total:
        return [0] * len(sizes)
    cells = [max(1, round(size * width / total)) if size else 0 for size in sizes]
    cells[sizes.index(max(sizes))] += width - sum(cells)
    return cells


def _bar(figures: Figures, width: int, *, ascii_only: bool) -> Text:
    pools = max(0, figures["total"] - figures["systemReserved"] - figures["allocatable"])
    sizes = (figures["systemReserved"], pools, figures["reserved"], figures["free"])
    bar = Text()
    for part, cells in zip(_PARTS, bar_cells(sizes, width), strict=True):
        bar += part.drawn(cells, ascii_only=ascii_only)
    return bar


def _bar_widths(resources: list[str], width: int) -> dict[str, int]:
    """Give hugepages a fixed width and memory what is left."""
    pools = len(resources) - 1
    fixed = _LABEL_WIDTH + _GROUP_WIDTH + pools * _HUGEPAGES_BAR + len(resources) * _FREE_WIDTH
    gaps = 2 + 2 * len(resources)
    memory = min(_BAR_MOST, max(_BAR_LEAST, width - fixed - gaps))
    return {resource: memory if resource == MEMORY else _HUGEPAGES_BAR for resource in resources}


def _resources(nodes: Iterable[NodeBooks]) -> list[str]:
    """Return memory, then the hugepage sizes that any node has pages of, small ones first."""
    found = {
        resource
        for node in nodes
        for resource, figures in node["memoryMap"].items()
        if resource != MEMORY and figures["total"] > 0
    }
    return [MEMORY, *sorted(found, key=_page_size)]


def _page_size(resource: str) -> int:
    """Return the page size; 0 for a name that somebody else made up."""
    try:
        return hugepages_page_size(resource)
    except ValueError:
        return 0


def _heading(resource: str) -> str:
    return resource if resource == MEMORY else f"{resource.removeprefix(HUGEPAGES_PREFIX)} pages"


def _group(node: NodeBooks) -> str:
    if not node["numberOfAssignments"]:
        return ""
    return str(NodeSet(node["cells"])) if len(node["cells"]) > 1 else "single"


def _residents(books: Books, pod_names: Mapping[str, str]) -> dict[int, list[str]]:
    """Return node id -> "pod/container" of every container with a block there."""
    residents: dict[int, list[str]] = {}
    for uid, containers in books["entries"].items():
        for name, blocks in containers.items():
            text = f"{pod_names.get(uid, uid)}/{name}"
            for node_id in sorted({n for block in blocks for n in block["numaAffinity"]}):
                residents.setdefault(node_id, []).append(text)
    return residents
