"""Updates of containers that wait for a reply that can carry them.

Only replies to some requests contain updates; an unsolicited one can deadlock the runtime. So the
ids of containers are pending in the state until such a reply. The update contains the nodes that
are assigned at that time, and a container that has ended is not pending any more. A Synchronize
empties the list, because its own reply pins the containers.

Two kinds are pending: containers that were found unreported (``discovered``), and repairs of
cgroups (``verdict``).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from nri_numamem.engine.core import reasons
from nri_numamem.engine.core.decision import Decision
from nri_numamem.engine.core.events import CreateContainer, Event, StopContainer, UpdateContainer
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.cpusets import records
from nri_numamem.engine.records.common import ContainerNames
from nri_numamem.engine.records.containers import PinnedLater, PinnedWhileRunning
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import CpusetMemsReapplied
from nri_numamem.memorymanager.holder import container_name
from nri_numamem.numa import NodeSet

# The runtime applies updates within the call, under a lock for all pods, and each may move memory.
_UPDATES_PER_REPLY = 8
_REPAIRS_PER_REPLY = 1

_CARRIERS = (CreateContainer, UpdateContainer, StopContainer)


def add_pending_updates(decision: Decision, event: Event) -> Decision:
    """Return the decision with pending updates in its plan, if the reply can carry updates."""
    plan, transition = decision.plan, decision.compute_transition()
    state = transition.state
    excluded = {update.container_id for update in plan.updates}
    pending = {one for one in state.pending if _can_be_sent(state, one)} - excluded
    repairs = {
        one: seen
        for one, seen in state.cpusets.repairs.items()
        if _can_be_sent(state, one) and one not in excluded
    }
    found, repaired = list[str](), list[str]()
    if isinstance(event, _CARRIERS) and plan.refusal is None:
        own = {event.container.container_id} if isinstance(event, CreateContainer) else set()
        found = sorted(pending - own)[:_UPDATES_PER_REPLY]
        repaired = sorted(repairs.keys() - own - pending)[:_REPAIRS_PER_REPLY]
    updates = [Update(one, str(_nodes(state, one))) for one in (*found, *repaired)]
    made = [_pinned(state, one) for one in found]
    made += [_repaired(state, one, repairs[one]) for one in repaired]
    cpusets = replace(
        state.cpusets,
        unconfirmed=state.cpusets.unconfirmed.union(found),
        repairs={one: seen for one, seen in repairs.items() if one not in repaired},
    )
    state = replace(state, pending=frozenset(pending.difference(found)), cpusets=cpusets)
    plan = replace(plan, updates=(*plan.updates, *updates))
    return Decision.computed(
        plan,
        state,
        *transition.records,
        *made,
        reasons=transition.reasons
        | reasons.pinned(PinnedWhileRunning, state, *_holders(state, found))
        | reasons.pinned(CpusetMemsReapplied, state, *_holders(state, repaired)),
        rejection=decision.rejection,
    )


def _holders(state: EngineState, container_ids: Iterable[str]) -> Iterator[Holder]:
    return (state.holders[state.keys[one]] for one in container_ids)


def _pinned(state: EngineState, container_id: str) -> Record:
    uid, name = state.keys[container_id]
    names = ContainerNames(container=container_name(name), pod_uid=uid, container_id=container_id)
    return PinnedWhileRunning(placed=PinnedLater(names=names, nodes=_nodes(state, container_id)))


def _repaired(state: EngineState, container_id: str, seen: NodeSet) -> Record:
    holder = state.holders[state.keys[container_id]]
    return records.repaired(state, holder, _nodes(state, container_id), seen)


def _can_be_sent(state: EngineState, container_id: str) -> bool:
    """Return whether the container still runs, on nodes that the machine still has."""
    holder = state.holder(container_id)
    if holder is None or holder.ended:
        return False
    return _nodes(state, container_id).issubset(NodeSet(state.accounting.machine_state))


def _nodes(state: EngineState, container_id: str) -> NodeSet:
    uid, name = state.keys[container_id]
    return state.accounting.assignments[uid][name][0].numa_affinity
