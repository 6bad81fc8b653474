"""What ``status --pages`` shows, as values and as a document: resident memory per NUMA node.

It shows the containers of the accounting, or those of a pod that the user names, which may be of
any QoS class. docs/residency.md describes the document.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.cli.live.facts import Cgroup, Facts, containers_of_other_pods, pod_names
from nri_numamem.cli.output import DOCUMENT_VERSION
from nri_numamem.cli.render.texts import format_time
from nri_numamem.cli.status.report import Report, is_notable
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.residency.head_room import head_rooms, unfaulted_bytes
from nri_numamem.host import pod_logs
from nri_numamem.host.pod_cgroups import other_pods
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.memorymanager import nodes_of
from nri_numamem.memorymanager.holder import container_name
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages, summed


@dataclass(frozen=True, slots=True)
class PageRow:
    """The resident memory of one container."""

    uid: str
    title: str
    """NAMESPACE/POD; the uid of a pod without a known name."""
    name: str
    """"" if it is unknown, as for containers that are not managed."""
    container_id: str
    nodes: NodeSet
    """The nodes of its assignment; without one its `cpuset.mems`, empty if that is unset."""
    is_assigned: bool
    cgroup: Cgroup

    @property
    def pages(self) -> Pages:
        """Return its pages; none if they are unknown."""
        return self.cgroup.pages or Pages()

    @property
    def remote_bytes(self) -> int | None:
        """Return the bytes on other nodes, without page cache; None if unknown or without nodes."""
        if self.cgroup.pages is None or not self.nodes:
            return None
        return sum(self.pages.remote(self.nodes).values())

    @property
    def is_notable(self) -> bool:
        """Return whether more is remote than the noise of the counters."""
        return is_notable(self.remote_bytes or 0, sum(self.pages.own.values()))


@dataclass(frozen=True, slots=True)
class NodePages:
    """One NUMA node, in bytes."""

    own: int
    """Of the containers that are shown, without page cache."""
    remote: int
    """Of these, memory of containers with other nodes."""
    cache: int
    available: int | None
    """Free or reclaimable in the kernel; None if unknown."""
    unfaulted: int
    """Assigned to containers that have not used it yet."""


@dataclass(frozen=True, slots=True)
class PageReport:
    """Everything that `status --pages` shows."""

    facts: Facts
    rows: tuple[PageRow, ...]
    nodes: Mapping[int, NodePages]
    short: Mapping[NodeSet, int]
    """Group of nodes -> bytes that its containers may allocate beyond what is available."""
    problems: tuple[str, ...]
    query: str
    """The pod that the user named; "" for all containers of the accounting."""


def page_report(report: Report, roots: HostRoots, query: str, logs: Path) -> PageReport:
    """Return the pages of the containers of a report, or of one pod."""
    facts, problems = report.facts, report.problems
    names = {} if facts.state is None else pod_names(facts.state)
    found = list((facts.cgroups or {}).values())
    if query:
        try:
            names = {**pod_logs.pod_names(logs), **names}
            uids = frozenset(each for each in other_pods(roots.cgroup) if _is(query, each, names))
            found = [each for each in found if _is(query, each.pod_uid, names)]
            found += containers_of_other_pods(roots.cgroup, uids)
        except MachineError as error:
            problems = (*problems, str(error))
    rows = sorted(
        (_row(facts.state, each, names) for each in found),
        key=lambda row: (row.title, row.name, row.container_id),
    )
    if not query:
        rows = [row for row in rows if row.is_assigned]
    unfaulted, short = _unfaulted(facts)
    return PageReport(facts, tuple(rows), _nodes(facts, rows, unfaulted), short, problems, query)


def _is(query: str, uid: str, names: Mapping[str, tuple[str, str]]) -> bool:
    """Return whether POD, NAMESPACE/POD or a uid means this pod."""
    namespace, name = names.get(uid, ("", ""))
    return query in (uid, name, f"{namespace}/{name}")


def _row(
    state: EngineState | None, cgroup: Cgroup, names: Mapping[str, tuple[str, str]]
) -> PageRow:
    holder = None if state is None else state.holder(cgroup.container_id)
    blocks = () if state is None or holder is None else state.blocks(holder.key) or ()
    reason = None if state is None else state.reasons.unpinned.get(cgroup.container_id)
    known = holder or reason
    return PageRow(
        uid=cgroup.pod_uid,
        title="/".join(names.get(cgroup.pod_uid, (cgroup.pod_uid,))),
        name="" if known is None else container_name(known.key[1]),
        container_id=cgroup.container_id,
        nodes=nodes_of(blocks) if blocks else cgroup.mems,
        is_assigned=bool(blocks),
        cgroup=cgroup,
    )


def _unfaulted(facts: Facts) -> tuple[Mapping[int, int], Mapping[NodeSet, int]]:
    """Return node -> unfaulted bytes, and group -> bytes beyond what is available."""
    if facts.state is None or facts.cgroups is None:
        return {}, {}
    resident = facts.resident_bytes
    rooms = head_rooms(facts.state, resident, facts.available_bytes)
    short = {room.nodes: -room.most_bytes for room in rooms if room.most_bytes < 0}
    return unfaulted_bytes(facts.state, resident), short


def _nodes(
    facts: Facts, rows: Iterable[PageRow], unfaulted: Mapping[int, int]
) -> dict[int, NodePages]:
    """Return the sums of each node about which something is known."""
    own = summed(row.pages.own for row in rows)
    remote = summed(row.pages.remote(row.nodes) for row in rows if row.nodes)
    cache = summed(row.pages.cache for row in rows)
    known = summed((own, cache, facts.available_bytes, unfaulted))
    return {
        node: NodePages(
            own.get(node, 0),
            remote.get(node, 0),
            cache.get(node, 0),
            facts.available_bytes.get(node),
            unfaulted.get(node, 0),
        )
        for node in known
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
