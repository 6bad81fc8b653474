"""The plugin with short waits, in a pids cgroup or with forks and threads that fail on request.

The first three arguments are the cgroup that it enters, the file of `tests.pids_limit`, each "" for
none, and the socket of a launched plugin's runtime. Run like nri-numamem, or launched by a runtime.
"""

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nri_numamem.cli import main
from nri_numamem.daemon import liveness, restarted, supervisor
from nri_numamem.nri import event_loop

CGROUP, FILE, SOCKET = sys.argv[1:4]
del sys.argv[1:4]
if CGROUP:
    Path(CGROUP, "cgroup.procs").write_text(str(os.getpid()))


def refusing(start: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    def refuse(*arguments: object) -> object:
        try:
            descriptor = os.open(FILE, os.O_WRONLY | os.O_APPEND)
        except OSError:
            return start(*arguments)
        os.write(descriptor, b".")
        os.close(descriptor)
        raise error

    return refuse


if FILE:
    os.fork = refusing(os.fork, BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)))
    thread_error = RuntimeError("can't start new thread")
    threading._start_new_thread = refusing(threading._start_new_thread, thread_error)  # type: ignore[attr-defined]

liveness.STUCK_S, liveness.SAMPLE_S, event_loop.TICK_S = 1.5, 0.3, 0.2
supervisor.PAUSE_S, supervisor.RETRY_S = 0.05, 0.1
vars(restarted)["DEFAULT_SOCKET"] = Path(SOCKET)
sys.exit(main.main())
