"""A state in the making: for events that touch many pods, one after the other.

A step from one state to the next copies what the state knows of all pods. That is little for one
container, and too much for each of five thousand. Here the whole is changed in place, inside one
computation, and each step gets and returns a state that knows a single pod: what a pod's
containers hold, and the nodes of the machine, which all share.
"""

from collections.abc import Mapping
from typing import TypeVar

from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import State

_K = TypeVar("_K")
_V = TypeVar("_V")


class Draft:
    """Begins as `state`, which stays as it is."""

    def __init__(self, state: EngineState) -> None:
        self._begun = state
        self._machine = state.books.machine_state
        self._assignments = dict(state.books.assignments)
        self._reusable = dict(state.books.reusable)
        self._holders = dict(state.holders)
        self._keys = dict(state.keys)

    def part(self, uid: str) -> EngineState:
        """Return the state as if there was only this pod, but for sandboxes and homes."""
        names = self._assignments.get(uid)
        if names is None:
            return self._begun.with_all(State(self._machine), {}, {})
        holders = {key: self._holders[key] for n in names if (key := (uid, n)) in self._holders}
        ids = [(holder.container_id, key) for key, holder in holders.items()]
        keys = {name: key for name, key in ids if self._keys.get(name) == key}
        books = State(self._machine, _only(self._assignments, uid), _only(self._reusable, uid))
        return self._begun.with_all(books, holders, keys)

    def put(self, uid: str, before: EngineState, part: EngineState) -> None:
        """Take over what became of the part of a pod; `before` is that part as it was."""
        self._machine = part.books.machine_state
        _put(self._assignments, uid, part.books.assignments)
        _put(self._reusable, uid, part.books.reusable)
        _exchange(self._holders, before.holders, part.holders)
        _exchange(self._keys, before.keys, part.keys)

    def finish(self) -> EngineState:
        """Return the whole; the draft is not to be changed any more."""
        books = State(self._machine, self._assignments, self._reusable)
        return self._begun.with_all(books, self._holders, self._keys)


def _only(whole: Mapping[str, _V], uid: str) -> dict[str, _V]:
    return {uid: whole[uid]} if uid in whole else {}


def _put(whole: dict[str, _V], uid: str, part: Mapping[str, _V]) -> None:
    if uid in part:
        whole[uid] = part[uid]
    else:
        whole.pop(uid, None)


def _exchange(whole: dict[_K, _V], before: Mapping[_K, _V], after: Mapping[_K, _V]) -> None:
    for key in before:
        if key not in after:
            del whole[key]
    whole.update(after)
