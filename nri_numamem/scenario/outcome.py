"""The result of a step, and its form in the output of ``simulate --output json``.

A scenario's kernel and runtime support all memory policies, so only its settings decide.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nri_numamem.engine.core.events import Container
from nri_numamem.engine.core.fields import remedy_shown
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.features.cpu_following.records import CpusNotSet, CpusSet
from nri_numamem.engine.features.memory_policies.records import (
    REASON,
    MemoryPolicyIgnored,
    MemoryPolicyRejected,
    MemoryPolicySet,
    PolicyChoice,
    problem_text,
)
from nri_numamem.engine.features.partitions.records import Confined
from nri_numamem.engine.records.common import Hints
from nri_numamem.engine.records.containers import Misaligned, Placed
from nri_numamem.engine.records.plain import plain
from nri_numamem.engine.records.pods import PodAdmitted
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Rejection, State
from nri_numamem.memorymanager.rejection import Explanation
from nri_numamem.memorymanager.remedy import Remedy
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.steps import Step


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """A memory policy that was chosen for a container: its nodes, or why it was not set."""

    policy: str
    """The mode as written."""
    source: str
    """Who chose it: "annotation" or "default"."""
    nodes: str = ""
    """Its nodes; "" for the mode `local`, and if it was not set."""
    cause: str = ""
    """Why it was not set; "" if it was."""

    @property
    def document(self) -> dict[str, RecordValue]:
        """The result as `simulate --output json` prints it."""
        document: dict[str, RecordValue] = {"policy": self.policy, "source": self.source}
        return document | ({"cause": self.cause} if self.cause else {"nodes": self.nodes})


@dataclass(frozen=True, slots=True)
class CpusResult:
    """The CPUs beside a container's memory, with the setting `cpuFollowsMemory`."""

    cpus: str = ""
    """Its new `cpuset.cpus`; "" if it was not set."""
    cause: str = ""
    """Why it was not set, or why these CPUs may not suffice."""

    @property
    def document(self) -> dict[str, RecordValue]:
        """The result as `simulate --output json` prints it."""
        document: dict[str, RecordValue] = {"cpus": self.cpus} if self.cpus else {}
        return document | ({"cause": self.cause} if self.cause else {})


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """The placement strategy of a container or pod."""

    strategy: str
    source: str
    """Who chose it: "annotation" or "setting"."""
    equal_nodes: tuple[NodeSet, ...] = ()
    """The sets among which it decided."""

    @property
    def document(self) -> dict[str, RecordValue]:
        """The result as `simulate --output json` prints it."""
        equal: list[RecordValue] = [str(nodes) for nodes in self.equal_nodes]
        return {"strategy": self.strategy, "source": self.source, "equalNodes": equal}


@dataclass(frozen=True, slots=True)
class ConfinedResult:
    """The nodes that a container got by the setting `partitions`, without an assignment."""

    partition: str
    nodes: NodeSet

    @property
    def document(self) -> dict[str, RecordValue]:
        """The result as `simulate --output json` prints it."""
        return {"partition": self.partition, "nodes": str(self.nodes)}


@dataclass(slots=True)
class Found:
    """What the records of a step show, by container name."""

    misaligned: dict[str, Hints] = field(default_factory=dict)
    """CPUs and devices that have no node in common with the container's memory."""
    memory_policies: dict[str, tuple[PolicyResult, ...]] = field(default_factory=dict)
    """The memory policies that were chosen for it, in this order; the last one may be set."""
    strategies: dict[str, StrategyResult] = field(default_factory=dict)
    cpus: dict[str, CpusResult] = field(default_factory=dict)
    """The CPUs beside its memory, if CPUs follow memory."""
    confined: dict[str, ConfinedResult] = field(default_factory=dict)

    def add(self, container: Container, records: Sequence[Record]) -> None:
        """Add the records of an event of this container."""
        name, policies = container.name, list[PolicyResult]()
        strategy = strategy_result(records)
        if strategy is not None:
            self.strategies[name] = strategy
        for record in records:
            match record:
                case Misaligned():
                    self.misaligned[name] = record.misaligned
                case MemoryPolicySet(chosen=chosen):
                    policies.append(PolicyResult(chosen.policy, chosen.source, str(record.nodes)))
                case MemoryPolicyIgnored(chosen=chosen, cause=cause):
                    policies.append(PolicyResult(chosen.policy, chosen.source, cause=cause))
                case Confined():
                    self.confined[name] = ConfinedResult(record.partition, record.nodes)
                case CpusSet() | CpusNotSet():
                    if record.names.container_id == container.container_id:
                        cpus = str(record.cpus) if isinstance(record, CpusSet) else ""
                        self.cpus[name] = CpusResult(cpus, record.cause)
                case _:
                    pass
        if policies:
            self.memory_policies[name] = tuple(policies)


