"""The report for people."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nri_numamem.cli.live.facts import Facts
from nri_numamem.cli.render.bars import ASSIGNED, FREE, HELD, NOT_FOR_PODS, POOLS, bar, legend_of
from nri_numamem.cli.render.duration import duration
from nri_numamem.cli.render.node_table import (
    LABEL_WIDTH,
    MAX_UNFOLDED_NODES,
    bar_widths,
    free_width_of,
    node_columns,
)
from nri_numamem.cli.render.plain_table import plain_table
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.times import format_time
from nri_numamem.cli.status.clusters import clusters_of
from nri_numamem.cli.status.cpus import cpus_text
from nri_numamem.cli.status.report import (
    Amounts,
    Condition,
    ContainerRow,
    Node,
    Report,
)
from nri_numamem.daemon.lock_holder import LockHolder
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.text import escape
from nri_numamem.numa import MEMORY, NodeSet, hugepages_page_size, humanize_bytes
from nri_numamem.version import VERSION

_PARTS = (NOT_FOR_PODS, POOLS, ASSIGNED, HELD, FREE)
_MARK = "!"
# Of containers with the same difference.
_MOST_NAMES = 8


def show(report: Report, console: Console) -> None:
    """Print the report."""
    screen = Screen(console)
    screen.heading(f"nri-numamem {VERSION}")
    _show_plugin(screen, report)
    if report.nodes:
        _show_nodes(screen, report)
    _show_containers(screen, report)
    if report.differences:
        _show_differences(screen, report)


def _show_plugin(screen: Screen, report: Report) -> None:
    facts = report.facts
    if not facts.state_file:
        screen.labelled("plugin", "unknown: without stateFile there is no lock", "yellow")
    elif facts.holder is None:
        text = f"does not run{_end(facts)}: containers that start now get no NUMA nodes"
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
        text = f"the plugin is version {escape(plugin.version)}; restart it to run this one"
        screen.labelled("", text, "yellow")
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


def _show_nodes(screen: Screen, report: Report) -> None:
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
    for number, text in enumerate(_totals(_sums(report.nodes))):
        screen.labelled("" if number else "total", text)
    for number, text in enumerate(filter(None, (cpus_text(nodes) for nodes, _ in rows))):
        screen.labelled("" if number else "CPUs", text)
    for number, text in enumerate(_fitting(report)):
        screen.labelled("" if number else "fits now", text)


def _node_table(
    rows: Sequence[tuple[Sequence[Node], str]], width: int, *, ascii_only: bool
) -> Table:
    sums = [_sums(nodes) for nodes, _ in rows]
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


def _sums(nodes: Sequence[Node]) -> dict[str, Amounts]:
    sums: dict[str, Amounts] = {}
    for node in nodes:
        for name, amounts in node.amounts.items():
            sums[name] = sums.get(name, Amounts(0)).plus(amounts)
    return sums


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
        several = report.several_nodes.get(resource)
        found = [each for each in (one, several) if each is not None and each.size_bytes]
        texts = [
            f"{humanize_bytes(each.size_bytes)} on {format_nodes(each.nodes)}" for each in found
        ]
        yield f"{resource} {', '.join(texts) or 'nothing'}"


def _show_containers(screen: Screen, report: Report) -> None:
    rows = report.containers
    marked = {difference.container_id for difference in report.differences}
    screen.heading("Containers" if rows else "No containers")
    if rows:
        table = plain_table(gap=1)
        table.add_column("", width=1, no_wrap=True)
        table.add_column("pod", overflow="fold")
        table.add_column("container", overflow="fold")
        table.add_column("nodes", overflow="fold")
        for name in ("memory", "hugepages", "resident", "remote"):
            table.add_column(name, justify="right", no_wrap=True)
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
        table.add_row(Text(_MARK, "bold yellow"), Text(escape(_sentence(found, text))))
    screen.shown(table)


def _name(row: ContainerRow) -> str:
    return f"{row.title}/{row.name or row.container_id[:12]}"


def _sentence(names: Sequence[str], text: str) -> str:
    """Return the text, after the containers that it is about, if any."""
    if not names:
        return text
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}: {text}"
