"""A limit on the time of a computation, by a timer's signal in the same thread.

The signal's handler raises Overrun in the middle of the computation, so the computation unwinds by
itself: no second thread, no lock around the socket, no late result. It reaches what a thread could
not: C code that keeps the interpreter's lock but checks for signals (a regular expression, large
numbers), and system calls. Code that never checks for signals is handled by the observer
(``daemon.liveness``). For the main thread only.

The limit of a request is real time, because the runtime waits for the reply. Where the runtime does
not wait, it is time on a processor: a process that is stopped (SIGSTOP), or waits for a processor,
is not slower when it runs again.
"""

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self, TypeVar

from nri_numamem.nri.plugin_service import Overrun

# Should the exception be lost (in a finalizer, for instance), it is raised again; and time on a
# processor passes more slowly than the timer's, so the signal comes again.
_AGAIN_S = 0.05

# The caller's time may be over already (on a machine that is too busy). A timer takes no negative
# time, and 0 would disarm it.
_LEAST_S = 0.001

_Result = TypeVar("_Result")


class Deadline:
    """A context that owns SIGALRM; `run` works only inside."""

    def __init__(self) -> None:
        self._is_open = False
        """Whether a computation is running."""
        self._until_s = 0.0
        """When its time is over, in seconds of `_clock`."""
        self._clock = time.monotonic
        self._before: object = None

    def __enter__(self) -> Self:
        """Install the handler."""
        self._before = signal.signal(signal.SIGALRM, self._expire)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the previous handler."""
        signal.signal(signal.SIGALRM, self._before)  # type: ignore[arg-type] # what it returned

    def run(self, limit_s: float, call: Callable[[], _Result]) -> _Result:
        """Return what `call` returns; Overrun when that takes longer than `limit_s`."""
        return self._run(limit_s, call, time.monotonic)

    def run_on_processor(self, limit_s: float, call: Callable[[], _Result]) -> _Result:
        """Return what `call` returns; Overrun when it runs on a processor for `limit_s`."""
        return self._run(limit_s, call, time.thread_time)

    def _run(
        self, limit_s: float, call: Callable[[], _Result], clock: Callable[[], float]
    ) -> _Result:
        self._clock, self._until_s = clock, clock() + limit_s
        try:
            try:
                self._is_open = True
                signal.setitimer(signal.ITIMER_REAL, max(_LEAST_S, limit_s), _AGAIN_S)
                result = call()
                self._is_open = False
            except BaseException:
                # The signal may arrive again right here. Handlers run when a function is called
                # or a loop turns (CPython), so an assignment is safe, and a method call is not.
                self._is_open = False
                raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return result

    def _expire(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_open and self._clock() >= self._until_s:
            raise Overrun
