"""What leaves the engine: a plan for the reply, and records that say why.

A plan knows no message type; ``nri_numamem.nri.adjust`` turns it into one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from nri_numamem.values import valueclass


class HugepageRoute(StrEnum):
    """How hugepage limits reach the container's cgroup."""

    LIMITS = "limits"
    """NRI hugepage limits: the runtime honours them (it showed the container's own)."""
    UNIFIED = "unified"
    """`unified` keys of cgroup v2: works where the runtime drops hugepage limits silently."""


@valueclass(frozen=True, slots=True)
class Adjustment:
    """What the container being created shall get."""

    cpuset_mems: str = ""
    """Kernel list format; "" sets nothing."""
    hugepage_limits: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> limit in bytes."""
    hugepage_route: HugepageRoute = HugepageRoute.UNIFIED


@valueclass(frozen=True, slots=True)
class Update:
    """What another, existing container shall get."""

    container_id: str
    cpuset_mems: str


RecordValue: TypeAlias = "str | int | bool | Mapping[str, RecordValue] | list[RecordValue] | None"


@valueclass(frozen=True, slots=True)
class Record:
    """Why the engine did what it did: log line, metric labels and explanation in one value."""

    event: str
    """What happened, in the log's words: "admitted", "rejected", "left alone", ..."""
    level: str = "info"
    """debug, info, warning or error."""
    fields: Mapping[str, RecordValue] = field(default_factory=dict)


def flattened(told: Iterable[Record | Sequence[Record]]) -> list[Record]:
    """Return records that were told one by one or together, in their order."""
    return [r for one in told for r in ((one,) if isinstance(one, Record) else one)]


@valueclass(frozen=True, slots=True)
class Plan:
    """The answer to one event. The empty plan is the neutral reply."""

    adjustment: Adjustment | None = None
    updates: tuple[Update, ...] = ()
    refusal: str | None = None
    """Only for CreateContainer and UpdateContainer: the text that the pod's owner will read."""
    records: Sequence[Record] = ()
    """Why; for the time after the reply, when they may only be made."""

    @property
    def is_neutral(self) -> bool:
        """Tell whether the reply neither gives nor refuses anything."""
        return self.adjustment is None and not self.updates and self.refusal is None
