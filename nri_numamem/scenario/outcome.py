"""The result of a step, and its form in the output of ``simulate --output json``."""

from collections.abc import Mapping
from dataclasses import dataclass

from nri_numamem.engine.plan import RecordValue
from nri_numamem.memorymanager import Hint, HintMap, Rejection, State
from nri_numamem.scenario.steps import Hints, Step


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step. Results that a kind of step does not have are None."""

    step: Step
    accounting: State
    """After the step."""
    rejection: Rejection | None = None
    cpuset_mems: Mapping[str, str | None] | None = None
    """Container name -> list for the runtime; None for a container without nodes. With a rejection:
    of the containers before the refused one."""
    unpinned: Mapping[str, Rejection] | None = None
    """Containers that run without nodes because nothing fits (whenUnsatisfiable: RunUnpinned)."""
    hints: HintMap | None = None
    """None also for "no preference at all"."""
    hint: Hint | None = None
    admits: bool | None = None

    @property
    def document(self) -> dict[str, RecordValue]:
        """The outcome as `simulate --output json` prints it."""
        if self.rejection is not None:
            error: RecordValue = {
                "reason": self.rejection.reason,
                "message": self.rejection.message,
            }
            document: dict[str, RecordValue] = {"ok": False, "error": error}
            if self.cpuset_mems:
                document["cpusetMems"] = dict(self.cpuset_mems)
            return document
        document = {"ok": True}
        if self.cpuset_mems is not None:
            document["cpusetMems"] = dict(self.cpuset_mems)
        if isinstance(self.step, Hints):
            document["hints"] = _hints_document(self.hints)
        if self.hint is not None:
            document |= {"hint": _hint_document(self.hint), "admit": self.admits}
        return document


def _hints_document(hints: HintMap | None) -> RecordValue:
    if hints is None:
        return None
    return {resource: [_hint_document(h) for h in found] for resource, found in hints.items()}


def _hint_document(hint: Hint) -> RecordValue:
    affinity: RecordValue = None if hint.affinity is None else list(hint.affinity)
    return {"affinity": affinity, "preferred": hint.preferred}
