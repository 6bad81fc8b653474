"""The report of ``status`` as a document for ``--output json``.

docs/status.md describes it. New keys may come in any release; a key that goes, or changes its
meaning, raises the version.
"""

from nri_numamem.cli.decisions.unplaced import Unplaced
from nri_numamem.cli.live.earmarks import earmarks_document
from nri_numamem.cli.live.outside import users_document
from nri_numamem.cli.output import DOCUMENT_VERSION
from nri_numamem.cli.render.texts import format_time, known_time
from nri_numamem.cli.status.claims import claims_document
from nri_numamem.cli.status.report import Amounts, ContainerRow, Node, PartitionRow, Report
from nri_numamem.memorymanager.largest import Largest
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
            "changed": known_time(facts.changed_s),
        },
        "nodes": [_node(node) for node in report.nodes],
        "largestRequest": _largest_requests(report),
        "partitions": [_partition(row) for row in report.partitions],
        "containers": [_container(row) for row in report.containers],
        "claims": claims_document(facts.state),
        "earmarks": earmarks_document(facts.state),
        "refused": [_refused(each) for each in report.refused],
        "notManagedPods": dict(facts.other_pods),
        "hugepageUsers": users["processes"],
        "hugepageFiles": users["files"],
        "differences": [
            {"kind": each.kind.value, "containerId": each.container_id or None, "text": each.text}
            for each in report.differences
        ],
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
        "ended": None if plugin is None else known_time(plugin.ended_s),
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
        "connectionChanged": known_time(plugin.connection_changed_s),
    }


def _node(node: Node) -> dict[str, object]:
    return {
        "id": node.node_id,
        "class": node.node_class,
        "use": node.use,
        "group": list(node.group),
        "assigned": node.is_assigned,
        "resources": {name: _amounts(amounts) for name, amounts in node.amounts.items()},
        "cpus": None
        if node.cpus is None
        else {"requestedMillicores": node.cpus.requested, "usableMillicores": node.cpus.usable},
    }


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


def _partition(row: PartitionRow) -> dict[str, object]:
    partition = row.found.partition
    return {
        "name": partition.name,
        "nodes": list(row.found.nodes),
        "exclusive": partition.exclusive.value,
        "confine": partition.confine,
        "problem": row.found.problem or None,
        "resources": {name: _amounts(amounts) for name, amounts in row.amounts.items()},
        "largestRequest": _largest_requests(row),
    }


def _largest_requests(found: Report | PartitionRow) -> dict[str, object]:
    return {
        resource: {
            "oneNode": _largest(largest),
            "severalNodes": _largest(found.several_nodes.get(resource)),
        }
        for resource, largest in found.one_node.items()
    }


def _largest(largest: Largest | None) -> dict[str, object] | None:
    if largest is None:
        return None
    return {"bytes": largest.size_bytes, "nodes": list(largest.nodes)}


def _refused(found: Unplaced) -> dict[str, object]:
    names, refusals = found.names.document(), found.refusals.document()
    return {**names, **refusals, "requestBytes": dict(found.request)}


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
        "since": known_time(row.since_s or None),
        "reason": row.reason or None,
    }
