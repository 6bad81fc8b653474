"""What ``status`` shows, as values: nodes, containers, differences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nri_numamem.cli.live.facts import Facts
from nri_numamem.memorymanager.largest import Largest
from nri_numamem.numa import NodeSet


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
        return Amounts(
            self.total + other.total,
            self.system_reserved + other.system_reserved,
            self.pools + other.pools,
            self.outside + other.outside,
            self.assigned + other.assigned,
            self.held + other.held,
            self.free + other.free,
        )


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


class Condition(StrEnum):
    """What a row of the containers is."""

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
    """Assigned; for an unpinned container those of its cgroup, usually none."""
    amounts: Mapping[str, int]
    """Resource name -> bytes."""
    private_bytes: int | None = None
    """Anonymous and hugetlb pages; None if unknown."""
    file_bytes: int | None = None
    """Page cache and tmpfs; None if unknown."""
    remote_bytes: int | None = None
    """Those of `private_bytes` that are on other nodes; None if unknown, or without nodes."""
    since_s: int = 0
    """Unix time of its placement, or since when it is unpinned; 0 if unknown."""
    reason: str = ""
    """Why it runs unpinned."""

    @property
    def title(self) -> str:
        """Return "namespace/pod", or the uid of a pod without a known name."""
        return f"{self.namespace}/{self.pod}" if self.pod else self.uid


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
    """Something that accounting, cgroups and kernel show differently."""

    kind: Kind
    text: str
    """What, and what it means."""
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

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read."""
        facts = self.facts
        found = (
            facts.plugin_problem,
            facts.state_problem,
            facts.machine_problem,
            facts.cgroup_problem,
        )
        return tuple(problem for problem in found if problem)
