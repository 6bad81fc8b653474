"""An update of many pods in one event, without a copy of the whole state per pod.

A transition copies the mappings of the state. That is cheap for one container, but quadratic for
five thousand. A bulk update copies them once and then changes its copies in place, within one
computation. Each step gets and returns a state of one pod: the assignments of the pod's containers,
and the nodes of the machine, which all pods share. Containers of different pods have different ids.
"""

from collections.abc import Mapping
from typing import TypeVar

from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import State

_K = TypeVar("_K")
_V = TypeVar("_V")


class BulkUpdate:
    """Changes to `state`, which itself stays unchanged."""

    def __init__(self, state: EngineState) -> None:
        self._before = state
        self._machine = state.accounting.machine_state
        self._assignments = dict(state.accounting.assignments)
        self._reusable = dict(state.accounting.reusable)
        self._holders = dict(state.holders)
        self._keys = dict(state.keys)
        self._open: tuple[str, EngineState, EngineState] | None = None
        """The pod that was replaced last: its uid, its view, and its state, not yet stored.

        Containers of one pod follow each other, so the pod is stored once for all of them.
        """

    def pod_view(self, uid: str) -> EngineState:
        """Return a state restricted to one pod's assignments; sandboxes are those of all pods."""
        if self._open is not None and self._open[0] == uid:
            return self._open[2]
        self._store()
        names = self._assignments.get(uid)
        if names is None:
            return self._before.with_all(State(self._machine), {}, {})
        holders = {key: self._holders[key] for n in names if (key := (uid, n)) in self._holders}
        ids = [(holder.container_id, key) for key, holder in holders.items()]
        keys = {name: key for name, key in ids if self._keys.get(name) == key}
        accounting = State(self._machine, _only(self._assignments, uid), _only(self._reusable, uid))
        return self._before.with_all(accounting, holders, keys)

    def replace_pod(self, uid: str, before: EngineState, after: EngineState) -> None:
        """Replace `before`, the last view of the pod, by the state `after` of the same pod."""
        if self._open is not None and self._open[2] is before:
            before = self._open[1]
        self._open = (uid, before, after)

    def _store(self) -> None:
        if self._open is None:
            return
        (uid, before, after), self._open = self._open, None
        self._machine = after.accounting.machine_state
        _replace(self._assignments, uid, after.accounting.assignments)
        _replace(self._reusable, uid, after.accounting.reusable)
        _replace_all(self._holders, before.holders, after.holders)
        _replace_all(self._keys, before.keys, after.keys)

    def finish(self) -> EngineState:
        """Return the state with all changes; the bulk update must not be used afterwards."""
        self._store()
        accounting = State(self._machine, self._assignments, self._reusable)
        return self._before.with_all(accounting, self._holders, self._keys)


def _only(whole: Mapping[str, _V], uid: str) -> dict[str, _V]:
    return {uid: whole[uid]} if uid in whole else {}


def _replace(whole: dict[str, _V], uid: str, after: Mapping[str, _V]) -> None:
    if uid in after:
        whole[uid] = after[uid]
    else:
        whole.pop(uid, None)


def _replace_all(whole: dict[_K, _V], before: Mapping[_K, _V], after: Mapping[_K, _V]) -> None:
    for key in before:
        if key not in after:
            del whole[key]
    whole.update(after)
