"""Texts for people: times, also for documents, durations, partitions, why a strategy decided."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.text import escape
from nri_numamem.engine.features.placement_strategy.records import ANNOTATION
from nri_numamem.numa import Exclusive, NodeSet, PartitionNodes, Strategy

# The last second of the year 9999.
_LAST_S = 253_402_300_799


def format_time(seconds: float) -> str:
    """Return a Unix time as ISO 8601 in UTC: "2026-01-31T12:00:00Z"."""
    return f"{_date(seconds):%Y-%m-%dT%H:%M:%SZ}"


def known_time(seconds: float | None) -> str | None:
    """Return format_time() of a Unix time; None if the time is unknown."""
    return None if seconds is None else format_time(seconds)


def time_text(seconds: float) -> str:
    """Return a Unix time for people: "2026-01-31 12:00:00 UTC"."""
    return f"{_date(seconds):%Y-%m-%d %H:%M:%S UTC}"


def _date(seconds: float) -> datetime:
    """Return the date of a Unix time; times outside of the years 1970 to 9999 become their ends."""
    return datetime.fromtimestamp(int(min(max(seconds, 0), _LAST_S)), UTC)


def duration(seconds: float) -> str:
    """Return a duration in its largest whole unit: "3 d", "4 h", "5 min", "6 s"."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


_ADVANTAGES: Mapping[str, str] = {
    Strategy.PACK: "least free memory",
    Strategy.SPREAD: "most free memory",
    Strategy.BALANCED_WITH_CPUS: "best balance of memory and CPU requests",
}
_SHOWN = 8


def strategy_text(strategy: str, source: str, equal: Sequence[NodeSet]) -> str:
    """Return the text for a placement; `source` is "annotation" or "setting"."""
    chooser = "the annotation" if source == ANNOTATION else "placementStrategy"
    who = f"{escape(strategy)}, by {chooser}"
    if not equal:
        return f"{who}; no other NUMA nodes were equally good"
    sets = listed([str(nodes) for nodes in equal], _SHOWN)
    return f"{who}: {_ADVANTAGES.get(strategy, 'first')} of the equal nodes {sets}"


def listed(names: Sequence[str], most: int) -> str:
    """Return "a, b and 3 more": at most some names, and how many there are beside them."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def partition_text(found: PartitionNodes) -> str:
    """Return "partition web: nodes 2-3, exclusive guaranteed", or why it is unusable."""
    partition = found.partition
    if found.problem:
        return f"partition {partition.name} is unusable: {found.problem}"
    more = "" if partition.exclusive is Exclusive.NONE else f", exclusive {partition.exclusive}"
    more += ", confine" if partition.confine else ""
    return f"partition {partition.name}: {format_nodes(found.nodes)}{more}"


def left_out_text(excluded: NodeSet) -> str:
    """Return what excluded nodes mean: "node 4: no container is placed there, because ..."."""
    why = "memoryNodes.withoutCpus is exclude"
    return f"{format_nodes(excluded)}: no container is placed there, because {why}"
