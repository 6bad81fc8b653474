"""What leaves the engine: a plan for the reply, and the records that explain a decision.

A plan has no message types; ``nri_numamem.nri.encode`` turns it into one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from nri_numamem.numa import MemoryPolicy


class HugepageRoute(StrEnum):
    """How hugepage limits reach the container's cgroup."""

    LIMITS = "limits"
    """NRI hugepage limits: the runtime honours them (it showed the container's own)."""
    UNIFIED = "unified"
    """`unified` keys of cgroup v2: works where the runtime drops hugepage limits silently."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What the container being created shall get."""

    cpuset_mems: str = ""
    """Kernel list format; "" sets nothing."""
    hugepage_limits: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> limit in bytes."""
    hugepage_route: HugepageRoute = HugepageRoute.UNIFIED
    cpuset_cpus: str = ""
    """Kernel list format; "" sets nothing."""
    memory_policy: MemoryPolicy | None = None
    """None sets nothing."""
    oom_score_adj: int | None = None
    """None sets nothing."""
    memory_limit_bytes: int | None = None
    """None sets nothing."""


@dataclass(frozen=True, slots=True)
class Update:
    """What another, existing container shall get."""

    container_id: str
    cpuset_mems: str
    """Kernel list format, as `cpuset_cpus`; "" sets nothing."""
    cpuset_cpus: str = ""


RecordValue: TypeAlias = "str | int | bool | Mapping[str, RecordValue] | list[RecordValue] | None"


@dataclass(frozen=True, slots=True)
class Plan:
    """The contents of the reply to one event. An empty plan makes an empty reply."""

    adjustment: Adjustment | None = None
    updates: tuple[Update, ...] = ()
    refusal: str | None = None
    """Only for CreateContainer and UpdateContainer: the error text of the reply."""

    @property
    def is_noop(self) -> bool:
        """Return whether the reply changes and refuses nothing."""
        return self.adjustment is None and not self.updates and self.refusal is None
