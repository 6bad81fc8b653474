"""What follows from an event: the next state, and the records that say why.

A container's start waits for the reply, and neither the books nor the log are in it. So an event
may be answered first; what follows is worked out when somebody looks at the state or the records,
and in any case before the next event. States and events are values: when does not matter.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, overload

from nri_numamem.engine.context import Context
from nri_numamem.engine.plan import Plan, Record
from nri_numamem.engine.state import EngineState

AtOnce: TypeAlias = tuple[EngineState, Plan]


class Sequel(Sequence[Record]):
    """The records of an event, and the state after it; worked out once, when first asked for.

    Should that raise something, it does so once; from then on the event has not happened.
    """

    __slots__ = ("_records", "_state", "_work")

    def __init__(self, before: EngineState, work: Callable[[], AtOnce]) -> None:
        """Begin with the state `before` the event; of the plan of `work` only the records count."""
        self._state = before
        self._records: Sequence[Record] = ()
        self._work: Callable[[], AtOnce] | None = work

    def settle(self) -> EngineState:
        """Return the state after the event."""
        work, self._work = self._work, None
        if work is not None:
            self._state, plan = work()
            self._records = plan.records
        return self._state

    def __len__(self) -> int:
        self.settle()
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        self.settle()
        return self._records[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


Outcome: TypeAlias = tuple[EngineState | Sequel, Plan]
"""The state after an event, or what will make it; and the plan for the reply."""


def afterwards(
    handler: Callable[[Context, EngineState, Any], AtOnce],
) -> Callable[[Context, EngineState, Any], Outcome]:
    """Let a handler work after the reply, because there is nothing of it in the reply."""

    def answer(context: Context, state: EngineState, event: object) -> Outcome:
        sequel = Sequel(state, partial(handler, context, state, event))
        return sequel, Plan(records=sequel)

    return answer
