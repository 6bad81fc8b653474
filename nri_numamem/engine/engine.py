"""The engine: the one door through which everything that changes the state goes.

``handle`` computes the next state beside the present one and replaces it in one assignment: an
event that fails half-way has not happened.
"""

from collections.abc import Callable
from typing import Any

from nri_numamem.engine import containers, events, pods, second_look
from nri_numamem.engine.context import Context
from nri_numamem.engine.plan import Plan
from nri_numamem.engine.rebaseline import rebaseline
from nri_numamem.engine.state import EngineState
from nri_numamem.engine.synchronize import synchronize

_HANDLERS: dict[type, Callable[[Context, EngineState, Any], tuple[EngineState, Plan]]] = {
    events.Synchronize: synchronize,
    events.ContainersFound: second_look.containers_found,
    events.RunPodSandbox: pods.run_pod_sandbox,
    events.StopPodSandbox: pods.stop_pod_sandbox,
    events.RemovePodSandbox: pods.remove_pod_sandbox,
    events.PodCgroupGone: pods.pod_cgroup_gone,
    events.CreateContainer: containers.create_container,
    events.UpdateContainer: containers.update_container,
    events.StopContainer: containers.stop_container,
    events.RemoveContainer: containers.remove_container_event,
}


class Engine:
    """What the plugin decides with. Belongs to one thread."""

    def __init__(self, context: Context, former: EngineState | None = None) -> None:
        """Begin with empty books; `former` counts when the first Synchronize confirms it."""
        self.context = context
        homes = {} if former is None else former.homes
        self._state = EngineState(context.empty_books(), homes=homes, former=former)

    @property
    def state(self) -> EngineState:
        """The present state; a value that never changes."""
        return self._state

    def restore(self, state: EngineState) -> None:
        """Go back to a former state, because the answers since then were never given."""
        self._state = state

    def handle(self, event: events.Event) -> Plan:
        """Answer one event; a machine that changed makes a new context as well."""
        if isinstance(event, events.MachineChanged):
            self.context, self._state, plan = rebaseline(self.context, self._state, event)
            return plan
        state, plan = _HANDLERS[type(event)](self.context, self._state, event)
        self._state, plan = second_look.with_pending(state, event, plan)
        return plan
