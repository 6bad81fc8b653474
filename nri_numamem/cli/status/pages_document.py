"""The resident memory of containers as one object for programs; docs/residency.md documents it."""

from nri_numamem.cli.render.times import format_time
from nri_numamem.cli.status.pages import PageReport, PageRow
from nri_numamem.numa.pages import summed

DOCUMENT_VERSION = 1


def pages_document(report: PageReport) -> dict[str, object]:
    """Return the report; amounts are bytes, node sets lists of ids."""
    return {
        "version": DOCUMENT_VERSION,
        "time": format_time(report.facts.now_s),
        "containers": [_container(row) for row in report.rows],
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


def _container(row: PageRow) -> dict[str, object]:
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
