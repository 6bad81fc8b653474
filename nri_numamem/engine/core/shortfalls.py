"""Shortfalls after an event: bytes of running containers that are not charged for lack of room.

They are charged when another container leaves room on their nodes, before anything else is placed
there (``memorymanager.shortfalls``). Within an event a pod's own containers use first what the pod
releases.
"""

from nri_numamem.engine.core import events
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import State, charge_shortfalls
from nri_numamem.memorymanager.shortfalls import has_shortfall


def after(before: EngineState, state: EngineState, event: events.Event) -> EngineState:
    """Return the state after an event, with all shortfalls charged where there is room."""
    pod = getattr(event, "pod", None)
    if pod is not None and not _may_be_charged(before.accounting, state.accounting, pod.uid):
        return state
    return charged(state)


def charged(state: EngineState) -> EngineState:
    """Return the state with all shortfalls charged where there is room."""
    accounting = charge_shortfalls(state.accounting)
    return state if accounting is state.accounting else state.with_accounting(accounting)


def has_any(state: EngineState) -> bool:
    """Return whether a container has bytes that are not charged."""
    pods = state.accounting.assignments.values()
    return any(has_shortfall(blocks) for containers in pods for blocks in containers.values())


def _may_be_charged(before: State, now: State, uid: str) -> bool:
    """Return whether an event of a pod may have left room for a shortfall; few events do.

    A shortfall of another pod waits for a node that was full. Where node sets overlap, it may also
    wait for other nodes.
    """
    if before is now:
        return False
    for node_id, node in now.machine_state.items():
        old = before.machine_state[node_id]
        if node is not old and (
            len(node.spans) > 1
            or any(
                table.free and not old.memory_map[name].free
                for name, table in node.memory_map.items()
            )
        ):
            return True
    return any(map(has_shortfall, now.assignments.get(uid, {}).values()))
