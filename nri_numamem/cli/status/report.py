"""What ``status`` shows, as values and as a document: nodes, containers, differences.

docs/status.md describes the document. New keys may come in any release; a key that goes, or changes
its meaning, raises the version.
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from operator import add

from nri_numamem.cli.live.facts import Cgroup, Facts
from nri_numamem.cli.live.outside import users_document
from nri_numamem.cli.output import DOCUMENT_VERSION
from nri_numamem.cli.render.texts import format_time, known_time
from nri_numamem.memorymanager.largest import Largest
from nri_numamem.numa import NodeSet, PartitionNodes
from nri_numamem.version import VERSION


@dataclass(frozen=True, slots=True)
class Amounts:
    """One resource on one node, in bytes. The parts add up to the total."""

    total: int
    system_reserved: int = 0
    pools: int = 0
    """Of memory: what the hugepage pools take."""
    outside: int = 0
    """Of hugepages: free in the accounting, but used outside of pods."""
    assigned: int = 0
    """Assigned to running containers."""
    held: int = 0
    """Kept for the next containers of the pods of ended containers, and for pods as a whole."""
    free: int = 0
    """What the next container can get."""

    def plus(self, other: "Amounts") -> "Amounts":
        """Return the sums."""
        return Amounts(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Cpus:
    """The CPUs of a node, in millicores."""

    requested: int
    """By the containers on the node."""
    usable: int
    """For containers."""


@dataclass(frozen=True, slots=True)
class Node:
    """One NUMA node that the plugin uses."""

    node_id: int
    group: NodeSet
    """The nodes with which it shares assignments, itself included."""
    is_assigned: bool
    node_class: str
    use: str
    amounts: Mapping[str, Amounts]
    """Resource name -> amounts, `memory` first."""
    cpus: Cpus | None = None
    """None where CPU requests do not count."""


def sums_of(nodes: Iterable[Node]) -> dict[str, Amounts]:
    """Return resource name -> the sums over some nodes."""
    sums: dict[str, Amounts] = {}
    for node in nodes:
        for name, amounts in node.amounts.items():
            sums[name] = sums.get(name, Amounts(0)).plus(amounts)
    return sums


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition (`partitions`), and what its pods can get."""

    found: PartitionNodes
    amounts: Mapping[str, Amounts]
    """Resource name -> sums over the nodes, `memory` first."""
    one_node: Mapping[str, Largest]
    several_nodes: Mapping[str, Largest]
    """As in the report, for the pods of the partition."""


class Condition(StrEnum):
    """The kind of a row in the table of containers."""

    RUNNING = "running"
    ENDED = "ended"
    """Ended; its memory is kept for the next containers of its pod."""
    RESERVED = "reserved"
    """Not a container: kept for the containers of a pod (topologyManagerScope pod)."""
    UNPINNED = "unpinned"
    """Runs in a Guaranteed pod without an assignment."""


@dataclass(frozen=True, slots=True)
class ContainerRow:
    """A container with an assignment, or one that should have one."""

    uid: str
    namespace: str
    pod: str
    """"" if the name is unknown."""
    name: str
    container_id: str
    condition: Condition
    nodes: NodeSet
    """The assigned ones; for an unpinned container its `cpuset.mems`, usually none."""
    amounts: Mapping[str, int]
    """Resource name -> bytes."""
    cgroup: Cgroup | None = None
    """Of a running container; None if unknown."""
    since_s: int = 0
    """Unix time of its placement, or since when it is unpinned; 0 if unknown."""
    reason: str = ""
    """Why it runs unpinned."""

    @property
    def title(self) -> str:
        """Return "namespace/pod", or the uid of a pod without a known name."""
        return f"{self.namespace}/{self.pod}" if self.pod else self.uid

    @property
    def private_bytes(self) -> int | None:
        """Return the bytes of anonymous and hugetlb pages; None if unknown."""
        known = self.cgroup is not None and self.cgroup.pages
        return sum(known.private.values()) if known else None

    @property
    def file_bytes(self) -> int | None:
        """Return the bytes of page cache and tmpfs; None if unknown."""
        return None if self.cgroup is None else self.cgroup.file_bytes

    @property
    def remote_bytes(self) -> int | None:
        """Return the part of `private_bytes` on other nodes; None if unknown, or without nodes."""
        known = self.cgroup is not None and self.cgroup.pages
        if not known or not self.nodes:
            return None
        return sum(size for node, size in known.private.items() if node not in self.nodes)


def is_notable(remote_bytes: int, own_bytes: int) -> bool:
    """Return whether more of a container's memory is remote than the noise of the counters.

    The kernel batches them, and a program's start touches pages anywhere.
    """
    return remote_bytes >= 2 << 20 and remote_bytes >= own_bytes * 0.01


class Kind(StrEnum):
    """A kind of difference between accounting, cgroups and kernel; stable between releases."""

    NOT_RUNNING = "not_running"
    CPUSET_MEMS_UNSET = "cpuset_mems_unset"
    CPUSET_MEMS_DIFFERS = "cpuset_mems_differs"
    CPUSET_MEMS_NOT_EFFECTIVE = "cpuset_mems_not_effective"
    REMOTE_MEMORY = "remote_memory"
    MISALIGNED = "misaligned"
    UNPINNED = "unpinned"
    NODE_MISSING = "node_missing"
    OVERCOMMITTED = "overcommitted"
    NON_POD_HUGEPAGES = "non_pod_hugepages"
    NON_POD_MEMORY = "non_pod_memory"
    HEAD_ROOM_LOW = "head_room_low"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between accounting, cgroups and kernel."""

    kind: Kind
    text: str
    """What differs, and what that means."""
    container_id: str = ""
    """"" if it is about a node."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that `status` shows."""

    facts: Facts
    nodes: tuple[Node, ...] = ()
    one_node: Mapping[str, Largest] = field(default_factory=dict)
    """Resource name -> the largest request that fits now on one node."""
    several_nodes: Mapping[str, Largest] = field(default_factory=dict)
    """Resource name -> the same on several nodes; empty if the policy allows one only."""
    containers: tuple[ContainerRow, ...] = ()
    differences: tuple[Difference, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    """Those of the setting, and the rest; empty without the setting."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read."""
        facts = self.facts
        of_files = (facts.plugin_problem, facts.state_problem)
        return tuple(filter(None, (*of_files, facts.machine_problem, facts.cgroup_problem)))


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
