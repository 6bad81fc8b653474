"""Ends the process when its event loop stalls, so that the runtime reads the end of the stream.

A runtime that waits for the plugin holds its locks. It waits as long as the socket is open, so a
process that no longer reads is worse than none. The timer is faulthandler's: a thread in C that
needs neither the interpreter nor its lock; when the time is over it writes the traceback of every
thread and calls _exit(1). The time limit of a single request is ``daemon.deadline``.
"""

import faulthandler
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

# The process survives a stop of 3 s (SIGSTOP, a frozen cgroup), although the last feed may be
# nri.event_loop.TICK_S old; by then every request has timed out in the runtime.
STALL_S = 5.5

STALLED_STATUS = 1
"""The exit status of a process that the watchdog ended."""


class StallGuard(Protocol):
    """Ends the process unless it is set anew in time."""

    def set(self, seconds: float) -> None:
        """End the process after this time, and not after an earlier one."""

    def cancel(self) -> None:
        """End the process no more."""


class StallTimer:
    """faulthandler's timer; `descriptor` takes the tracebacks, also that of a crash in C.

    The descriptor must stay open as long as the process lives. Setting the timer takes some
    0.1 ms, because it starts a thread.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        faulthandler.enable(descriptor)

    def set(self, seconds: float) -> None:
        """End the process after this time, and not after an earlier one."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._descriptor)

    def cancel(self) -> None:
        """End the process no more."""
        faulthandler.cancel_dump_traceback_later()


class Watchdog:
    """A context in which `feed` must be called at least every STALL_S seconds.

    `new_guard` makes the stall guard from the descriptor that takes the tracebacks.
    """

    def __init__(
        self, descriptor: int, new_guard: Callable[[int], StallGuard] = StallTimer
    ) -> None:
        self._descriptor = descriptor
        self._new_guard = new_guard
        self._guard: StallGuard | None = None

    def __enter__(self) -> Self:
        """Start the timer."""
        self._guard = self._new_guard(self._descriptor)
        self.feed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancel the timer; a crash in C still leaves its traceback."""
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None

    def feed(self) -> None:
        """Start the time anew; for ticks and not for requests."""
        if self._guard is not None:
            self._guard.set(STALL_S)
