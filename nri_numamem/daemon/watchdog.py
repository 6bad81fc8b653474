"""Shows that the event loop is alive, and ends the process when nothing else does.

A runtime that waits for the plugin holds its locks. It waits as long as the socket is open, so a
process that no longer reads is worse than none. Whether a process without a heartbeat is stuck is
judged in another process, which reads how long it ran (``daemon.liveness``). Here is the last
resort for a host without such a process: faulthandler's timer, a thread in C that needs neither the
interpreter nor its lock; when the time is over it writes the traceback of every thread and calls
_exit(1). The time limit of a single request is ``daemon.deadline``.
"""

import faulthandler
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

# Far above liveness.STUCK_S: the timer cannot distinguish a stuck process from one that is stopped
# or gets no processor.
STALL_S = 40.0

# The timer is set anew this often and not at each feed: each time ends a thread and starts another,
# which are two of the wake-ups of an idle host.
RESET_S = 20.0

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


def _no_heartbeat(_beats: int) -> None:
    """Do nothing: no other process watches this one."""


class Watchdog:
    """A context in which `feed` must be called at least every STALL_S - RESET_S seconds.

    `new_guard` makes the stall guard from the descriptor that takes the tracebacks. `heartbeat`
    takes the number of feeds, 0 outside of the context.
    """

    def __init__(
        self,
        descriptor: int,
        new_guard: Callable[[int], StallGuard] = StallTimer,
        heartbeat: Callable[[int], None] | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._new_guard = new_guard
        self._heartbeat = heartbeat or _no_heartbeat
        self._beats = 0
        self._guard: StallGuard | None = None
        self._set_at_s: float | None = None

    def __enter__(self) -> Self:
        """Start the timer."""
        self._guard = self._new_guard(self._descriptor)
        self._guard.set(STALL_S)
        self._set_at_s = None
        self._beat()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancel the timer; a crash in C still leaves its traceback."""
        if self._guard is not None:
            self._heartbeat(0)
            self._guard.cancel()
            self._guard = None

    def feed(self, now_s: float) -> None:
        """Beat, and start the time anew if it is old; `now_s` is monotonic. For ticks only."""
        if self._guard is None:
            return
        if self._set_at_s is None or now_s - self._set_at_s >= RESET_S:
            self._guard.set(STALL_S)
            self._set_at_s = now_s
        self._beat()

    def _beat(self) -> None:
        self._beats += 1
        self._heartbeat(self._beats)
