"""A timer of the kernel that ends the process by a signal, unless it is set anew in time.

It needs no thread, so it wakes nobody until its time is over, and setting it is one system call.
What happens then needs neither the interpreter nor its lock: the signal's handlers are C functions,
first faulthandler's, which writes every thread's traceback, then the C library's _exit. (The
default action would not do: the kernel spares a process 1, such as a container's, from it.)

Python has no module for such timers; they are called in the C library by ctypes.
"""

import ctypes
import faulthandler
import os
import signal
import struct
import time

# Nothing else uses it, neither Python nor its libraries; the deadline has SIGALRM.
EXPIRED = signal.SIGVTALRM

# _exit is called with the signal's number.
EXPIRED_STATUS = int(EXPIRED)

# struct sigevent begins with the value to pass, the signal and how to notify; timer_create(2).
_SIGEVENT = struct.Struct("Pii")
_SIGEVENT_BYTES = 64
_SIGEV_SIGNAL = 0

# struct itimerspec: seconds and nanoseconds of the interval, and of the time until the first.
_ITIMERSPEC = struct.Struct("4l")


class PosixTimer:
    """One timer; it counts real time. For the main thread.

    `descriptor` takes the traceback. Raises OSError or AttributeError where there are no such
    timers.
    """

    def __init__(self, descriptor: int) -> None:
        library = _library()
        self._settime = library.timer_settime
        self._delete = library.timer_delete
        self._timer = ctypes.c_void_p()
        event = _SIGEVENT.pack(0, EXPIRED, _SIGEV_SIGNAL).ljust(_SIGEVENT_BYTES, b"\0")
        _check(library.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(self._timer)))
        library.signal(EXPIRED, ctypes.cast(library._exit, ctypes.c_void_p))  # noqa: SLF001 - its name
        faulthandler.register(EXPIRED, descriptor, all_threads=True, chain=True)
        # Whoever started this process may have blocked it.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {EXPIRED})

    def set(self, seconds: float) -> None:
        """End the process after this time, and not after an earlier one; takes some 2 µs."""
        whole, part = divmod(seconds, 1.0)
        _check(
            self._settime(self._timer, 0, _ITIMERSPEC.pack(0, 0, int(whole), int(part * 1e9)), None)
        )

    def close(self) -> None:
        """End the process no more."""
        self._delete(self._timer)
        faulthandler.unregister(EXPIRED)
        signal.signal(EXPIRED, signal.SIG_DFL)


def _library() -> ctypes.CDLL:
    """Return the C library, or the part of it that had the timers before glibc 2.34."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "timer_create"):
        library = ctypes.CDLL("librt.so.1", use_errno=True)
    return library


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
