"""The pods that are refused now, by what the plugin adds to its history."""

from pathlib import Path

from nri_numamem.cli.decisions.names import Key, Names, names_of
from nri_numamem.cli.decisions.outcomes import Outcome, outcome_of
from nri_numamem.cli.decisions.unplaced import pods_present
from nri_numamem.observe.history.records import read_records
from nri_numamem.observe.history.tail import HistoryTail


class RefusedPods:
    """Reads a history again and again; each reading takes what is new."""

    def __init__(self) -> None:
        self._state_file: Path | None = None
        self._tail: HistoryTail | None = None
        self._refused: dict[Key, Names] = {}
        """Containers whose last decision is a refusal; those that were refused first come first."""

    def read(self, state_file: Path, cgroup_root: Path) -> list[Names]:
        """Return refused containers of pods on the host, one for each pod; raises OSError."""
        if self._tail is None or state_file != self._state_file:
            self._state_file, self._tail = state_file, HistoryTail(state_file)
            self._refused.clear()
        recorded, _ = read_records(self._tail.read())
        for entry in recorded:
            outcome, names = outcome_of(entry), names_of(entry)
            if outcome is Outcome.REFUSED:
                self._refused.setdefault(names.key, names)
            elif outcome is not None:
                self._refused.pop(names.key, None)
        present = pods_present(cgroup_root) or ()
        self._refused = {key: each for key, each in self._refused.items() if key[0] in present}
        return list({names.pod_uid: names for names in self._refused.values()}.values())
