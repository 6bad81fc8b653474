"""Signals as bytes on a socket, so that the serving loop reads them between two requests.

SIGTERM and SIGINT stop the plugin, SIGUSR1 dumps its state to the log, SIGHUP opens the log file
and reads the configuration again, SIGUSR2 switches the log level debug on and off; ``cli.main``
ignores the last three before they are handled here. Python's own handlers run between two
bytecodes; the wake-up descriptor ends a wait in the kernel at once.
"""

import signal
import socket
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

STOPPING = (signal.SIGTERM, signal.SIGINT)
DUMP_STATE = signal.SIGUSR1
RELOAD = signal.SIGHUP
TOGGLE_DEBUG = signal.SIGUSR2
_NO_SIGNAL = 0
_HANDLED = (*STOPPING, DUMP_STATE, RELOAD, TOGGLE_DEBUG)


class Signals:
    """A context in which the process's signals arrive on `wake`. For the main thread."""

    def __init__(self) -> None:
        self.wake, self._writer = socket.socketpair()
        self.wake.setblocking(False)  # noqa: FBT003 - its only argument
        self._writer.setblocking(False)  # noqa: FBT003 - its only argument
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        """Install the handlers."""
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _HANDLED:
            self._before[number] = signal.signal(number, _noted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what signal() returned
        signal.set_wakeup_fd(self._wakeup_before)
        self.wake.close()
        self._writer.close()

    def take(self) -> set[int]:
        """Return the numbers of the signals that came since the last call; never waits."""
        try:
            return set(self.wake.recv(4096)) - {_NO_SIGNAL}
        except BlockingIOError:
            return set()

    def wake_up(self) -> None:
        """Make `wake` readable without a signal; any thread may call it, also after the end."""
        with suppress(OSError):  # the buffer is full, hence readable, or the socket is closed
            self._writer.send(bytes([_NO_SIGNAL]))


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the wake-up descriptor has ended the wait already."""
