"""The reports as one object for programs; docs/status.md and docs/residency.md document them.

New keys may come in any release; a key that goes, or changes its meaning, raises the version.
"""

from nri_numamem.cli.live.outside import users_document
from nri_numamem.cli.output import DOCUMENT_VERSION
from nri_numamem.cli.render.texts import format_time
from nri_numamem.cli.status.pages import PageReport, PageRow
from nri_numamem.cli.status.report import Amounts, ContainerRow, Cpus, Difference, Node, Report
from nri_numamem.memorymanager.largest import Largest
from nri_numamem.numa.pages import summed
from nri_numamem.version import VERSION


def report_document(report: Report) -> dict[str, object]:
    """Return the report; amounts are bytes, node sets lists of ids, times ISO 8601 in UTC."""
    facts = report.facts
    users = users_document(facts.hugepage_users)
    return {
        "version": DOCUMENT_VERSION,
        "time": format_time(facts.now_s),
        "plugin": _plugin(report),
        "runtime": _runtime(report),
        "policy": {
            "memoryManagerPolicy": facts.settings.memory_manager_policy,
            "topologyManagerPolicy": facts.settings.topology_manager_policy,
            "topologyManagerScope": facts.settings.topology_manager_scope,
            "whenUnsatisfiable": facts.settings.when_unsatisfiable,
            "origin": facts.settings_origin,
        },
        "state": {
            "path": facts.state_file or None,
            "changed": None if facts.changed_s is None else format_time(facts.changed_s),
        },
        "nodes": [_node(node) for node in report.nodes],
        "largestRequest": {
            resource: {
                "oneNode": _largest(largest),
                "severalNodes": _largest(report.several_nodes.get(resource)),
            }
            for resource, largest in report.one_node.items()
        },
        "containers": [_container(row) for row in report.containers],
        "notManagedPods": dict(facts.other_pods),
        "hugepageUsers": users["processes"],
        "hugepageFiles": users["files"],
        "differences": [_difference(difference) for difference in report.differences],
        "problems": list(report.problems),
    }


def _plugin(report: Report) -> dict[str, object]:
    holder, plugin = report.facts.holder, report.facts.plugin
    return {
        "running": None if not report.facts.state_file else holder is not None,
        "pid": None if holder is None else holder.pid,
        "since": None if holder is None else holder.since or None,
        "startedAs": None if holder is None else holder.started_as or None,
        "version": None if plugin is None else plugin.version,
        "mode": None if plugin is None else plugin.mode.value,
        "ended": None if plugin is None else _time(plugin.ended_s),
        "commandVersion": VERSION,
    }


def _runtime(report: Report) -> dict[str, object] | None:
    plugin = report.facts.plugin
    if plugin is None or plugin.runtime is None:
        return None
    return {
        "name": plugin.runtime.name,
        "version": plugin.runtime.version,
        "nriVersion": plugin.runtime.nri_version,
        "connected": plugin.is_connected and report.facts.holder is not None,
        "connectionChanged": _time(plugin.connection_changed_s),
    }


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else format_time(seconds)


def _node(node: Node) -> dict[str, object]:
    return {
        "id": node.node_id,
        "class": node.node_class,
        "use": node.use,
        "group": list(node.group),
        "assigned": node.is_assigned,
        "resources": {name: _amounts(amounts) for name, amounts in node.amounts.items()},
        "cpus": None if node.cpus is None else _cpus(node.cpus),
    }


def _cpus(cpus: Cpus) -> dict[str, int]:
    return {"requestedMillicores": cpus.requested, "usableMillicores": cpus.usable}


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {
        "total": amounts.total,
        "systemReserved": amounts.system_reserved,
        "hugepagePools": amounts.pools,
        "usedOutsideOfPods": amounts.outside,
        "assigned": amounts.assigned,
        "keptForPods": amounts.held,
        "free": amounts.free,
    }


def _largest(largest: Largest | None) -> dict[str, object] | None:
    if largest is None:
        return None
    return {"bytes": largest.size_bytes, "nodes": list(largest.nodes)}


def _container(row: ContainerRow) -> dict[str, object]:
    return {
        "podUid": row.uid,
        "namespace": row.namespace or None,
        "pod": row.pod or None,
        "container": row.name or None,
        "containerId": row.container_id,
        "condition": row.condition.value,
        "nodes": list(row.nodes),
        "resources": dict(row.amounts),
        "privateBytes": row.private_bytes,
        "fileBytes": row.file_bytes,
        "remoteBytes": row.remote_bytes,
        "since": format_time(row.since_s) if row.since_s else None,
        "reason": row.reason or None,
    }


def _difference(difference: Difference) -> dict[str, object]:
    return {
        "kind": difference.kind.value,
        "containerId": difference.container_id or None,
        "text": difference.text,
    }


def pages_document(report: PageReport) -> dict[str, object]:
    """Return the report; amounts are bytes, node sets lists of ids."""
    return {
        "version": DOCUMENT_VERSION,
        "time": format_time(report.facts.now_s),
        "containers": [_page_row(row) for row in report.rows],
        "nodes": [
            {
                "id": node,
                "bytes": amounts.own,
                "remoteBytes": amounts.remote,
                "cacheBytes": amounts.cache,
                "availableBytes": amounts.available,
                "unfaultedBytes": amounts.unfaulted,
            }
            for node, amounts in report.nodes.items()
        ],
        "short": [
            {"nodes": list(nodes), "bytes": size_bytes}
            for nodes, size_bytes in report.short.items()
        ],
        "problems": list(report.problems),
    }


def _page_row(row: PageRow) -> dict[str, object]:
    pages = row.cgroup.pages
    return {
        "podUid": row.uid,
        "pod": row.title,
        "container": row.name or None,
        "containerId": row.container_id,
        "assigned": row.is_assigned,
        "nodes": list(row.nodes),
        "cpusetMems": list(row.cgroup.mems),
        "effectiveMems": list(row.cgroup.effective_mems),
        "pages": None if pages is None else _pages(row),
        "remoteBytes": row.remote_bytes,
    }


def _pages(row: PageRow) -> list[dict[str, int]]:
    """Return the bytes per NUMA node and kind, of nodes with pages."""
    pages = row.pages
    sums = summed((pages.own, pages.cache))
    return [
        {
            "node": node,
            "anonymous": pages.anonymous.get(node, 0),
            "shared": pages.shared.get(node, 0),
            "hugetlb": pages.hugetlb.get(node, 0),
            "cache": pages.cache.get(node, 0),
        }
        for node, size_bytes in sums.items()
        if size_bytes
    ]
