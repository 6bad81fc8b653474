"""What ``status`` shows, as values: nodes, partitions, containers, differences."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from operator import add

from nri_numamem.cli.decisions.unplaced import Unplaced
from nri_numamem.cli.live.facts import Cgroup, Facts
from nri_numamem.memorymanager.largest import Largest
from nri_numamem.numa import NodeSet, PartitionNodes


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
    refused: tuple[Unplaced, ...] = ()
    """The containers whose last decision is a refusal, of pods that may still exist."""
    history_problem: str = ""

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read."""
        facts = self.facts
        of_files = (facts.plugin_problem, facts.state_problem, self.history_problem)
        return tuple(filter(None, (*of_files, facts.machine_problem, facts.cgroup_problem)))
