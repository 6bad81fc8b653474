"""The reports for people."""

from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nri_numamem.cli.decisions.outcomes import amounts_text
from nri_numamem.cli.live.earmarks import show_earmarks
from nri_numamem.cli.live.facts import Facts
from nri_numamem.cli.render.bars import fixed, numeric, plain_table
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.texts import duration, format_time, listed
from nri_numamem.cli.status.claims import show_claims
from nri_numamem.cli.status.nodes import show_nodes
from nri_numamem.cli.status.pages import PageReport, PageRow
from nri_numamem.cli.status.report import (
    Condition,
    ContainerRow,
    Report,
)
from nri_numamem.daemon.lock_holder import LockHolder
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.text import escape
from nri_numamem.numa import MEMORY, hugepages_page_size, humanize_bytes
from nri_numamem.numa.pages import summed
from nri_numamem.version import VERSION

_MARK = "!"
# Of containers with the same difference.
_MOST_NAMES = 8
# Of pages.
_KINDS = ("anonymous", "shared", "hugetlb", "cache")


def show(report: Report, console: Console) -> None:
    """Print the report."""
    screen = Screen(console)
    screen.heading(f"nri-numamem {VERSION}")
    _show_plugin(screen, report)
    if report.nodes:
        show_nodes(screen, report)
    _show_containers(screen, report)
    show_claims(screen, report.facts.state)
    show_earmarks(screen, report.facts.state, report.facts.now_s)
    if report.refused:
        _show_refused(screen, report)
    if report.differences:
        _show_differences(screen, report)


def _show_plugin(screen: Screen, report: Report) -> None:
    facts = report.facts
    if not facts.state_file:
        screen.labelled("plugin", "unknown: stateFile is empty, so there is no lock", "yellow")
    elif facts.holder is None:
        text = f"does not run{_end(facts)}: containers that start now get no NUMA nodes; "
        text += "nri-numamem doctor says what to do"
        screen.labelled("plugin", text, "bold red")
    else:
        screen.labelled("plugin", f"runs: {escape(_holder(facts.holder, facts.now_s))}", "green")
    _show_runtime(screen, facts)
    settings = facts.settings
    policy = f"{settings.topology_manager_policy}, scope {settings.topology_manager_scope}"
    if settings.memory_manager_policy != "Static":
        policy = f"memoryManagerPolicy {settings.memory_manager_policy}: nothing is managed"
    screen.labelled("policy", f"{policy} ({escape(facts.settings_origin)})")
    if facts.changed_s is not None:
        age = duration(max(0.0, facts.now_s - facts.changed_s))
        since = f"last changed {age} ago, {format_time(facts.changed_s)}"
        if facts.holder is None:
            since = f"of the last run; {since}"
        screen.labelled("state", since)
    elif not facts.state_problem:
        screen.labelled("state", f"none: {escape(facts.state_file)} does not exist yet")
    for problem in report.problems:
        screen.labelled("problem", escape(problem), "red")


def _end(facts: Facts) -> str:
    """Return when the last plugin ended, if known."""
    if facts.plugin is None or facts.plugin.ended_s is None:
        return ""
    return f" since {format_time(facts.plugin.ended_s)}"


def _show_runtime(screen: Screen, facts: Facts) -> None:
    plugin = facts.plugin
    if plugin is None or facts.holder is None:
        return
    if plugin.version != VERSION:
        text = f"runs {escape(plugin.version)}, installed {VERSION}: restart the plugin, or the "
        screen.labelled("version", f"{text}runtime that launches it", "yellow")
    if plugin.runtime is None:
        text = "none has accepted the plugin yet: containers that start now get no NUMA nodes"
        screen.labelled("runtime", text, "bold red")
        return
    runtime, changed = plugin.runtime, ""
    if plugin.connection_changed_s is not None:
        changed = f" since {format_time(plugin.connection_changed_s)}"
    name = escape(f"{runtime.name} {runtime.version}")
    if runtime.nri_version:
        name += escape(f", NRI {runtime.nri_version}")
    if plugin.is_connected:
        screen.labelled("runtime", f"{name}; connected{changed}")
    else:
        text = f"{name}; not connected{changed}: containers that start now get no NUMA nodes"
        screen.labelled("runtime", text, "bold red")


