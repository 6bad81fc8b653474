"""Checks the invariants of the accounting while the plugin serves.

The sums of the accounting are updated step by step, so a bug in one step would stay until the next
Synchronize. The check compares them with the assignments, and verifies that free bytes do not
depend on the order of events, what begun pods still need, and the groups of nodes: every CHECK_S
seconds, and on the first tick after a Synchronize; it takes 7 ms with 500 pods of two containers.
A violation is logged with the pods and nodes that changed since the last check that passed, and the
connection ends: the next Synchronize computes all sums anew. If that does not help, the next
attempt begins with an empty state, which also drops what pods hold between two containers. After
that the violation is only logged. Groups that a placement mixed are logged once: the containers run
on these nodes, so a Synchronize would not change them.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeVar

from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.invariants import check_placements, check_sums
from nri_numamem.engine.records.process import AccountingInvariantViolated
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.state_json import entries_json, node_json

CHECK_S = 10.0

# Limits of a record: enough to find the bug, and no flood.
_LINES_LIMIT = 20
_CHANGES_LIMIT = 20

_Key = TypeVar("_Key")


class InvariantCheck:
    """A periodic job.

    `rebuild` ends the connection, so that a Synchronize follows; its argument is whether to
    begin with an empty state.
    """

    name = "invariant check"

    def __init__(self, rebuild: Callable[[bool], None]) -> None:
        self._rebuild = rebuild
        self._checked_at_s: float | None = None
        self._passed: EngineState | None = None
        """The last state with right sums."""
        self._placed_since: EngineState | None = None
        """The same; None after a Synchronize, which may find any groups."""
        self._failures = 0
        """Number of failed checks since one passed."""

    def synchronized(self) -> None:
        """Check on the next tick."""
        self._checked_at_s = self._placed_since = None

    def due(self, engine: Engine, now_s: float) -> bool:
        """Return whether the state changed and the interval is over."""
        if engine.state is self._passed:
            return False
        return self._checked_at_s is None or now_s - self._checked_at_s >= CHECK_S

    def run(self, engine: Engine, now_s: float) -> Iterable[Record]:
        """Check; return a record if an invariant is violated."""
        self._checked_at_s = now_s
        before, state = self._passed, engine.state
        violations = check_sums(state)
        if violations:
            self._failures += 1
            if self._failures <= 2:
                self._rebuild(self._failures == 2)
        else:
            if self._placed_since is not None:
                violations = check_placements(self._placed_since, state)
            self._passed = self._placed_since = state
            self._failures = 0
        passed = None if before is None else before.accounting
        return (_violated(violations, passed, state.accounting),) if violations else ()


def _violated(violations: tuple[str, ...], before: State | None, after: State) -> Record:
    before = State({}) if before is None else before
    pods = _changed(before.assignments, after.assignments)
    nodes = _changed(before.machine_state, after.machine_state)
    return AccountingInvariantViolated(
        violations=violations[:_LINES_LIMIT],
        violation_count=len(violations),
        before=_part(before, pods, nodes),
        after=_part(after, pods, nodes),
    )


def _part(state: State, pods: Iterable[str], nodes: Iterable[int]) -> Mapping[str, object]:
    """Return some pods and nodes of an accounting, in the words of the kubelet's state file."""
    entries = {uid: state.assignments[uid] for uid in pods if uid in state.assignments}
    tables = {node: state.machine_state[node] for node in nodes if node in state.machine_state}
    return {
        "entries": entries_json(entries),
        "machineState": {str(node_id): node_json(node) for node_id, node in tables.items()},
    }


def _changed(before: Mapping[_Key, object], after: Mapping[_Key, object]) -> list[_Key]:
    """Return the first keys whose values differ."""
    keys = (key for key in {**before, **after} if before.get(key) != after.get(key))
    return list(islice(keys, _CHANGES_LIMIT))
