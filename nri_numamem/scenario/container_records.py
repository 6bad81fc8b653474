"""What records add to a result: misalignment, memory policies, strategies, and CPUs.

A scenario's kernel and runtime support all policies, so that only its settings decide.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nri_numamem.engine.core.events import MEMORY_POLICY, Container, PodSandbox, PolicyRequest
from nri_numamem.engine.core.fields import Fields
from nri_numamem.engine.core.plan import Record, RecordValue
from nri_numamem.engine.features.memory_policies.records import REASON, PolicyChoice, problem_text
from nri_numamem.engine.records.events import EventName
from nri_numamem.memorymanager import Rejection
from nri_numamem.memorymanager.rejection import Explanation
from nri_numamem.numa import MemoryPolicies

_CPUS = (EventName.CPUS_SET, EventName.CPUS_NOT_SET)
_STRATEGY = ("strategy", "strategy_source", "equal_nodes")


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


@dataclass(slots=True)
class Found:
    """What the records of a step show, by container name."""

    misaligned: dict[str, RecordValue] = field(default_factory=dict)
    memory_policies: dict[str, tuple[PolicyResult, ...]] = field(default_factory=dict)
    strategies: dict[str, Fields] = field(default_factory=dict)
    cpus: dict[str, CpusResult] = field(default_factory=dict)

    def add(self, container: Container, records: Iterable[Record]) -> None:
        """Add the records of an event of this container."""
        made = tuple(records)
        self.misaligned.update(misaligned(container.name, made))
        self.memory_policies.update(policy_results(container.name, made))
        strategy = strategy_fields(made)
        if strategy is not None:
            self.strategies[container.name] = strategy
        for record in made:
            if record.event in _CPUS and record.fields["container_id"] == container.container_id:
                texts = (str(record.fields.get(key, "")) for key in ("cpus", "cause"))
                self.cpus[container.name] = CpusResult(*texts)


def strategy_fields(records: Iterable[Record]) -> Fields | None:
    """Return what the record of a placement says of the strategy; None without one.

    A record of an ignored annotation has a strategy too, but no source.
    """
    for record in records:
        if "strategy_source" in record.fields:
            return {key: record.fields[key] for key in _STRATEGY if key in record.fields}
    return None


def strategy_document(fields: Mapping[str, RecordValue]) -> dict[str, RecordValue]:
    """Return a strategy as `simulate --output json` prints it."""
    return {
        "strategy": fields["strategy"],
        "source": fields["strategy_source"],
        "equalNodes": fields.get("equal_nodes", []),
    }


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
        if record.event in (EventName.MEMORY_POLICY_SET, EventName.MEMORY_POLICY_IGNORED):
            keys = ("policy", "source", "nodes", "cause")
            found.append(PolicyResult(*(str(record.fields.get(key, "")) for key in keys)))
    return {name: tuple(found)} if found else {}


def policy_rejection(records: Iterable[Record]) -> Rejection | None:
    """Return the rejection of a container whose policy cannot be set."""
    found = [r.fields for r in records if r.event is EventName.MEMORY_POLICY_REJECTED]
    if not found:
        return None
    choice = PolicyChoice(str(found[0]["policy"]), str(found[0]["source"]))
    text = problem_text(choice, str(found[0]["cause"]))
    return Rejection(REASON, lambda: Explanation(text))


def misaligned(name: str, records: Iterable[Record]) -> Mapping[str, RecordValue]:
    """Return container name -> CPUs and devices away from its memory, if a record has them."""
    found = [r.fields["misaligned"] for r in records if r.event is EventName.MISALIGNED]
    return {name: found[-1]} if found else {}
