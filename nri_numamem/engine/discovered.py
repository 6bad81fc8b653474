"""Running containers that the runtime never reported, and updates that are still pending.

Some runtimes do not report containers that are created while a plugin synchronizes. A scan of the
cgroups finds them (``nri_numamem.daemon.cgroup_scan``), and here they enter the accounting. A
container whose `cpuset.mems` is set keeps its nodes; another one is placed by the rules, and its
cgroup's limit is its request. Its name is unknown, so the container's id is its name until the next
Synchronize.

To pin such a container takes an update. Only replies to some requests contain updates; an
unsolicited one can deadlock the runtime. So its id is pending in the state until such a reply. The
update contains the nodes that are assigned at that time, and a container that has ended is not
pending any more. A Synchronize empties the list, because its own reply pins the containers.
"""

from collections.abc import Iterable
from dataclasses import replace

from nri_numamem.engine import pod_limit, pod_scope
from nri_numamem.engine.context import Context
from nri_numamem.engine.decision import Decision, Transition
from nri_numamem.engine.events import (
    ContainersFound,
    CreateContainer,
    Event,
    StopContainer,
    UpdateContainer,
)
from nri_numamem.engine.plan import Record, Update
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.request import request_for
from nri_numamem.engine.state import EngineState
from nri_numamem.engine.synchronize import adopt_running, place_running
from nri_numamem.numa import NodeSet

# The runtime applies updates within the call, under a lock for all pods, and each may move memory.
_UPDATES_PER_REPLY = 8

_CARRIERS = (CreateContainer, UpdateContainer, StopContainer)


def containers_found(context: Context, state: EngineState, event: ContainersFound) -> Transition:
    """Record the containers that are still unknown; nothing is refused."""
    records: list[Record] = []
    for pod, container in event.found:
        is_known = state.holder(container.container_id) is not None
        if is_known or context.unmanaged_reason(pod, container) is not None:
            continue
        state = state.with_pod(pod)
        request = request_for(state, pod, container)
        if container.cgroup_mems:
            state, made = adopt_running(
                context, state, pod, container, request, container.cgroup_mems
            )
            state = pod_scope.take_from_pool(context, state, pod)
            state = pod_limit.release_excess(state, pod)
            records.extend(_unreported(made, "adopted"))
            continue
        state, updates, made = place_running(context, state, pod, container, request)
        if not updates:
            records.extend(_unreported(made, "unpinned"))
            continue
        state = pod_limit.release_excess(state, pod)
        found = {update.container_id for update in updates}
        state = replace(state, pending=state.pending | found)
        records.extend(_unreported(made, "pinning_deferred"))
    return Transition(state, tuple(records))


def _unreported(made: Iterable[Record], outcome: str) -> list[Record]:
    event = EventName.UNREPORTED_CONTAINER_FOUND
    return [Record(event, {**record.fields, "outcome": outcome}) for record in made]


def add_pending_updates(decision: Decision, event: Event) -> Decision:
    """Return the decision with pending updates in its plan, if the reply can carry updates."""
    plan, transition = decision.plan, decision.compute_transition()
    state = transition.state
    pending = {found for found in state.pending if _can_be_sent(state, found)}
    pending.difference_update(update.container_id for update in plan.updates)
    ready: list[str] = []
    if isinstance(event, _CARRIERS) and plan.refusal is None:
        created = event.container.container_id if isinstance(event, CreateContainer) else None
        ready = sorted(pending - {created})[:_UPDATES_PER_REPLY]
    updates = tuple(Update(found, str(_nodes(state, found))) for found in ready)
    records = tuple(_sent(state, update) for update in updates)
    state = replace(state, pending=frozenset(pending.difference(ready)))
    plan = replace(plan, updates=(*plan.updates, *updates))
    return Decision.computed(
        plan, state, *transition.records, *records, rejection=decision.rejection
    )


def _sent(state: EngineState, update: Update) -> Record:
    uid, name = state.keys[update.container_id]
    return Record(
        EventName.PINNED_WHILE_RUNNING,
        {
            "container": name,
            "pod_uid": uid,
            "container_id": update.container_id,
            "nodes": update.cpuset_mems,
        },
    )


def _can_be_sent(state: EngineState, container_id: str) -> bool:
    """Return whether the container still runs, on nodes that the machine still has."""
    holder = state.holder(container_id)
    if holder is None or holder.ended:
        return False
    return _nodes(state, container_id).issubset(NodeSet(state.accounting.machine_state))


def _nodes(state: EngineState, container_id: str) -> NodeSet:
    uid, name = state.keys[container_id]
    return state.accounting.assignments[uid][name][0].numa_affinity
