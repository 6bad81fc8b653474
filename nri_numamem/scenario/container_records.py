"""What the records of a container's creation add to a result: misalignment, and memory policies.

A scenario's kernel and runtime support all policies, so that only its settings decide.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nri_numamem.engine.events import MEMORY_POLICY, PodSandbox, PolicyRequest
from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.records.memory_policies import REASON, PolicyChoice, problem_text
from nri_numamem.memorymanager import Rejection
from nri_numamem.memorymanager.rejection import Explanation
from nri_numamem.numa import MemoryPolicies


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
