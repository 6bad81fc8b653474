"""When and why containers were pinned, and which of Guaranteed pods run unpinned.

For people only: no decision depends on a reason. The reasons of an event follow from its records
and the time of its commit, and the state carries them from there. A container that is adopted again
on its nodes at a Synchronize keeps its first reason.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.core import events
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records import connection, containers, running
from nri_numamem.engine.records.common import UNPINNED, ContainerNames, names_of
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Block, QosClass, nodes_of

_ADOPTING = (containers.Adopted, containers.UnreportedContainerFound, running.CpusetMemsReapplied)
"""Records that say nothing new about a container with a reason, if its nodes are the same."""

_PINNING = (
    *_ADOPTING,
    containers.Admitted,
    containers.PinnedWhileRunning,
    running.Resized,
    running.CpusetMemsConflict,
)

_UNPINNED = (
    containers.UnpinnedNoCapacity,
    containers.RunningUnpinnedNoCapacity,
    running.CpusetMemsMissing,
    connection.RequestTimedOut,
    connection.InternalError,
)

EVENTS = frozenset(kind.event for kind in (*_PINNING, *_UNPINNED))
"""The events that a reason may have."""

_END_OF_CONTAINER = (events.StopContainer, events.RemoveContainer)
_END_OF_POD = (events.StopPodSandbox, events.RemovePodSandbox, events.PodCgroupGone)


def after(
    before: EngineState,
    state: EngineState,
    event: events.Event,
    records: Iterable[Record],
    wall_s: int,
) -> EngineState:
    """Return `state`, which follows from `before` by an event, with its reasons.

    `wall_s` is the Unix time, 0 if unknown.
    """
    is_whole = isinstance(event, events.Synchronize)
    known = _known(before, state) if is_whole else state.reasons
    earlier = _restored_now(before, state) or before
    pinned, unpinned = dict[str, Reason](), dict[str, Reason]()
    for record in records:
        is_off, is_on = is_unpinned(record), isinstance(record, _PINNING)
        names = names_of(record) if is_off or is_on else None
        if not isinstance(names, ContainerNames) or not names.container_id:
            continue
        container_id = names.container_id
        if is_off:
            unpinned[container_id] = known.unpinned.get(container_id) or _reason(
                state, event, record.event, names, wall_s
            )
        else:
            old = known.pinned.get(container_id) if isinstance(record, _ADOPTING) else None
            if old is not None and _nodes_differ(earlier, state, container_id):
                old = None
            pinned[container_id] = old or _reason(state, event, record.event, names, wall_s)
    if not is_whole:
        if not (pinned or unpinned or _may_end(known, event)):
            return state
        unpinned = _remaining(known.unpinned, event, pinned) | unpinned
        pinned = {**known.pinned, **pinned}
    unpinned = {
        container_id: reason
        for container_id, reason in unpinned.items()
        if reason.event != running.CpusetMemsMissing.event or container_id in state.cpusets.unpinned
    }
    if is_whole or len(pinned) > len(state.keys):
        pinned = {name: reason for name, reason in pinned.items() if name in state.keys}
    return state.with_reasons(Reasons(pinned, unpinned))


def with_failed(state: EngineState, record: Record, wall_s: int) -> EngineState:
    """Return the state with the reason of a container whose creation failed or took too long.

    It runs unpinned. The state has nothing else of it, because its event has not happened.
    """
    created = (
        record.created
        if isinstance(record, connection.RequestTimedOut | connection.InternalError)
        else None
    )
    if created is None or created.qos_class != QosClass.GUARANTEED:
        return state
    names = created.names
    if not names.container_id:
        return state
    reason = Reason(
        names.container_id,
        created.sandbox_id,
        (names.pod_uid, names.container),
        names.namespace or "",
        names.pod or "",
        record.event,
        wall_s,
    )
    known = state.reasons
    unpinned = {**known.unpinned, names.container_id: reason}
    return state.with_reasons(Reasons(known.pinned, unpinned))


def is_unpinned(record: Record) -> bool:
    """Return whether the record's container runs unpinned although its pod is Guaranteed."""
    match record:
        case containers.UnpinnedNoCapacity() | containers.RunningUnpinnedNoCapacity():
            return True
        case running.CpusetMemsMissing() | containers.UnreportedContainerFound():
            return record.outcome == UNPINNED
        case _:
            return False


def _known(before: EngineState, state: EngineState) -> Reasons:
    """Return the reasons before a Synchronize, with those of an earlier process at the first."""
    restored = _restored_now(before, state)
    if restored is None:
        return before.reasons
    earlier, now = restored.reasons, before.reasons
    return Reasons(
        {**earlier.pinned, **now.pinned},
        {**earlier.unpinned, **now.unpinned},
    )


def _restored_now(before: EngineState, state: EngineState) -> EngineState | None:
    """Return the state of an earlier process, if the event confirmed or dropped its parts."""
    return None if before.restored is state.restored else before.restored


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


def _reason(
    state: EngineState, event: events.Event, name: str, names: ContainerNames, wall_s: int
) -> Reason:
    return Reason(
        names.container_id,
        _sandbox_id(state, event, names.container_id),
        (names.pod_uid, names.container),
        names.namespace or "",
        names.pod or "",
        name,
        wall_s,
    )


def _sandbox_id(state: EngineState, event: events.Event, container_id: str) -> str:
    """Return the sandbox of a container of the event; "" if unknown."""
    holder = state.holder(container_id)
    if holder is not None:
        return holder.sandbox_id
    containers: Iterable[events.Container] = ()
    match event:
        case events.Synchronize():
            containers = event.containers
        case events.ContainersFound():
            containers = (container for _pod, container in event.found)
        case events.CreateContainer():
            containers = (event.container,)
        case _:
            pass
    found = (c.sandbox_id for c in containers if c.container_id == container_id)
    return next(found, "")
