"""Threads beside the event loop. A process at its limit of threads goes on without them."""

import errno
import signal
import threading
from collections.abc import Callable

NO_THREAD = "the process is at its limit of threads (TasksMax, pids.max, ulimit -u)"


def no_thread_error() -> OSError:
    """Return the error of a thread that the kernel refuses; Python raises a RuntimeError."""
    return OSError(errno.EAGAIN, NO_THREAD)


def start_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """Start a thread; OSError at the limit.

    It does not keep the process from ending, and blocks all signals, which must interrupt the main
    thread; so do the threads that it starts.
    """

    def masked() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        run()

    thread = threading.Thread(target=masked, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise no_thread_error() from error
    return thread
