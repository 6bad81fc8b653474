"""Events of pods from the history: containers that are refused, and that run unpinned."""

from collections.abc import Iterator
from pathlib import Path

from nri_numamem.cli.decisions.names import Names, names_of
from nri_numamem.cli.decisions.outcomes import Outcome, cause_of, outcome_of, repeats
from nri_numamem.cli.render.texts import format_time
from nri_numamem.engine.records.containers import Rejected, Unplaced, content_of
from nri_numamem.engine.records.pods import PodRejected
from nri_numamem.engine.records.record import Record
from nri_numamem.export.podevents import PodEvent
from nri_numamem.observe.history.records import Recorded, read_records
from nri_numamem.observe.history.tail import HistoryTail

_REASONS = {
    Outcome.REFUSED: ("NUMAMemoryRejected", "is refused"),
    Outcome.UNPINNED: ("NUMAMemoryUnpinned", "runs on all NUMA nodes"),
}


class PodEvents:
    """Reads the history of a plugin, whose state file may be another one after a restart."""

    def __init__(self) -> None:
        self._state_file: Path | None = None
        self._tail: HistoryTail | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read last; they change with each decision."""
        return () if self._tail is None else self._tail.paths

    def read(self, state_file: Path | None) -> tuple[PodEvent, ...]:
        """Return the Events of the decisions since the last reading; raises OSError."""
        if state_file is None:
            return ()
        if self._tail is None or state_file != self._state_file:
            self._state_file, self._tail = state_file, HistoryTail(state_file)
        entries, _ = read_records(self._tail.read())
        return tuple(pod_events(entries))


def pod_events(entries: tuple[Recorded, ...]) -> Iterator[PodEvent]:
    """Yield the Events of decisions, in their order."""
    for entry in entries:
        outcome = outcome_of(entry)
        names = names_of(entry)
        if outcome not in _REASONS or not (names.namespace and names.pod and names.pod_uid):
            continue
        reason, state = _REASONS[outcome]
        yield PodEvent(
            names.namespace,
            names.pod,
            names.pod_uid,
            f"{names.container}/{_decision(entry)}",
            reason,
            _message(entry.record, names, state),
            format_time(entry.time_s),
            entry.time_s,
            count=repeats(entry),
        )


def _decision(entry: Recorded) -> str:
    """Return what the retries of a container have in common."""
    if isinstance(entry.record, Rejected) and entry.record.refusal_id:
        return entry.record.refusal_id
    return entry.entry.event


def _message(record: Record, names: Names, state: str) -> str:
    """Return what happened, the command that shows all of it, and why: the end may be cut."""
    what = f"container {names.container}" if names.container else "the pod"
    more = f"nri-numamem explain {names.full_pod}"
    return f"{what} {state}; on its host `{more}` shows all: {_why(record)}"


def _why(record: Record) -> str:
    content = content_of(record)
    return content.message if isinstance(content, Unplaced | PodRejected) else cause_of(record)
