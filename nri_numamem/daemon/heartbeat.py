"""The heartbeat of the event loop.

A runtime that waits for the plugin holds its locks. It waits as long as the socket is open, so a
process that no longer reads is worse than none. Another process reads the heartbeat, judges whether
this one is stuck (``daemon.liveness``), and ends it by SIGABRT; faulthandler, which the entry point
enables, then writes the traceback of every thread. The time limit of a single request is
``daemon.deadline``.

A beat writes a few bytes to memory. It needs no thread and no memory of its own, so a process at
its limit of threads beats as well.
"""

from types import TracebackType
from typing import Self

from nri_numamem.daemon.supervisor_status import SupervisorStatus


class Heartbeat:
    """A context in which the event loop runs, and calls `beat` at each tick.

    `status` is None if no other process watches this one.
    """

    def __init__(self, status: SupervisorStatus | None) -> None:
        self._status = status
        self._beats = 0

    def __enter__(self) -> Self:
        """Beat for the first time."""
        self.beat()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Show that no event loop runs."""
        if self._status is not None:
            self._status.beat(0)

    def beat(self) -> None:
        """Show that the event loop makes progress."""
        self._beats += 1
        if self._status is not None:
            self._status.beat(self._beats)
