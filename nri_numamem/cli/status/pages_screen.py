"""The resident memory of containers, for people."""

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from nri_numamem.cli.render.bars import fixed, numeric, plain_table
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.status.pages import PageReport, PageRow
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.text import escape
from nri_numamem.numa import NodeSet, humanize_bytes
from nri_numamem.numa.pages import summed

_KINDS = ("anonymous", "shared", "hugetlb", "cache")


def show(report: PageReport, console: Console) -> None:
    """Print the pages of each container, and the sums per node."""
    screen = Screen(console)
    _show_containers(screen, report)
    _show_nodes(screen, report)
    for problem in report.problems:
        screen.labelled("problem", escape(problem), "red")


def _show_containers(screen: Screen, report: PageReport) -> None:
    title = f"Pages of {escape(report.query)}" if report.query else "Pages of managed containers"
    if not report.rows:
        screen.heading(f"{title}: no running container")
        return
    screen.heading(title)
    numbers = map(numeric, ("on", *_KINDS, "remote"))
    table = plain_table(fixed("", 1), "container", fixed("nodes"), *numbers, gap=1)
    for row in report.rows:
        for number, cells in enumerate(_cells(row)):
            mark = "!" if row.is_notable and not number else ""
            table.add_row(Text(mark, "bold yellow"), *cells)
    screen.shown(table)
    screen.text(
        "nodes: where it may have memory, in brackets if the plugin did not assign them. remote: "
        "on other nodes, without page cache, which is shared and counts where it was read first."
    )


def _cells(row: PageRow) -> list[tuple[str, ...]]:
    """Return a line per NUMA node with pages."""
    pages = row.pages
    by_kind = [getattr(pages, kind) for kind in _KINDS]
    found = [node for node, size in summed(by_kind).items() if size]
    remote = pages.remote(row.nodes) if row.nodes else {}
    lines: list[tuple[str, ...]] = []
    for number, node in enumerate(found):
        first = ("", "") if number else (_name(row), _nodes(row))
        sizes = (_amount(kind, node) for kind in by_kind)
        lines.append((*first, str(node), *sizes, _amount(remote, node)))
    if not lines:
        nothing = "?" if row.cgroup.pages is None else "-"
        return [(_name(row), _nodes(row), *("" for _ in range(5)), nothing)]
    if row.remote_bytes:
        own = sum(pages.own.values())
        percent = 100 * row.remote_bytes // own
        lines.append(("", *("" for _ in range(6)), f"{percent}%" if percent else "<1%"))
    return lines


def _name(row: PageRow) -> str:
    return escape(f"{row.title}/{row.name or row.container_id[:12]}")


def _nodes(row: PageRow) -> str:
    if row.is_assigned:
        return str(row.nodes)
    return f"({row.nodes})" if row.nodes else "(any)"


def _amount(sizes: Mapping[int, int], node: int) -> str:
    size = sizes.get(node, 0)
    return humanize_bytes(size) if size else "-"


def _show_nodes(screen: Screen, report: PageReport) -> None:
    if not report.nodes:
        return
    screen.heading("NUMA nodes")
    names = ("node", "pages", "remote", "cache", "available", "unfaulted")
    table = plain_table(*map(numeric, names), gap=1)
    for node, amounts in report.nodes.items():
        available = "?" if amounts.available is None else humanize_bytes(amounts.available)
        sizes = (amounts.own, amounts.remote, amounts.cache)
        shown = [humanize_bytes(size) if size else "-" for size in sizes]
        table.add_row(str(node), *shown, available, humanize_bytes(amounts.unfaulted))
    screen.shown(table)
    screen.text(
        "available: free or reclaimable in the kernel. unfaulted: assigned, and not used yet by "
        "the containers of the accounting."
    )
    for nodes, size in report.short.items():
        screen.labelled("short", _short(nodes, size), "yellow")


def _short(nodes: NodeSet, size: int) -> str:
    return (
        f"{format_nodes(nodes)}: containers may still allocate {humanize_bytes(size)} more than is "
        "available there"
    )
