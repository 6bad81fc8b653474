"""What records add to a result: misalignment, memory policies, strategies, and CPUs.

A scenario's kernel and runtime support all policies, so that only its settings decide.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nri_numamem.engine.core.events import MEMORY_POLICY, Container, PodSandbox, PolicyRequest
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
from nri_numamem.engine.records.common import Hints
from nri_numamem.engine.records.containers import Misaligned, Placed
from nri_numamem.engine.records.pods import PodAdmitted
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Rejection
from nri_numamem.memorymanager.rejection import Explanation
from nri_numamem.numa import MemoryPolicies, NodeSet


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What became of a memory policy that was chosen for a container."""

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


@dataclass(slots=True)
class Found:
    """What the records of a step show, by container name."""

    misaligned: dict[str, Hints] = field(default_factory=dict)
    memory_policies: dict[str, tuple[PolicyResult, ...]] = field(default_factory=dict)
    strategies: dict[str, StrategyResult] = field(default_factory=dict)
    cpus: dict[str, CpusResult] = field(default_factory=dict)

    def add(self, container: Container, records: Iterable[Record]) -> None:
        """Add the records of an event of this container."""
        made = tuple(records)
        self.misaligned.update(misaligned(container.name, made))
        self.memory_policies.update(policy_results(container.name, made))
        strategy = strategy_result(made)
        if strategy is not None:
            self.strategies[container.name] = strategy
        for record in made:
            if not isinstance(record, CpusSet | CpusNotSet):
                continue
            if record.names.container_id == container.container_id:
                cpus = str(record.cpus) if isinstance(record, CpusSet) else ""
                self.cpus[container.name] = CpusResult(cpus, record.cause)


def strategy_result(records: Iterable[Record]) -> StrategyResult | None:
    """Return what the record of a placement says of the strategy; None without one."""
    for record in records:
        if isinstance(record, Placed | PodAdmitted) and record.strategy_source:
            return StrategyResult(record.strategy, record.strategy_source, record.equal_nodes)
    return None


def policy_request(
    policies: MemoryPolicies, sandbox: PodSandbox, container: str
) -> PolicyRequest | None:
    """Return the request for the policy of a container; None if nothing chooses one."""
    text = sandbox.annotation(MEMORY_POLICY, container)
    return PolicyRequest(text) if text or policies.is_active else None


def policy_results(name: str, records: Iterable[Record]) -> dict[str, tuple[PolicyResult, ...]]:
    """Return container name -> its policies, in the order of their choice; empty without any."""
    found = []
    for record in records:
        if isinstance(record, MemoryPolicySet):
            chosen, nodes = record.chosen, str(record.nodes)
            found.append(PolicyResult(chosen.policy, chosen.source, nodes))
        elif isinstance(record, MemoryPolicyIgnored):
            chosen = record.chosen
            found.append(PolicyResult(chosen.policy, chosen.source, cause=record.cause))
    return {name: tuple(found)} if found else {}


def policy_rejection(records: Iterable[Record]) -> Rejection | None:
    """Return the rejection of a container whose policy cannot be set."""
    found = next((each for each in records if isinstance(each, MemoryPolicyRejected)), None)
    if found is None:
        return None
    choice = PolicyChoice(found.chosen.policy, found.chosen.source)
    text = problem_text(choice, found.cause)
    return Rejection(REASON, lambda: Explanation(text))


def misaligned(name: str, records: Iterable[Record]) -> Mapping[str, Hints]:
    """Return container name -> CPUs and devices away from its memory, if a record has them."""
    found = [each.misaligned for each in records if isinstance(each, Misaligned)]
    return {name: found[-1]} if found else {}
