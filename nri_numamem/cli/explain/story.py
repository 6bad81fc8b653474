"""What the entries of a pod mean: outcomes, refusals, the time without a plugin."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nri_numamem.cli.decisions.names import Key, Names, names_of
from nri_numamem.cli.decisions.outcomes import Outcome, Refusals, outcome_of, refusals_of
from nri_numamem.cli.explain.assigned import Assigned
from nri_numamem.cli.explain.decision import Advice, advice_of
from nri_numamem.cli.explain.select import Query, by_container, of_pod
from nri_numamem.engine.features.partitions.records import Confined
from nri_numamem.engine.records import connection, containers, process
from nri_numamem.engine.records.machine import Machine
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.history.records import Recorded

_AWAY: Mapping[type[Record], str] = {
    process.Stopped: "the plugin stopped",
    connection.Disconnected: "the runtime closed the connection",
    connection.ConnectionClosedByPlugin: "the plugin closed the connection",
    process.RestartingAfterCrash: "the plugin crashed",
    process.RestartingAfterDisconnect: "the runtime closed the connection",
    Machine: "the plugin started",
}
"""Events after which the plugin places nothing until the next `synchronized`."""


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
    decisions: Sequence[Recorded]
    """The last ones, newest first."""
    refusals: Refusals | None
    """How often the last decision was made in a row; None if it placed the container."""
    later: Sequence[Recorded]
    """Events after the last decision, also of the pod."""
    advice: Advice
    siblings: Sequence[Recorded]
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
    """Whether a plugin's process runs now, connected or not."""
    found: Collection[Names] = ()
    """All containers in the history that the query means."""
    assigned: Sequence[Assigned] = ()
    """Containers that are placed, although their decision is not in the history."""

    @property
    def decided(self) -> frozenset[Key]:
        """Return the containers whose last decision is known."""
        known = (each for each in self.containers if each.outcome is not Outcome.UNKNOWN)
        return frozenset(each.names.key for each in known)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces of the pods that the query means."""
        names = (*self.found, *(each.names for each in self.assigned))
        return tuple(sorted({each.namespace for each in names if each.namespace}))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is known of what the query means."""
        return not (self.containers or self.assigned)


def story_of(
    query: Query,
    entries: Sequence[Recorded],
    last: int,
    *,
    skipped_lines: int = 0,
    is_running: bool = True,
) -> Story:
    """Return what the history has of a query, with the last decisions on each container."""
    found = by_container(entries, query)
    newest: dict[str, float] = {}
    for (uid, _), group in found.items():
        newest[uid] = max(newest.get(uid, 0.0), *(entry.time_s for entry in group))
    uids = sorted(newest, key=lambda uid: (-newest[uid], uid))
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
        skipped_lines=skipped_lines,
        away=_away(entries)[-5:],
        suggestion="" if found else query.suggestion(entries),
        is_running=is_running,
        found=tuple(names_of(group[-1]) for group in found.values()),
    )


def _container(
    key: Key, entries: Sequence[Recorded], everything: Sequence[Recorded], last: int
) -> ContainerStory:
    decisions = [entry for entry in entries if outcome_of(entry) is not None]
    newest = decisions[-1] if decisions else None
    is_confined = any(isinstance(entry.record, Confined) for entry in entries)
    undecided = Outcome.NOT_MANAGED if is_confined else Outcome.UNKNOWN
    outcome = (newest and outcome_of(newest)) or undecided
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
        refusals=refusals_of(decisions, outcome),
        later=later,
        advice=advice_of(names, newest, siblings),
        siblings=siblings,
    )


def _siblings(entries: Iterable[Recorded]) -> tuple[Recorded, ...]:
    """Return the last entry of each container of a pod that was not managed."""
    last = {
        names_of(entry).container: entry
        for entry in entries
        if isinstance(entry.record, containers.NotManaged)
    }
    return tuple(last.values())


def _away(entries: Iterable[Recorded]) -> list[Away]:
    """Return the times without a plugin, oldest first."""
    found: list[Away] = []
    begun: tuple[float, str] | None = None
    last_s: float | None = None
    for entry in entries:
        record = entry.record
        if isinstance(record, connection.Synchronized):
            if begun is not None:
                found.append(Away(begun[0], entry.time_s, begun[1]))
            begun = None
        elif type(record) in _AWAY and begun is None:
            # A start without an end before it follows a crash after the last entry.
            is_start = isinstance(record, Machine)
            since_s = entry.time_s if last_s is None or not is_start else last_s
            cause = "the plugin ended without a record" if is_start else _AWAY[type(record)]
            # The process that is started after a crash measures how long ago that was.
            if isinstance(record, process.RestartingAfterCrash | process.RestartingAfterDisconnect):
                since_s -= record.away_ms / 1000
            begun = (since_s, _AWAY[Machine] if is_start and last_s is None else cause)
        last_s = entry.time_s
    if begun is not None:
        found.append(Away(begun[0], None, begun[1]))
    return found
