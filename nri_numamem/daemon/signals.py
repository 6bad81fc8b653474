"""The signals of this process: those that others send, and a time limit by a timer's signal.

SIGTERM and SIGINT stop the plugin, SIGUSR1 dumps its state to the log, SIGHUP opens the log file
and reads the configuration again, SIGUSR2 switches the log level debug on and off; ``cli.main``
ignores the last three before they are handled here. They come as bytes on a socket, so that the
serving loop reads them between two requests: Python's own handlers run between two bytecodes; the
wake-up descriptor ends a wait in the kernel at once.

The handler of the timer's signal (SIGALRM) raises Overrun in the middle of a computation, so the
computation unwinds by itself: no second thread, no lock around the socket, no late result. It
reaches what a thread could not: C code that keeps the interpreter's lock but checks for signals (a
regular expression, large numbers), and system calls. Code that never checks for signals is handled
by the observer (``daemon.liveness``). For the main thread only.

The limit of a request is real time, because the runtime waits for the reply. Where the runtime does
not wait, it is time on a processor: a process that is stopped (SIGSTOP), or waits for a processor,
is not slower when it runs again.
"""

import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Self, TypeVar

from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.nri.poller import Source

STOPPING = (signal.SIGTERM, signal.SIGINT)
DUMP_STATE = signal.SIGUSR1
RELOAD = signal.SIGHUP
TOGGLE_DEBUG = signal.SIGUSR2
_NO_SIGNAL = 0
_HANDLED = (*STOPPING, DUMP_STATE, RELOAD, TOGGLE_DEBUG)

# Should the exception be lost (in a finalizer, for instance), it is raised again; and time on a
# processor passes more slowly than the timer's, so the signal comes again.
_AGAIN_S = 0.05

# The caller's time may be over already (on a machine that is too busy). A timer takes no negative
# time, and 0 would disarm it.
_LEAST_S = 0.001

_Result = TypeVar("_Result")


class Signals:
    """A context in which the process's signals arrive on `wake`. For the main thread."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self.wake: Source = self._reader
        """Readable when a signal has arrived."""
        self._reader.setblocking(False)  # noqa: FBT003 - its only argument
        self._writer.setblocking(False)  # noqa: FBT003 - its only argument
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        """Install the handlers."""
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _HANDLED:
            self._before[number] = signal.signal(number, _noted)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what signal() returned
        signal.set_wakeup_fd(self._wakeup_before)
        self._reader.close()
        self._writer.close()

    def take(self) -> set[int]:
        """Return the numbers of the signals that came since the last call; never waits."""
        try:
            return set(self._reader.recv(4096)) - {_NO_SIGNAL}
        except BlockingIOError:
            return set()

    def wake_up(self) -> None:
        """Make `wake` readable without a signal; any thread may call it, also after the end."""
        with suppress(OSError):  # the buffer is full, hence readable, or the socket is closed
            self._writer.send(bytes([_NO_SIGNAL]))


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the wake-up descriptor has ended the wait already."""


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

    def __exit__(self, *_exception: object) -> None:
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
