"""What the entries of a pod mean: outcomes, refusals, the time without a plugin."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from nri_numamem.cli.explain.advice import Advice, advice_of
from nri_numamem.cli.explain.select import Key, Names, Query, by_container, names_of, of_pod
from nri_numamem.observe.history.lines import Entry
from nri_numamem.observe.history.reader import History


class Outcome(StrEnum):
    """What became of a container."""

    PLACED = "placed"
    REFUSED = "refused"
    UNPINNED = "unpinned"
    """It runs unpinned although its pod is Guaranteed, or could be pinned as if it were."""
    NOT_MANAGED = "not_managed"
    UNKNOWN = "unknown"
    """The history has events of it, but no decision."""


_OUTCOMES: Mapping[str, Outcome] = {
    "admitted": Outcome.PLACED,
    "adopted": Outcome.PLACED,
    "pinned_while_running": Outcome.PLACED,
    "resized": Outcome.PLACED,
    "resize_rejected": Outcome.PLACED,
    "pod_admitted": Outcome.PLACED,
    "pod_adopted": Outcome.PLACED,
    "rejected": Outcome.REFUSED,
    "pod_rejected": Outcome.REFUSED,
    "unpinned_no_capacity": Outcome.UNPINNED,
    "running_unpinned_no_capacity": Outcome.UNPINNED,
    "not_managed": Outcome.NOT_MANAGED,
    "memory_policy_rejected": Outcome.REFUSED,
    "burstable_not_pinned": Outcome.UNPINNED,
    "burstable_unpinned": Outcome.UNPINNED,
}
"""Event -> outcome of its container."""

_BY_FIELD = ("unreported_container_found", "cpuset_mems_missing")
"""Events whose field `outcome` decides."""

_AWAY = {
    "stopped": "the plugin stopped",
    "disconnected": "the runtime closed the connection",
    "connection_closed_by_plugin": "the plugin closed the connection",
    "restarting_after_crash": "the plugin crashed",
    "restarting_after_disconnect": "the runtime closed the connection",
    "machine": "the plugin started",
}
"""Events after which the plugin places nothing until the next `synchronized`."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """How often the last decision was made in a row."""

    count: int
    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class Away:
    """A time without a plugin; `until_s` is None if it lasts."""

    since_s: float
    until_s: float | None
    cause: str


@dataclass(frozen=True, slots=True)
class ContainerStory:
    """What the history has of one container, or of a pod as a whole."""

    names: Names
    outcome: Outcome
    decisions: Sequence[Entry]
    """The last ones, newest first."""
    refusals: Refusals | None
    """Of the last decision, if it is a refusal, or leaves a container alone or unpinned."""
    later: Sequence[Entry]
    """Events after the last decision, also of the pod."""
    advice: Advice
    siblings: Sequence[Entry]
    """If it was not managed: the last such decision on each container of its pod."""


@dataclass(frozen=True, slots=True)
class Story:
    """What the history has of a query."""

    query: Query
    containers: Sequence[ContainerStory]
    """Of the newest pod with the name; empty if the history does not have it."""
    earlier_uids: Sequence[str]
    """Other pods with the name, newest first."""
    begins_s: float | None
    """When the history begins; None if it is empty."""
    ends_s: float | None
    """When its last entry was written; None if it is empty."""
    skipped_lines: int
    away: Sequence[Away]
    """The last times without a plugin, oldest first."""
    suggestion: str
    is_running: bool
    """Whether a plugin runs now."""


def story_of(query: Query, history: History, last: int, *, is_running: bool = True) -> Story:
    """Return what the history has of a query, with the last decisions on each container."""
    entries = history.entries
    found = by_container(entries, query)
    newest = {uid: max(e.time_s for e in group) for uid, group in _by_uid(found)}
    uids = sorted(newest, key=lambda uid: -newest[uid])
    containers = [
        _container(key, group, entries, last) for key, group in found.items() if key[0] == uids[0]
    ]
    # The pod as a whole is shown only if there is nothing else, or if it was placed as a whole.
    shown = [c for c in containers if c.names.container or c.decisions]
    return Story(
        query=query,
        containers=shown or containers,
        earlier_uids=uids[1:],
        begins_s=entries[0].time_s if entries else None,
        ends_s=entries[-1].time_s if entries else None,
        skipped_lines=history.skipped_lines,
        away=_away(entries)[-5:],
        suggestion="" if found else query.suggestion(entries),
        is_running=is_running,
    )


def outcome_of(entry: Entry) -> Outcome | None:
    """Return the outcome that an entry decides; None if it decides none."""
    if entry.event in ("request_timed_out", "internal_error"):
        is_unpinned = entry.fields.get("qos_class") == "Guaranteed"
        return Outcome.UNPINNED if is_unpinned else None
    if entry.event in _BY_FIELD:
        outcome = entry.fields.get("outcome")
        if outcome == "unpinned":
            return Outcome.UNPINNED
        is_found = entry.event == "unreported_container_found"
        return Outcome.PLACED if is_found else None
    return _OUTCOMES.get(entry.event)


def repeats(entry: Entry) -> int:
    """Return how many decisions an entry stands for."""
    count = entry.fields.get("repeat_count")
    return 1 + count if type(count) is int and count > 0 else 1


def _by_uid(found: Mapping[Key, list[Entry]]) -> Iterable[tuple[str, list[Entry]]]:
    for uid, group in groupby(sorted(found), key=lambda key: key[0]):
        yield uid, [entry for key in group for entry in found[key]]


def _container(
    key: Key, entries: Sequence[Entry], everything: Sequence[Entry], last: int
) -> ContainerStory:
    decisions = [entry for entry in entries if outcome_of(entry) is not None]
    newest = decisions[-1] if decisions else None
    outcome = (newest and outcome_of(newest)) or Outcome.UNKNOWN
    of_its_pod = list(of_pod(everything, key[0]))
    after_s = newest.time_s if newest is not None else 0.0
    later = [
        entry
        for entry in of_its_pod
        if entry is not newest
        and entry.time_s >= after_s
        and outcome_of(entry) is None
        and names_of(entry).container in ("", key[1])
    ]
    siblings = _siblings(of_its_pod) if outcome is Outcome.NOT_MANAGED else ()
    names = names_of(newest or entries[-1])
    return ContainerStory(
        names=names,
        outcome=outcome,
        decisions=tuple(reversed(decisions[-last:])),
        refusals=_refusals(decisions, outcome),
        later=later,
        advice=advice_of(names, newest, siblings),
        siblings=siblings,
    )


def _refusals(decisions: Sequence[Entry], outcome: Outcome) -> Refusals | None:
    """Return how often in a row the last decision was made."""
    if not decisions or outcome in (Outcome.PLACED, Outcome.UNKNOWN):
        return None
    row: list[Entry] = []
    for entry in reversed(decisions):
        if outcome_of(entry) is not outcome:
            break
        row.append(entry)
    return Refusals(sum(map(repeats, row)), row[-1].time_s, row[0].time_s)


def _siblings(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the last entry of each container of a pod that was not managed."""
    last = {names_of(entry).container: entry for entry in entries if entry.event == "not_managed"}
    return tuple(last.values())


def _away(entries: Iterable[Entry]) -> list[Away]:
    """Return the times without a plugin, oldest first."""
    found: list[Away] = []
    begun: tuple[float, str] | None = None
    last_s: float | None = None
    for entry in entries:
        if entry.event == "synchronized":
            if begun is not None:
                found.append(Away(begun[0], entry.time_s, begun[1]))
            begun = None
        elif entry.event in _AWAY and begun is None:
            # A start without an end before it follows a crash after the last entry.
            is_start = entry.event == "machine"
            since_s = entry.time_s if last_s is None or not is_start else last_s
            cause = "the plugin ended without a record" if is_start else _AWAY[entry.event]
            # The process that is started after a crash measures how long ago that was.
            away_ms = entry.fields.get("away_ms")
            since_s -= away_ms / 1000 if isinstance(away_ms, int) else 0.0
            begun = (since_s, _AWAY["machine"] if is_start and last_s is None else cause)
        last_s = entry.time_s
    if begun is not None:
        found.append(Away(begun[0], None, begun[1]))
    return found
