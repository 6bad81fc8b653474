"""The containers that were refused, or run unpinned, by the history: ``explain`` without a pod."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nri_numamem.cli.explain.decision import amounts_text, request_of
from nri_numamem.cli.explain.select import Key, Names, names_of
from nri_numamem.cli.explain.story import Outcome, Refusals, outcome_of, refusals_of
from nri_numamem.cli.render.texts import known_time
from nri_numamem.observe.history.records import Recorded

_OUTCOMES = (Outcome.REFUSED, Outcome.UNPINNED)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A container whose last decision gave it no NUMA nodes."""

    names: Names
    outcome: Outcome
    refusals: Refusals
    request: str
    is_present: bool | None
    """Whether its pod is on the host now; None if unknown."""


def unplaced(entries: Iterable[Recorded], present: Collection[str] | None) -> tuple[Unplaced, ...]:
    """Return these containers, the latest decision first; `present` has the uids of pods."""
    decisions: dict[Key, list[Recorded]] = {}
    for entry in entries:
        if outcome_of(entry) is not None and names_of(entry).pod_uid:
            decisions.setdefault(names_of(entry).key, []).append(entry)
    found = []
    for (uid, _), made in decisions.items():
        outcome = outcome_of(made[-1])
        refusals = None if outcome not in _OUTCOMES else refusals_of(made, outcome)
        if outcome is not None and refusals is not None:
            request = amounts_text(request_of(made[-1]))
            is_present = None if present is None else uid in present
            found.append(Unplaced(names_of(made[-1]), outcome, refusals, request, is_present))
    return tuple(sorted(found, key=lambda each: -each.refusals.last_s))


def unplaced_document(found: Iterable[Unplaced]) -> list[dict[str, object]]:
    """Return the containers as in a document; docs/explain.md describes it."""
    return [
        {
            "namespace": each.names.namespace,
            "pod": each.names.pod,
            "podUid": each.names.pod_uid,
            "container": each.names.container,
            "outcome": each.outcome.value,
            "count": each.refusals.count,
            "first": known_time(each.refusals.first_s),
            "last": known_time(each.refusals.last_s),
            "podPresent": each.is_present,
        }
        for each in found
    ]
