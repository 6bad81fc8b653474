"""The setting `earmarks`: room can be set aside for pods."""

from dataclasses import dataclass

from nri_numamem.config.setting import BOOLEAN, Group, Setting, integer

MAX_PERCENT = 50


@dataclass(frozen=True, slots=True)
class EarmarkSettings:
    """Whether room can be set aside, and how much of the host."""

    enabled: bool = False
    max_percent: int = MAX_PERCENT
    """Of the host's allocatable memory, and of its hugepages of each size."""


_KEYS = (
    Setting(
        "enabled",
        "enabled",
        BOOLEAN,
        "With `true`, `nri-numamem earmark` can set room aside on NUMA nodes for a pod, or for "
        "pods with some labels. No other pod gets that room. [rebalancing.md](rebalancing.md) "
        "describes earmarks.",
    ),
    Setting(
        "maxPercent",
        "max_percent",
        integer(1, 100),
        "How much of the host's allocatable memory can be set aside at once, and how much of its "
        "hugepages of each size.",
        is_shown=lambda earmarks: earmarks.enabled or earmarks.max_percent != MAX_PERCENT,
    ),
)

EARMARKS = Group("earmarks", _KEYS, "earmarks", EarmarkSettings)
