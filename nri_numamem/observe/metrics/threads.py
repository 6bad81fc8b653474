"""Threads of the metrics. A process at its limit of threads goes on without them."""

import errno
import threading
from collections.abc import Callable

NO_THREAD = "the process is at its limit of threads (TasksMax, pids.max, ulimit -u)"


def no_thread_error() -> OSError:
    """Return the error of a thread that the kernel refuses; Python raises a RuntimeError."""
    return OSError(errno.EAGAIN, NO_THREAD)


def start_thread(run: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread that does not keep the process from ending; OSError at the limit."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise no_thread_error() from error
    return thread
