"""An exchange of files with another process: a thread reads and writes, the main thread decides.

A disk can take long, and requests must not wait for it. The thread reads what the other process
wants when a datagram arrives, and each LOOK_S, and wakes the main thread if it has changed. The
main thread takes it between two requests, and hands over what is to be written.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from nri_numamem.observe.threads import start_thread
from nri_numamem.observe.wake import WakeSocket, wake

LOOK_S = 2.0
"""Between two readings without a datagram."""

_W = TypeVar("_W")
_D = TypeVar("_D")


class FileExchange(Generic[_W, _D]):
    """The thread of one exchange, and what passes between it and the main thread.

    `file` is the one that this process writes. The thread calls `read`, which returns None for
    files that it cannot read, and `write` with all that was handed over, the oldest first; neither
    raises OSError. `wake_up` wakes the main thread.
    """

    def __init__(
        self,
        name: str,
        file: Path,
        read: Callable[[], _W | None],
        write: Callable[[Sequence[_D]], None],
        wake_up: Callable[[], None],
    ) -> None:
        self._name = name
        self._file = file
        self._read = read
        self._write = write
        self._wake_up = wake_up
        self._found: _W | None = None
        """What the thread has read last. Only the thread sets it."""
        self._taken: _W | None = None
        """What the main thread has taken last."""
        self._decided: SimpleQueue[_D] = SimpleQueue()
        self._socket: WakeSocket | None = None

    def start(self, begin: Callable[[_W | None], None] = lambda _: None) -> None:
        """Start the thread, which calls `begin` with what it reads first; raises OSError."""
        sock = self._socket = WakeSocket(self._file, LOOK_S)
        start_thread(lambda: self._run(sock, begin), self._name)

    def close(self) -> None:
        """End the thread; the files stay."""
        if self._socket is not None:
            self._socket.close()

    # The main thread.

    @property
    def is_new(self) -> bool:
        """Whether something was read and not taken."""
        return self._found is not self._taken

    def take(self) -> _W | None:
        """Return what was read last; None if it is not new."""
        found = self._found
        if found is self._taken:
            return None
        self._taken = found
        return found

    def hand_over(self, decided: _D) -> None:
        """Let the thread write what was decided."""
        self._decided.put(decided)
        wake(self._file)

    # The thread.

    def _run(self, sock: WakeSocket, begin: Callable[[_W | None], None]) -> None:
        """Read and write files until the socket is closed."""
        found = self._read()
        begin(found)
        while True:
            if found is not None and found != self._found:
                self._found = found
                self._wake_up()
            if not sock.wait():
                return
            decided: list[_D] = []
            try:
                while True:
                    decided.append(self._decided.get_nowait())
            except Empty:
                if decided:
                    self._write(decided)
            found = self._read()
