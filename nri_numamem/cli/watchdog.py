"""Ends the process when its loop stands still, so that the runtime gets its end of file.

A runtime that waits for us holds its locks. While the socket is open it waits, so a process that
no longer reads is worse than none. The clock is the kernel's, and what it sets off is written in C
and needs neither the interpreter nor its lock: it writes every thread's traceback and calls _exit.
Knows nothing of requests; what makes one request late is the deadline's business.
"""

import contextlib
import faulthandler
from types import TracebackType
from typing import Protocol, Self

# A stop of 3 s (SIGSTOP, a frozen cgroup) is survived although the loop may have been fed
# nri.stream.TICK_S before; after so long the runtime has given up every request.
STALL_S = 5.5


class Clock(Protocol):
    """Ends the process when it is not set anew in time."""

    def set(self, seconds: float) -> None:
        """End the process after this time, and not after an earlier one."""

    def close(self) -> None:
        """End the process no more."""


class ThreadClock:
    """faulthandler's own: a thread of the C library that is made anew each time.

    Setting it takes some 0.1 ms, and wakes an idle host two or three times.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def set(self, seconds: float) -> None:
        """End the process after this time, and not after an earlier one."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._descriptor)

    def close(self) -> None:
        """End the process no more."""
        faulthandler.cancel_dump_traceback_later()


class Watchdog:
    """A context in which `feed` must be called at least every STALL_S seconds.

    `descriptor` takes the traceback, also that of a crash in C (SIGSEGV and its like); it must
    stay open as long as the process lives. For the main thread.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._clock: Clock | None = None

    def __enter__(self) -> Self:
        """Begin to watch."""
        faulthandler.enable(self._descriptor)
        self._clock = clock(self._descriptor)
        self.feed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Watch no more; a crash in C still leaves its traceback."""
        if self._clock is not None:
            self._clock.close()
            self._clock = None

    def feed(self) -> None:
        """Begin the time anew, if it has begun; for ticks and not for requests."""
        if self._clock is not None:
            self._clock.set(STALL_S)


def clock(descriptor: int) -> Clock:
    """Return the best clock that there is; `descriptor` takes the tracebacks."""
    # Python can be built without ctypes, which wants memory to execute (systemd's
    # MemoryDenyWriteExecute=, with an old libffi); a kernel or a sandbox may have no such timers.
    with contextlib.suppress(ImportError, MemoryError, OSError, AttributeError):
        from nri_numamem.cli.posix_timer import PosixTimer  # noqa: PLC0415 - see above

        return PosixTimer(descriptor)
    return ThreadClock(descriptor)
