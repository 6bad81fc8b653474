"""A limit in time on what is computed for a request, by a timer's signal in the same thread.

The signal's handler raises Overrun in the middle of the computation, which so ends by itself:
no second thread, no lock around the socket, no late result. It reaches what a thread could not:
C code that keeps the interpreter's lock but looks for signals (a regular expression, large
numbers), and system calls. What looks for nothing is left to the watchdog. Arming and disarming
take about 1 µs each. For the main thread only.
"""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self, TypeVar

from nri_numamem.nri.methods import Overrun

# Should the exception be lost (in a finalizer, for instance), it comes again.
_AGAIN_S = 0.05

# Where the caller's time was over before it asked (on a machine that is too busy), what is left of
# it is negative, which no timer takes.
_LEAST_S = 0.001

_Result = TypeVar("_Result")


class Deadline:
    """A context that owns SIGALRM; `run` works only inside."""

    def __init__(self) -> None:
        self._is_open = False
        self._before: object = None

    def __enter__(self) -> Self:
        """Take the signal."""
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
        try:
            self._is_open = True
            signal.setitimer(signal.ITIMER_REAL, max(_LEAST_S, limit_s), _AGAIN_S)
            result = call()
            self._is_open = False
        except BaseException:
            # The signal may come again right here. Handlers run when a function is called or a
            # loop turns (CPython), so an assignment comes through, and a method would not.
            self._is_open = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise
        signal.setitimer(signal.ITIMER_REAL, 0)
        return result

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_open:
            raise Overrun
