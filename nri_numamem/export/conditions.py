"""Records about missing inputs: one when an input is missing for some time, one when it is back.

Short gaps are not recorded, such as a restart of the plugin, or a pod without a log directory yet.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from nri_numamem.engine.records.export import ExportInputMissing, ExportInputRestored
from nri_numamem.engine.records.record import Record

HOLD_S = 30.0
"""The time after which a missing input is recorded."""


class Input(StrEnum):
    """The inputs of the object."""

    OBJECT = "object"
    PLUGIN = "plugin"
    SETTINGS = "settings"
    HUGEPAGE_POOLS = "hugepage_pools"
    NODE_IDS = "node_ids"
    NODES_WITHOUT_CPUS = "nodes_without_cpus"
    RESERVED_CPUS = "reserved_cpus"
    EXCLUSIVE_CPUS = "exclusive_cpus"
    PODRESOURCES = "podresources"
    CGROUPS = "cgroups"
    CPU_QUOTAS = "cpu_quotas"
    POD_NAMES = "pod_names"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Problem:
    """An input that is missing, incomplete or cannot be read."""

    input: Input
    text: str
    """One line: what is missing, its effect, a remedy."""


class Conditions:
    """The inputs that are missing; times are monotonic."""

    def __init__(self) -> None:
        self._since_s: dict[Input, float] = {}
        self._recorded: set[Input] = set()

    def update(self, now_s: float, problems: Iterable[Problem]) -> Iterator[Record]:
        """Process all present problems; yield the records of changes."""
        present = {problem.input: problem.text for problem in problems}
        for missing in list(self._since_s):
            if missing not in present:
                del self._since_s[missing]
                if missing in self._recorded:
                    self._recorded.remove(missing)
                    yield ExportInputRestored(input=missing.value)
        for missing, text in present.items():
            since_s = self._since_s.setdefault(missing, now_s)
            if missing not in self._recorded and now_s - since_s >= HOLD_S:
                self._recorded.add(missing)
                yield ExportInputMissing(input=missing.value, cause=text)