def _holder(holder: LockHolder, now_s: float) -> str:
    """Return what the running instance wrote, and its age."""
    try:
        since_s = datetime.fromisoformat(holder.since).timestamp()
    except (ValueError, OverflowError):
        return holder.text
    age = duration(max(0.0, now_s - since_s))
    return f"pid {holder.pid}, since {holder.since} ({age}), {holder.started_as}"


def _show_containers(screen: Screen, report: Report) -> None:
    rows = report.containers
    marked = {difference.container_id for difference in report.differences}
    screen.heading("Containers" if rows else "No containers")
    if rows:
        numbers = map(numeric, ("memory", "hugepages", "resident", "remote"))
        table = plain_table(fixed("", 1), "pod", "container", "nodes", *numbers, gap=1)
        for row in rows:
            mark = _MARK if row.container_id in marked else ""
            table.add_row(Text(mark, "bold yellow"), *_cells(row))
        screen.shown(table)
    if any(row.private_bytes is not None for row in rows):
        screen.text(
            "resident: anonymous, hugetlb and file pages. remote: share of the anonymous and "
            "hugetlb pages on other nodes; file pages are shared and do not count."
        )
    others = [f"{count} {qos}" for qos, count in report.facts.other_pods.items() if count]
    if others:
        pods = "pod" if sum(report.facts.other_pods.values()) == 1 else "pods"
        screen.text(f"Not managed: {' and '.join(others)} {pods}.")


def _show_refused(screen: Screen, report: Report) -> None:
    screen.heading("Refused now")
    now_s = report.facts.now_s
    table = plain_table("pod", "container", numeric("times"), fixed("for"), "request", gap=1)
    for each in report.refused:
        table.add_row(
            escape(each.names.full_pod),
            escape(each.names.container) or "(whole pod)",
            str(each.refusals.count),
            duration(max(0.0, now_s - each.refusals.first_s)),
            amounts_text(each.request),
        )
    screen.shown(table)
    if report.facts.holder is None:
        screen.text("The plugin does not run: these containers may have started since.")
    screen.text("nri-numamem explain NAMESPACE/POD says why, and what to do.")


def _cells(row: ContainerRow) -> tuple[str, ...]:
    name = row.name or row.container_id[:12]
    pages = [_pages(resource, size) for resource, size in row.amounts.items() if resource != MEMORY]
    if row.condition is Condition.RESERVED:
        name = "(whole pod)"
    resident, remote = "-", "-"
    if row.condition in (Condition.ENDED, Condition.RESERVED):
        resident = "kept" if row.condition is Condition.RESERVED else "ended"
    elif row.private_bytes is not None:
        resident = humanize_bytes(row.private_bytes + (row.file_bytes or 0))
        if row.remote_bytes is not None:
            remote = _share(row.remote_bytes, row.private_bytes)
    return (
        escape(row.title),
        escape(name),
        str(row.nodes) or "-",
        humanize_bytes(row.amounts.get(MEMORY, 0)),
        ", ".join(pages) or "-",
        resident,
        remote,
    )


def _pages(resource: str, size_bytes: int) -> str:
    """Return "4 x 1Gi"."""
    page_bytes = hugepages_page_size(resource)
    return f"{size_bytes // page_bytes} x {resource.partition('-')[2]}"


def _share(part: int, whole: int) -> str:
    if not part:
        return "0%"
    percent = 100 * part // max(1, whole)
    return f"{percent}%" if percent else "<1%"


