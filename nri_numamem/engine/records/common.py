"""Fields that records of several events have: their types, units and meanings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated

from nri_numamem.engine.records.record import Amounts, Flat, Later, Record
from nri_numamem.memorymanager import Hint
from nri_numamem.numa import NodeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNames(Flat):
    """The fields that name a pod."""

    pod: Annotated[str, "name of the pod"]
    namespace: Annotated[str, "namespace of the pod"]
    pod_uid: Annotated[str, "UID of the pod"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerNames(Flat):
    """The fields that name a container; without those of a pod that is not known."""

    pod: Annotated[str | None, "name of the pod"] = None
    namespace: Annotated[str | None, "namespace of the pod"] = None
    container: Annotated[str, "name of the container"]
    pod_uid: Annotated[str, "UID of the pod"]
    container_id: Annotated[str, "the runtime's ID of the container"]


def names_of(value: Flat) -> ContainerNames | PodNames | None:
    """Return the names of the container or pod that a record is about; None if it is about none."""
    for each in fields(value):
        part = getattr(value, each.name)
        if isinstance(part, ContainerNames | PodNames):
            return part
        found = names_of(part) if isinstance(part, Flat) else None
        if found is not None:
            return found
    return None


WARNED_BEFORE = "it is not the first record of this event for the pod"
"""A condition of the level debug (``daemon.record_path``)."""

UNPINNED = "unpinned"
"""The outcome of a container that runs without NUMA nodes of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node set that a decision considered."""

    nodes: NodeSet
    rule: str
    """A value of ``node_reasons.Rule``."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Hints by provider; of providers without hints nothing is written."""

    memory: tuple[Hint, ...] | None = None
    cpu: NodeSet | None = None
    devices: tuple[NodeSet, ...] = ()
    network: Mapping[str, NodeSet] = field(default_factory=dict)
    """Name of an interface -> its nodes; empty if they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustmentShown:
    """What a reply sets."""

    cpuset_mems: NodeSet
    hugepage_limits_bytes: Amounts = field(default_factory=dict)
    hugepage_route: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesShown(Flat):
    """Where the memory of a container is."""

    resident_bytes: Annotated[
        Mapping[int, int], "memory of the container by NUMA node, without page cache"
    ]
    remote_bytes: Annotated[
        Mapping[int, int],
        "of these, bytes on NUMA nodes other than those of the allocation state",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyShown:
    """A remedy, with the parameters that its kind has."""

    kind: str
    text: str
    nodes: NodeSet = field(default_factory=NodeSet)
    bytes: Amounts = field(default_factory=dict)
    setting: str = ""
    values: tuple[str, ...] = ()
    pods: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderShown:
    """A container that holds what a refused request lacks; texts are empty if unknown."""

    namespace: str
    pod: str
    container: str
    pod_uid: str
    nodes: NodeSet
    held_bytes: Amounts


RequestBytes = Annotated[Amounts, "requested bytes by resource"]
ProviderHints = Annotated[
    Hints,
    "topology hints by provider: memory (of the candidates), cpu, devices, network (by interface)",
]
Candidates = Annotated[
    tuple[Candidate, ...], "node sets that were considered (at most 8), each with a rule, see below"
]
OmittedCandidates = Annotated[int, "number of further node sets"]
FreeBytes = Annotated[
    Mapping[int, Amounts],
    "free bytes by NUMA node and resource after the decision, of the nodes that it concerns",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered(Flat):
    """The node sets that a decision considered, by provider and with the rule for each."""

    hints: ProviderHints
    candidates: Candidates
    omitted_candidates: OmittedCandidates = 0
    free_bytes: FreeBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Record):
    """A decision on the nodes of a container, or of a pod as a whole."""

    names: ContainerNames | PodNames
    request_bytes: RequestBytes
    considered: Later[Considered]

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The first node sets that were considered."""
        return self.considered.value.candidates

    @property
    def free_bytes(self) -> Mapping[int, Amounts]:
        """The free bytes after the decision: node id -> resource -> bytes."""
        return self.considered.value.free_bytes


MergedHint = Annotated[Hint, "topology hint that results from those of all providers"]
Nodes = Annotated[NodeSet, "NUMA nodes in the kernel's list format"]
AdjustmentValue = Annotated[
    AdjustmentShown, "what the plugin sets: cpuset_mems, hugepage limits and their route"
]
HugepageSource = Annotated[str, "where the hugepage request was read: container, unified or pod"]
PartitionName = Annotated[
    str, "name of the pod's partition; `default` for the pods that are in none of the setting's"
]
EvenNodes = Annotated[
    int, "how many nodes the annotation `interleave:N` requests; each has an equal part"
]
SharesPodMemory = Annotated[
    bool,
    "true if it shares the pod's limit (pod-level resources): the request is what the pod's other"
    " containers leave of it",
]
ExtendedContainerIds = Annotated[
    tuple[str, ...], "containers that share memory with it and get its NUMA nodes too"
]
ReleasedBytes = Annotated[
    Amounts,
    "bytes by resource that ended containers held beyond the pod's limit, and that are free now",
]
Strategy = Annotated[str, "the placement strategy; absent for lowest-ids"]
StrategySource = Annotated[str, "`annotation` of the pod, or `setting` placementStrategy"]
EqualNodes = Annotated[
    tuple[NodeSet, ...],
    "the NUMA nodes or groups that were equally good, among which the strategy decided",
]
ShortfallBytes = Annotated[
    Amounts, "bytes by resource that exceed what is allocatable on the NUMA nodes"
]
SetAside = Annotated[tuple[str, ...], "room on NUMA nodes that is set aside for other pods"]
ExcludedNodes = Annotated[NodeSet, "those of the NUMA nodes that are excluded (memoryNodes)"]
UsedOutsideOfPodsBytes = Annotated[
    Mapping[int, Amounts],
    "requested hugepages that are free in the allocation state and used outside of pods: bytes by"
    " NUMA node and resource, without zeros",
]
Policy = Annotated[str, "Topology Manager policy"]
Reason = Annotated[str, "the kubelet's reason: TopologyAffinityError or UnexpectedAdmissionError"]
Message = Annotated[str, "why each NUMA node was passed over"]
Remedies = Annotated[
    tuple[RemedyShown, ...],
    "what makes the request fit, the best first; each was tried: kind, text, and NUMA nodes, "
    "bytes by resource, or a setting with its values",
]
Holders = Annotated[
    tuple[HolderShown, ...],
    "the largest holders of the requested resources (at most 16): names, NUMA nodes and bytes",
]
PodRequestBytes = Annotated[
    Amounts,
    "request of the pod as a whole, which the candidates are for (topologyManagerScope: pod)",
]
RefusalId = Annotated[
    str,
    "request of the container's first refusal for this reason, if this is a retry; the text of "
    "every retry has it",
]
RepeatCount = Annotated[
    int,
    "only in the history, and of resizes: records of the same contents since the one before, "
    "which were left out; the intervals grow up to 1 hour",
]
Cause = Annotated[str, "why"]
Remedy = Annotated[str, "what to do"]
PreviousMemoryBytes = Annotated[int | None, "memory limit before the resize"]
PreviousNodes = Annotated[NodeSet, "NUMA nodes before the resize"]
Error = Annotated[str, "text of the error"]
Traceback = Annotated[str, "traceback"]
WasRegistered = Annotated[bool, "whether the runtime had accepted the registration"]
PathOfFile = Annotated[str, "path of the file"]
