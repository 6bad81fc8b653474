"""A limit in time on what is computed for a request, by a timer's signal in the same thread.

The signal's handler raises Overrun in the middle of the computation, which so ends by itself:
no second thread, no lock around the socket, no late result. It reaches what a thread could not:
C code that keeps the interpreter's lock but looks for signals (a regular expression, large
numbers), and system calls. What looks for nothing is left to the watchdog. For the main thread
only.

A computation that is in time leaves the timer armed for the next one: arming and disarming are
system calls, and nearly no request needs them then. So a signal can come too early or in between,
and it is the handler that decides: while a computation goes on, it raises Overrun if that one's
time is over, and else arms the timer for the rest; in between it does nothing. What holds at
every moment of a computation is that the timer goes off at its end or before.
"""

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self, TypeVar

from nri_numamem.nri.methods import Overrun

# Should the exception be lost (in a finalizer, for instance), it comes again.
_AGAIN_S = 0.05

# Where the caller's time was over before it asked (on a machine that is too busy), what is left of
# it is negative, which no timer takes.
_LEAST_S = 0.001

_NEVER_S = float("inf")

_Result = TypeVar("_Result")


class Deadline:
    """A context that owns SIGALRM; `run` works only inside."""

    def __init__(self) -> None:
        self._is_open = False
        self._until_s = _NEVER_S
        """When the computation's time is over, on time.monotonic's clock."""
        self._alarm_s = _NEVER_S
        """When the timer goes off, on the same clock."""
        self._before: object = None

    def __enter__(self) -> Self:
        """Take the signal."""
        self._alarm_s = _NEVER_S
        self._before = signal.signal(signal.SIGALRM, self._end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signal back."""
        self._is_open = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)  # type: ignore[arg-type] # what it returned

    def run(self, limit_s: float, call: Callable[[], _Result]) -> _Result:
        """Return what `call` returns; Overrun when that takes longer than `limit_s`."""
        now_s = time.monotonic()
        self._until_s = now_s + limit_s
        try:
            # From here on the handler keeps the promise, so the alarm is looked at after this.
            self._is_open = True
            if self._until_s < self._alarm_s:
                self._arm(now_s, max(_LEAST_S, limit_s))
            result = call()
            self._is_open = False
        except BaseException:
            # The signal may come again right here. Handlers run when a function is called or a
            # loop turns (CPython), so an assignment comes through, and a method would not.
            self._is_open = False
            raise
        return result

    def _arm(self, now_s: float, left_s: float) -> None:
        self._alarm_s = now_s + left_s
        signal.setitimer(signal.ITIMER_REAL, left_s)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._alarm_s = _NEVER_S
        if not self._is_open:
            return
        now_s = time.monotonic()
        left_s = self._until_s - now_s
        if left_s > 0:
            self._arm(now_s, left_s)
            return
        self._arm(now_s, _AGAIN_S)
        raise Overrun
