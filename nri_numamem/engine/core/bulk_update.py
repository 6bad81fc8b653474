"""An update of many pods in one event, without a copy of the whole state per pod.

A transition copies the mappings of the state. That is cheap for one container, but quadratic for
five thousand. A bulk update copies them once and then changes its copies in place, within one
computation. A step that follows rules gets and returns a state of one pod: the assignments of the
pod's containers, and the nodes of the machine, which all pods share. A running container, which
follows no rule, is adopted in place. Containers of different pods have different ids.
"""

from collections.abc import Mapping
from typing import TypeVar

from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager import (
    AccountingError,
    Block,
    Request,
    State,
    adopt,
    charge_shortfalls,
)
from nri_numamem.memorymanager.blocks import add_blocks, shortfall_of
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.numa import NodeSet

_K = TypeVar("_K")
_V = TypeVar("_V")


class BulkUpdate:
    """Changes to `state`, which itself stays unchanged."""

    def __init__(self, state: EngineState) -> None:
        self._before = state
        self._machine = dict(state.accounting.machine_state)
        self._assignments = dict(state.accounting.assignments)
        self._reusable = dict(state.accounting.reusable)
        self._holders = dict(state.holders)
        self._keys = dict(state.keys)
        self._open: tuple[str, EngineState, EngineState] | None = None
        """The pod that was replaced last: its uid, its view, and its state, not yet stored.

        Containers of one pod follow each other, so the pod is stored once for all of them.
        """
        self._own: dict[str, dict[HolderName, tuple[Block, ...]]] = {}
        """Pod uid -> its containers in `_assignments`, where they are a copy of this update."""
        self._present = self._state()

    def present(self) -> EngineState:
        """Return the whole state as it is now, for reading only.

        It changes with the next change, and nothing may be placed in it, because a state caches
        what placements compute.
        """
        self._store()
        return self._present

    def pod_view(self, uid: str) -> EngineState:
        """Return a state restricted to one pod's assignments; sandboxes are those of all pods."""
        if self._open is not None and self._open[0] == uid:
            return self._open[2]
        self._store()
        self._own.pop(uid, None)  # the view shares them
        names = self._assignments.get(uid)
        if names is None:
            return self._before.with_all(State(dict(self._machine)), {}, {})
        holders = {key: self._holders[key] for n in names if (key := (uid, n)) in self._holders}
        ids = [(holder.container_id, key) for key, holder in holders.items()]
        keys = {name: key for name, key in ids if self._keys.get(name) == key}
        accounting = State(
            dict(self._machine), _only(self._assignments, uid), _only(self._reusable, uid)
        )
        return self._before.with_all(accounting, holders, keys)

    def replace_pod(self, uid: str, before: EngineState, after: EngineState) -> None:
        """Replace `before`, the last view of the pod, by the state `after` of the same pod.

        Raises AccountingError if that would lose changes, or change the sums of another pod.
        """
        if after.accounting.assignments.keys() - {uid}:
            raise AccountingError(f"the state of pod {uid} has assignments of other pods")
        if self._open is not None:
            if self._open[2] is not before:
                raise AccountingError(f"pod {uid} changed after the state that is replaced")
            before = self._open[1]
        self._open = (uid, before, after)

    def adopt(
        self, holder: Holder, nodes: NodeSet, request: Request, *, is_even: bool = False
    ) -> Mapping[str, int]:
        """Record a container that runs on `nodes`; return its shortfall in bytes.

        See ``memorymanager.adopt``.
        """
        self._store()
        uid, name = holder.key
        if name in self._assignments.get(uid, ()) or holder.key in self._holders:
            before = self.pod_view(uid)
            adopted = adopt(before.accounting, uid, name, nodes, request, is_even=is_even)
            self.replace_pod(uid, before, before.with_holder(holder, adopted.state))
            return adopted.shortfall
        if uid not in self._own:
            self._own[uid] = self._assignments[uid] = dict(self._assignments.get(uid, {}))
        blocks = add_blocks(self._machine, nodes, request, is_even=is_even)
        self._own[uid][name] = blocks
        self._holders[holder.key] = holder
        self._keys[holder.container_id] = holder.key
        return shortfall_of(blocks)

    def charge_shortfalls(self) -> None:
        """Charge all shortfalls where there is room (``shortfalls``)."""
        self._store()
        charged = charge_shortfalls(self._state().accounting)
        self._machine.update(charged.machine_state)
        self._assignments.update(charged.assignments)
        self._own.clear()

    def _store(self) -> None:
        if self._open is None:
            return
        (uid, before, after), self._open = self._open, None
        self._machine.update(after.accounting.machine_state)
        self._own.pop(uid, None)
        _replace(self._assignments, uid, after.accounting.assignments)
        _replace(self._reusable, uid, after.accounting.reusable)
        _replace_all(self._holders, before.holders, after.holders)
        _replace_all(self._keys, before.keys, after.keys)

    def finish(self) -> EngineState:
        """Return the state with all changes; the bulk update must not be used afterwards."""
        self._store()
        return self._state()

    def _state(self) -> EngineState:
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
