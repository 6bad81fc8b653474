"""When and why containers were pinned, and which of Guaranteed pods run unpinned.

For people only: no decision depends on a reason. The handler of an event gives its transition the
reasons of the containers that it pins or leaves unpinned. The commit adds the time, and the state
carries them from there. A container that is adopted again on its nodes at a Synchronize keeps its
first reason.
"""

from collections.abc import Mapping
from dataclasses import replace

from nri_numamem.engine.core import events
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.records import connection, containers, running
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Block, QosClass, nodes_of

_ADOPTING = frozenset(
    kind.event
    for kind in (
        containers.Adopted,
        containers.UnreportedContainerFound,
        running.CpusetMemsReapplied,
    )
)
"""Events that say nothing new about a container with a reason, if its nodes are the same."""

EVENTS = _ADOPTING | {
    kind.event
    for kind in (
        containers.Admitted,
        containers.PinnedWhileRunning,
        running.Resized,
        running.CpusetMemsConflict,
        containers.UnpinnedNoCapacity,
        containers.RunningUnpinnedNoCapacity,
        running.CpusetMemsMissing,
        connection.RequestTimedOut,
        connection.InternalError,
    )
}
"""The events that a reason may have."""

_END_OF_CONTAINER = (events.StopContainer, events.RemoveContainer)
_END_OF_POD = (events.StopPodSandbox, events.RemovePodSandbox, events.PodCgroupGone)


def reason_of(kind: type[Record], state: EngineState, holder: Holder) -> Reason:
    """Return a new reason, without its time, of a container whose pod `state` has."""
    pod = state.pods.get(holder.sandbox_id)
    namespace, name = ("", "") if pod is None else (pod.namespace, pod.name)
    return Reason(holder.container_id, holder.sandbox_id, holder.key, namespace, name, kind.event)


def pinned(kind: type[Record], state: EngineState, *holders: Holder) -> Reasons:
    """Return the new reasons of containers that an event pins."""
    return Reasons(pinned={one.container_id: reason_of(kind, state, one) for one in holders})


def unpinned(kind: type[Record], state: EngineState, holder: Holder) -> Reasons:
    """Return the new reason of a container that an event leaves unpinned."""
    return Reasons(unpinned={holder.container_id: reason_of(kind, state, holder)})


def after(
    before: EngineState, state: EngineState, event: events.Event, new: Reasons, wall_s: int
) -> EngineState:
    """Return `state`, which follows from `before` by an event, with its reasons.

    `new` are those of the event; `wall_s` is the Unix time, 0 if unknown.
    """
    is_whole = isinstance(event, events.Synchronize)
    known = _known(before, state) if is_whole else state.reasons
    if not (is_whole or new.pinned or new.unpinned or _may_end(known, event)):
        return state
    earlier = _restored_now(before, state) or before
    on = {
        one: _kept(known, reason, earlier, state) or replace(reason, since_s=wall_s)
        for one, reason in new.pinned.items()
    }
    off = {
        one: known.unpinned.get(one) or replace(reason, since_s=wall_s)
        for one, reason in new.unpinned.items()
    }
    if not is_whole:
        off = _remaining(known.unpinned, event, on) | off
        on = {**known.pinned, **on}
    off = {
        container_id: reason
        for container_id, reason in off.items()
        if reason.event != running.CpusetMemsMissing.event or container_id in state.cpusets.unpinned
    }
    if is_whole or len(on) > len(state.keys):
        on = {name: reason for name, reason in on.items() if name in state.keys}
    return state.with_reasons(Reasons(on, off))


def with_failed(
    state: EngineState, event: str, created: connection.Created, wall_s: int
) -> EngineState:
    """Return the state with the reason of a container whose creation failed or took too long.

    It runs unpinned. The state has nothing else of it, because its event has not happened.
    """
    names = created.names
    if created.qos_class != QosClass.GUARANTEED or not names.container_id:
        return state
    reason = Reason(
        names.container_id,
        created.sandbox_id,
        (names.pod_uid, names.container),
        names.namespace or "",
        names.pod or "",
        event,
        wall_s,
    )
    return state.with_reasons(state.reasons | Reasons(unpinned={names.container_id: reason}))


def _known(before: EngineState, state: EngineState) -> Reasons:
    """Return the reasons before a Synchronize, with those of an earlier process at the first."""
    restored = _restored_now(before, state)
    return before.reasons if restored is None else restored.reasons | before.reasons


def _restored_now(before: EngineState, state: EngineState) -> EngineState | None:
    """Return the state of an earlier process, if the event confirmed or dropped its parts."""
    return None if before.restored is state.restored else before.restored


def _kept(known: Reasons, new: Reason, earlier: EngineState, state: EngineState) -> Reason | None:
    """Return the known reason of a container that is adopted again on its nodes."""
    container_id = new.container_id
    is_kept = new.event in _ADOPTING and not _nodes_differ(earlier, state, container_id)
    return known.pinned.get(container_id) if is_kept else None


def _nodes_differ(earlier: EngineState, state: EngineState, container_id: str) -> bool:
    """Return whether a container has other nodes than before; False if it had none."""
    before, now = _blocks(earlier, container_id), _blocks(state, container_id)
    if before is None or now is None or before == now:
        return False
    return nodes_of(before) != nodes_of(now)


def _blocks(state: EngineState, container_id: str) -> tuple[Block, ...] | None:
    holder = state.holder(container_id)
    return None if holder is None else state.blocks(holder.key)


def _may_end(known: Reasons, event: events.Event) -> bool:
    """Return whether a reason may be obsolete after the event."""
    if isinstance(event, (*_END_OF_CONTAINER, *_END_OF_POD, events.CpusetsRead)):
        return bool(known.pinned or known.unpinned)
    return False


def _remaining(
    unpinned: Mapping[str, Reason], event: events.Event, pinned: Mapping[str, Reason]
) -> dict[str, Reason]:
    """Return what still runs unpinned after an event that pinned some containers."""
    sandbox_id = event.pod.sandbox_id if isinstance(event, _END_OF_POD) else None
    ended_id = event.container.container_id if isinstance(event, _END_OF_CONTAINER) else None
    return {
        container_id: reason
        for container_id, reason in unpinned.items()
        if container_id not in (ended_id, *pinned) and reason.sandbox_id != sandbox_id
    }