def _show_differences(screen: Screen, report: Report) -> None:
    screen.heading("Differences between accounting, cgroups and kernel")
    names = {row.container_id: _name(row) for row in report.containers}
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=1, no_wrap=True)
    table.add_column(overflow="fold")
    who: dict[str, list[str]] = {}
    for difference in report.differences:
        known = [names[difference.container_id]] if difference.container_id in names else []
        who.setdefault(difference.text, []).extend(known)
    for text, found in who.items():
        sentence = f"{listed(found, _MOST_NAMES)}: {text}" if found else text
        table.add_row(Text(_MARK, "bold yellow"), Text(escape(sentence)))
    screen.shown(table)


def _name(row: ContainerRow | PageRow) -> str:
    return f"{row.title}/{row.name or row.container_id[:12]}"


def show_pages(report: PageReport, console: Console) -> None:
    """Print the pages of each container, and the sums per node."""
    screen = Screen(console)
    _show_page_rows(screen, report)
    _show_page_nodes(screen, report)
    for problem in report.problems:
        screen.labelled("problem", escape(problem), "red")


def _show_page_rows(screen: Screen, report: PageReport) -> None:
    title = f"Pages of {escape(report.query)}" if report.query else "Pages of managed containers"
    if not report.rows:
        screen.heading(f"{title}: no running container")
        return
    screen.heading(title)
    numbers = map(numeric, ("on", *_KINDS, "remote"))
    table = plain_table(fixed("", 1), "container", fixed("nodes"), *numbers, gap=1)
    for row in report.rows:
        for number, cells in enumerate(_page_cells(row)):
            mark = _MARK if row.is_notable and not number else ""
            table.add_row(Text(mark, "bold yellow"), *cells)
    screen.shown(table)
    screen.text(
        "nodes: where it may have memory, in brackets if the plugin did not assign them. remote: "
        "on other nodes, without page cache, which is shared and counts where it was read first."
    )


def _page_cells(row: PageRow) -> list[tuple[str, ...]]:
    """Return a line per NUMA node with pages."""
    pages = row.pages
    by_kind = [getattr(pages, kind) for kind in _KINDS]
    found = [node for node, size in summed(by_kind).items() if size]
    remote = pages.remote(row.nodes) if row.nodes else {}
    lines: list[tuple[str, ...]] = []
    for number, node in enumerate(found):
        first = ("", "") if number else (escape(_name(row)), _nodes_text(row))
        sizes = (_amount(kind.get(node, 0)) for kind in by_kind)
        lines.append((*first, str(node), *sizes, _amount(remote.get(node, 0))))
    if not lines:
        nothing = "?" if row.cgroup.pages is None else "-"
        return [(escape(_name(row)), _nodes_text(row), *("" for _ in range(5)), nothing)]
    if row.remote_bytes:
        lines.append((*("" for _ in range(7)), _share(row.remote_bytes, sum(pages.own.values()))))
    return lines


def _nodes_text(row: PageRow) -> str:
    if row.is_assigned:
        return str(row.nodes)
    return f"({row.nodes})" if row.nodes else "(any)"


def _amount(size_bytes: int) -> str:
    return humanize_bytes(size_bytes) if size_bytes else "-"


def _show_page_nodes(screen: Screen, report: PageReport) -> None:
    if not report.nodes:
        return
    screen.heading("NUMA nodes")
    names = ("node", "pages", "remote", "cache", "available", "unfaulted")
    table = plain_table(*map(numeric, names), gap=1)
    for node, amounts in report.nodes.items():
        available = "?" if amounts.available is None else humanize_bytes(amounts.available)
        shown = map(_amount, (amounts.own, amounts.remote, amounts.cache))
        table.add_row(str(node), *shown, available, humanize_bytes(amounts.unfaulted))
    screen.shown(table)
    screen.text(
        "available: free or reclaimable in the kernel. unfaulted: assigned, and not used yet by "
        "the containers of the accounting."
    )
    for nodes, size in report.short.items():
        text = f"containers may still allocate {humanize_bytes(size)} more than is available there"
        screen.labelled("short", f"{format_nodes(nodes)}: {text}", "yellow")
