"""The reference of the setting `residency`."""

from nri_numamem.config.residency import (
    HEAD_ROOM,
    INTERVAL,
    INTERVAL_MOST_S,
    PER_CONTAINER,
    REMOTE_PERCENT,
    RESIDENCY,
)
from nri_numamem.config.setting import Setting
from nri_numamem.engine.features.residency.setting import OFF

RESIDENCY_SETTINGS = (
    Setting(
        f"{RESIDENCY}.{INTERVAL}",
        f"whole number, at most {INTERVAL_MOST_S}",
        str(OFF.interval_s),
        "The plugin reads in this time once where the pages of each managed container are, for "
        "metrics and alarms. With 0 it does not. See [residency.md](residency.md).",
    ),
    Setting(
        f"{RESIDENCY}.{REMOTE_PERCENT}",
        "whole number from 1 to 100",
        str(OFF.remote_percent),
        "The record `remote_memory_found` follows if more than this share of a container's memory, "
        "page cache excepted, is on NUMA nodes other than its own in two rounds.",
    ),
    Setting(
        f"{RESIDENCY}.{HEAD_ROOM}",
        "amount, or percentage of the nodes' memory",
        "",
        "The record `head_room_low` follows if less than this would be available on NUMA nodes "
        "after their containers allocated all that is assigned to them. When unset, there is no "
        "such record.",
    ),
    Setting(
        f"{RESIDENCY}.{PER_CONTAINER}",
        "true or false",
        "false",
        "With `true` the metrics have one series per container, NUMA node and kind of page.",
    ),
)
