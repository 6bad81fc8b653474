"""The setting `residency`: whether the plugin watches where the pages of containers are."""

import re

from nri_numamem.config.setting import BOOLEAN, Group, Kind, Setting, integer
from nri_numamem.config.values import SettingsError, SettingsPath, read_quantity, show
from nri_numamem.engine.features.residency.setting import HeadRoomLimit, Residency

INTERVAL_MOST_S = 3600
_PERCENTAGE = re.compile(r"([1-9]\d?)%", re.ASCII)


def _read_limit(path: SettingsPath, value: object) -> HeadRoomLimit:
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        return HeadRoomLimit(percent=int(match[1]))
    try:
        size_bytes = read_quantity(path, value)
    except SettingsError:
        size_bytes = 0
    if size_bytes <= 0:
        remedy = "write an amount such as 2Gi, or a percentage from 1% to 99%"
        raise SettingsError(path, f"{show(value)} is no limit", remedy)
    return HeadRoomLimit(size_bytes=size_bytes)


def _write_limit(limit: HeadRoomLimit | None) -> str | None:
    if limit is None:
        return None
    return f"{limit.percent}%" if limit.percent else str(limit.size_bytes)


def _check(path: SettingsPath, found: Residency) -> None:
    for key, is_set in (
        ("headRoom", found.head_room),
        ("perContainerMetrics", found.per_container),
    ):
        if is_set and not found.interval_s:
            remedy = "set residency.intervalSeconds, such as 60"
            raise SettingsError((*path, key), "no effect without intervalSeconds", remedy)


_KEYS = (
    Setting(
        "intervalSeconds",
        "interval_s",
        integer(0, INTERVAL_MOST_S, f", at most {INTERVAL_MOST_S}"),
        "The plugin reads in this time once where the pages of each managed container are, for "
        "metrics and alarms. With 0 it does not. See [residency.md](residency.md).",
    ),
    Setting(
        "perContainerMetrics",
        "per_container",
        BOOLEAN,
        "With `true` the metrics have one series per container, NUMA node and kind of page.",
    ),
    Setting(
        "remotePercent",
        "remote_percent",
        integer(1, 100),
        "The record `remote_memory_found` follows if more than this share of a container's memory, "
        "page cache excepted, is on NUMA nodes other than its own in two rounds.",
    ),
    Setting(
        "headRoom",
        "head_room",
        Kind("amount, or percentage of the nodes' memory", _read_limit, _write_limit),
        "The record `head_room_low` follows if less than this would be available on NUMA nodes "
        "after their containers allocated all that is assigned to them. When unset, there is no "
        "such record.",
    ),
)

RESIDENCY = Group("residency", _KEYS, "residency", Residency, _check)
