"""The heartbeat of the event loop.

A runtime that waits for the plugin holds its locks. It waits as long as the socket is open, so a
process that no longer reads is worse than none. Another process reads the heartbeat, judges whether
this one is stuck (``daemon.liveness``), and ends it by SIGABRT; faulthandler, which the entry point
enables, then writes the traceback of every thread. The time limit of a single request is
``daemon.deadline``.

A beat writes a few bytes to memory. It needs no thread and no memory of its own, so a process at
its limit of threads beats as well.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from nri_numamem.daemon.supervisor_status import SupervisorStatus
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.metrics.counters import Meter


class Heartbeat:
    """A context in which the event loop runs, and calls `run` at each tick.

    `status` is None if no other process watches this one. The metrics show the last tick.
    """

    def __init__(self, status: SupervisorStatus | None, meter: Meter) -> None:
        self._status = status
        self._meter = meter
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

    def run(self, now_s: float) -> Iterable[Record]:
        """Beat, as a periodic job; `now_s` is monotonic."""
        self.beat()
        self._meter.ticked_at_s = now_s
        return ()

    def beat(self) -> None:
        """Show that the event loop makes progress."""
        self._beats += 1
        if self._status is not None:
            self._status.beat(self._beats)