def strategy_result(records: Iterable[Record]) -> StrategyResult | None:
    """Return the strategy in the record of a placement; None without one."""
    for record in records:
        if isinstance(record, Placed | PodAdmitted) and record.strategy_source:
            return StrategyResult(record.strategy, record.strategy_source, record.equal_nodes)
    return None


def policy_rejection(records: Iterable[Record]) -> Rejection | None:
    """Return the rejection of a container whose policy cannot be set."""
    found = next((each for each in records if isinstance(each, MemoryPolicyRejected)), None)
    if found is None:
        return None
    text = problem_text(PolicyChoice(found.chosen.policy, found.chosen.source), found.cause)
    return Rejection(REASON, lambda: Explanation(text))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step. Results that a kind of step does not have are None."""

    step: Step
    accounting: State
    """After the step."""
    rejection: Rejection | None = None
    """The first one."""
    refused: Mapping[str, Rejection] = field(default_factory=dict)
    """Containers of an admitted pod that were not created; the kubelet retries them."""
    cpuset_mems: Mapping[str, str | None] | None = None
    """Container name -> list for the runtime; None for a container without nodes. With a rejection:
    of the containers that were created."""
    found: Found = field(default_factory=Found)
    pod_strategy: StrategyResult | None = None
    """The placement strategy of the pod, in pod scope."""
    retried: Mapping[str, "Outcome"] | None = None
    """Pod uid -> result of the retry of its refused containers."""
    unpinned: Mapping[str, Rejection] | None = None
    """Containers that run without nodes because nothing fits (whenUnsatisfiable: RunUnpinned)."""

    @property
    def document(self) -> dict[str, RecordValue]:
        """The outcome as `simulate --output json` prints it."""
        if self.retried is not None:
            pods: RecordValue = {uid: each.document for uid, each in self.retried.items()}
            return {"ok": not any(each.rejection for each in self.retried.values()), "pods": pods}
        document: dict[str, RecordValue] = {"ok": self.rejection is None}
        if self.rejection is not None:
            document["error"] = error_document(self.rejection)
            if self.refused:
                refused = {name: error_document(each) for name, each in self.refused.items()}
                document["refused"] = dict(refused)
        if self.cpuset_mems or (self.cpuset_mems is not None and self.rejection is None):
            document["cpusetMems"] = dict(self.cpuset_mems)
        return document | self._document_of_containers()

    def _document_of_containers(self) -> dict[str, RecordValue]:
        found, pod = self.found, self.pod_strategy
        parts: dict[str, RecordValue] = {
            "misaligned": {name: plain(hints) for name, hints in found.misaligned.items()},
            "memoryPolicies": {
                name: [each.document for each in results]
                for name, results in found.memory_policies.items()
            },
            "podPlacementStrategy": None if pod is None else pod.document,
            "placementStrategies": {name: each.document for name, each in found.strategies.items()},
            "cpus": {name: each.document for name, each in found.cpus.items()},
            "confined": {name: each.document for name, each in found.confined.items()},
        }
        return {key: part for key, part in parts.items() if part}


def error_document(rejection: Rejection, remedies: Sequence[Remedy] = ()) -> dict[str, RecordValue]:
    """Return a rejection: its text, why each NUMA node was passed over, and what helps.

    `remedies` replace those of the rejection.
    """
    nodes: list[RecordValue] = [
        {
            "node": each.node_id,
            "freeBytes": {name: table.free for name, table in each.tables.items()},
            "rule": each.reason.rule.value,
            "reason": each.reason.text,
        }
        for each in rejection.explanation.per_node
    ]
    return {
        "reason": rejection.reason,
        "message": rejection.message,
        "nodes": nodes,
        "remedies": [plain(remedy_shown(each)) for each in remedies or rejection.remedies],
    }
