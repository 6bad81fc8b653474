"""Works out what follows from a reply that was given: the next state, the records for the log.

The engine leaves that until somebody looks, so that no reply waits for it. Here somebody looks:
once a batch of replies is on its way, and before the next request's time begins. Should a bug
prevent it, nothing was lost where the reply gave nothing. Else the books would lack a container
that runs; so the connection ends, and the next Synchronize tells what is running.
"""

import traceback
from collections.abc import Callable

from nri_numamem.cli.errors import UnsettledError
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.plan import Plan, Record


class Settling:
    """Looks after each reply, and knows whether the books are to be trusted."""

    def __init__(self, emit: Callable[[Record], None]) -> None:
        self.answered: Plan | None = None
        """What was answered last, until it is settled; for whoever answers to set."""
        self.has_failed = False
        """On this connection; until it ends, nothing is to be decided by these books."""
        self._emit = emit

    def connected(self) -> None:
        """Begin anew."""
        self.has_failed = False

    def settle(self, engine: Engine | None) -> None:
        """Let the engine work out what follows from its last plan; what is wrong is told."""
        if engine is None:
            return
        try:
            engine.settle()
        except Exception as error:  # noqa: BLE001 - check() ends the connection, if it must end
            event = "internal error, answered neutrally"
            if self.answered is not None and not self.answered.is_neutral:
                self.has_failed = True
                event = "internal error after the reply"
            text = "".join(traceback.format_exception(error)).rstrip()
            self._emit(Record(event, "error", {"exception": text}))
        self.answered = None

    def check(self) -> None:
        """Raise UnsettledError when the connection is to end."""
        if self.has_failed:
            raise UnsettledError("the books lack what a reply has given")
