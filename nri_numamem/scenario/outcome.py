"""The result of a step, and its form in the output of ``simulate --output json``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nri_numamem.engine.core.fields import remedy_shown
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.records.common import Hints
from nri_numamem.engine.records.plain import plain
from nri_numamem.memorymanager import Rejection, State
from nri_numamem.memorymanager.remedy import Remedy
from nri_numamem.scenario.container_records import CpusResult, PolicyResult, StrategyResult
from nri_numamem.scenario.steps import Step


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
    of the containers that were created all the same."""
    misaligned: Mapping[str, Hints] = field(default_factory=dict)
    """Container name -> its CPUs and devices that have no node in common with its memory."""
    memory_policies: Mapping[str, tuple[PolicyResult, ...]] = field(default_factory=dict)
    """Container name -> the memory policies that were chosen for it; the last one may be set."""
    strategies: Mapping[str, StrategyResult] = field(default_factory=dict)
    """Container name -> the placement strategy, as in the record of its placement."""
    pod_strategy: StrategyResult | None = None
    """The same of the pod, in pod scope."""
    cpus: Mapping[str, CpusResult] = field(default_factory=dict)
    """Container name -> the CPUs beside its memory, if CPUs follow memory."""
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
        if self.rejection is not None:
            return self._document_of_rejection(self.rejection)
        document: dict[str, RecordValue] = {"ok": True}
        if self.cpuset_mems is not None:
            document["cpusetMems"] = dict(self.cpuset_mems)
        return document | self._document_of_containers()

    def _document_of_rejection(self, rejection: Rejection) -> dict[str, RecordValue]:
        document: dict[str, RecordValue] = {"ok": False, "error": error_document(rejection)}
        if self.refused:
            refused = {name: error_document(each) for name, each in self.refused.items()}
            document["refused"] = dict(refused)
        if self.cpuset_mems:
            document["cpusetMems"] = dict(self.cpuset_mems)
        return document | self._document_of_containers()

    def _document_of_containers(self) -> dict[str, RecordValue]:
        document: dict[str, RecordValue] = {}
        if self.misaligned:
            document["misaligned"] = {name: plain(hints) for name, hints in self.misaligned.items()}
        if self.memory_policies:
            results = self.memory_policies.items()
            document["memoryPolicies"] = {
                name: [each.document for each in found] for name, found in results
            }
        if self.pod_strategy is not None:
            document["podPlacementStrategy"] = self.pod_strategy.document
        if self.strategies:
            found = {name: each.document for name, each in self.strategies.items()}
            document["placementStrategies"] = dict(found)
        if self.cpus:
            document["cpus"] = {name: each.document for name, each in self.cpus.items()}
        return document


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
