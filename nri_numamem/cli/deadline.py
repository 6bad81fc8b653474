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
        self._close()
        signal.signal(signal.SIGALRM, self._before)  # type: ignore[arg-type] # what it returned

    def run(self, limit_s: float, call: Callable[[], _Result]) -> _Result:
        """Return what `call` returns; Overrun when that takes longer than `limit_s`."""
        try:
            self._is_open = True
            signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
            result = call()
            self._close()
        except BaseException:
            # Also when the signal came while the window was being closed.
            self._close()
            raise
        return result

    def _close(self) -> None:
        self._is_open = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_open:
            raise Overrun
