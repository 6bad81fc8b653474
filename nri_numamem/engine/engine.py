"""The engine: the one door through which everything that changes the state goes.

``handle`` computes the next state beside the present one and replaces it in one assignment: an
event that fails half-way has not happened. What the reply does not need is done when it has gone
out (``sequel``), at the latest when the next event comes; nobody else can see a difference.
"""

from collections.abc import Callable
from typing import Any

from nri_numamem.engine import containers, events, pods, second_look
from nri_numamem.engine.context import Context
from nri_numamem.engine.plan import Plan
from nri_numamem.engine.rebaseline import rebaseline
from nri_numamem.engine.sequel import Outcome, Sequel, afterwards
from nri_numamem.engine.state import EngineState
from nri_numamem.engine.synchronize import synchronize

_HANDLERS: dict[type, Callable[[Context, EngineState, Any], Outcome]] = {
    events.Synchronize: synchronize,
    events.ContainersFound: second_look.containers_found,
    events.RunPodSandbox: afterwards(pods.run_pod_sandbox),
    events.StopPodSandbox: afterwards(pods.stop_pod_sandbox),
    events.RemovePodSandbox: afterwards(pods.remove_pod_sandbox),
    events.PodCgroupGone: pods.pod_cgroup_gone,
    events.CreateContainer: containers.create_container,
    events.UpdateContainer: containers.update_container,
    events.StopContainer: afterwards(containers.stop_container),
    events.RemoveContainer: afterwards(containers.remove_container_event),
}


class Engine:
    """What the plugin decides with. Belongs to one thread."""

    def __init__(self, context: Context, former: EngineState | None = None) -> None:
        """Begin with empty books; `former` counts when the first Synchronize confirms it."""
        self.context = context
        homes = {} if former is None else former.homes
        self._state = EngineState(context.empty_books(), homes=homes, former=former)
        self._sequel: Sequel | None = None

    @property
    def state(self) -> EngineState:
        """The present state; a value that never changes.

        May raise what was wrong with the last event, once; then that has not happened.
        """
        self.settle()
        return self._state

    def settle(self) -> None:
        """Work out what follows from the last event; raises what `state` may raise."""
        if self._sequel is not None:
            sequel, self._sequel = self._sequel, None
            self._state = sequel.settle()

    @property
    def settled_state(self) -> EngineState:
        """The newest state that is worked out already; may be asked from any thread."""
        return self._state

    def restore(self, state: EngineState) -> None:
        """Go back to a former state, because the answers since then were never given."""
        self._state, self._sequel = state, None

    def handle(self, event: events.Event) -> Plan:
        """Answer one event; a machine that changed makes a new context as well."""
        if self._sequel is not None:
            self.settle()
        before = self._state
        if isinstance(event, events.MachineChanged):
            self.context, self._state, plan = rebaseline(self.context, before, event)
            return plan
        after, plan = _HANDLERS[type(event)](self.context, before, event)
        if not isinstance(after, EngineState):
            if not before.pending:
                self._sequel = after
                return plan
            after = after.settle()
        self._state, plan = second_look.with_pending(after, event, plan)
        return plan
