"""A decision: the plan for the reply, and the state transition that follows the reply.

The runtime waits for the reply, and the reply contains neither the accounting nor the records. So
a decision carries the transition as a function, which ``Engine.commit`` calls after the reply.
States and events are values, so the time of that call does not change the result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.reason import NO_REASONS, Reasons
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Rejection

NO_PLAN = Plan()


@dataclass(frozen=True, slots=True)
class Transition:
    """What an event changes."""

    state: EngineState
    """The state after the event."""
    records: tuple[Record, ...] = ()
    """Why; in the order in which they are logged."""
    context: Context | None = None
    """The context after the event, if the event changes it."""
    reasons: Reasons = NO_REASONS
    """Of the containers that the event pins or leaves unpinned; without a time."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of an event that is not committed yet."""

    plan: Plan
    compute_transition: Callable[[], Transition]
    """Return the transition. Has no side effect; raises what a bug raises."""
    rejection: Rejection | None = None
    """Why a container got no nodes, refused or not."""

    @classmethod
    def computed(
        cls,
        plan: Plan,
        state: EngineState,
        *records: Record,
        reasons: Reasons = NO_REASONS,
        rejection: Rejection | None = None,
    ) -> "Decision":
        """Return a decision whose plan depends on the next state, so that state is known."""
        transition = Transition(state, records, reasons=reasons)
        return cls(plan, lambda: transition, rejection)

    def with_records(self, *added: Record) -> "Decision":
        """Return the same decision whose transition has these records after its own."""

        def transition() -> Transition:
            done = self.compute_transition()
            return replace(done, records=(*done.records, *added))

        return replace(self, compute_transition=transition)

    def with_records_before(self, *added: Record) -> "Decision":
        """Return the same decision whose transition has these records before its own."""

        def transition() -> Transition:
            done = self.compute_transition()
            return replace(done, records=(*added, *done.records))

        return replace(self, compute_transition=transition)


Handler: TypeAlias = Callable[[Context, EngineState, Any], Decision]
"""(context, state before the event, event) -> decision."""


def without_reply(handler: Callable[[Context, EngineState, Any], Transition]) -> Handler:
    """Return a handler for events whose reply is always empty: all its work is a transition."""

    def decide(context: Context, state: EngineState, event: object) -> Decision:
        return Decision(NO_PLAN, partial(handler, context, state, event))

    return decide
