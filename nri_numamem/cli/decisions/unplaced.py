"""The containers that were refused, or run unpinned, by the history."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.cli.decisions.names import Key, Names, names_of
from nri_numamem.cli.decisions.outcomes import (
    Outcome,
    Refusals,
    outcome_of,
    refusals_of,
    request_of,
)
from nri_numamem.engine.records.record import Amounts
from nri_numamem.host.pod_cgroups import (
    guaranteed_pods,
    has_pod_cgroups,
    other_pod_directories,
)
from nri_numamem.host.sysfs import MachineError
from nri_numamem.observe.history.lines import read_history
from nri_numamem.observe.history.records import Recorded, read_records

_OUTCOMES = (Outcome.REFUSED, Outcome.UNPINNED)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A container whose last decision gave it no NUMA nodes."""

    names: Names
    outcome: Outcome
    refusals: Refusals
    request: Amounts
    """Resource name -> bytes."""
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
            request = request_of(made[-1])
            is_present = None if present is None else uid in present
            found.append(Unplaced(names_of(made[-1]), outcome, refusals, request, is_present))
    return tuple(sorted(found, key=lambda each: -each.refusals.last_s))


def refused_now(state_file: Path, cgroup_root: Path) -> tuple[Unplaced, ...]:
    """Return the refused containers whose pods are not known to be gone, the latest first.

    Raises OSError if the history beside the state file cannot be read.
    """
    entries, present = read_history(state_file).entries, pods_present(cgroup_root)
    if present is not None:  # a full history takes seconds to read into records
        entries = tuple(entry for entry in entries if entry.pod_uid in present)
    recorded, _ = read_records(entries)
    found = unplaced(recorded, present)
    return tuple(each for each in found if each.outcome is Outcome.REFUSED)


def pods_present(cgroup_root: Path) -> Collection[str] | None:
    """Return the uids of the pods on the host; None if they cannot be read."""
    try:
        if not has_pod_cgroups(cgroup_root):
            return None
        return guaranteed_pods(cgroup_root).keys() | other_pod_directories(cgroup_root).keys()
    except MachineError:
        return None


def unplaced_document(found: Iterable[Unplaced]) -> list[dict[str, object]]:
    """Return the containers as in a document; docs/explain.md describes it."""
    return [
        {
            **each.names.document(),
            "outcome": each.outcome.value,
            **each.refusals.document(),
            "podPresent": each.is_present,
        }
        for each in found
    ]
