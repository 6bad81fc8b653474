"""Ends the process when its loop stands still, so that the runtime gets its end of file.

A runtime that waits for us holds its locks. While the socket is open it waits, so a process that
no longer reads is worse than none. The clock is faulthandler's: a thread of the C library that
needs neither the interpreter nor its lock, writes every thread's traceback and calls _exit.
Knows nothing of requests; what makes one request late is the deadline's business.
"""

import faulthandler
from types import TracebackType
from typing import Self

# A stop of 3 s (SIGSTOP, a frozen cgroup) is survived although the loop may have been fed
# nri.stream.TICK_S before; after so long the runtime has given up every request.
STALL_S = 5.5

# _exit status of faulthandler after its time is over.
STALLED_STATUS = 1


class Watchdog:
    """A context in which `feed` must be called at least every STALL_S seconds.

    `descriptor` takes the traceback, also that of a crash in C (SIGSEGV and its like); it must
    stay open as long as the process lives.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        """Begin to watch."""
        faulthandler.enable(self._descriptor)
        self.feed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Watch no more; a crash in C still leaves its traceback."""
        faulthandler.cancel_dump_traceback_later()

    def feed(self) -> None:
        """Begin the time anew; takes some 0.1 ms, so it is for ticks and not for requests."""
        faulthandler.dump_traceback_later(STALL_S, exit=True, file=self._descriptor)
