"""The running calls of one connection, each on a thread of its own.

The connection's thread starts them and takes their results. A file descriptor is readable when a
result waits, so that poll(2) waits for the client and for the calls.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nri_numamem.grpc.server_connection import Request, ServerConnection
from nri_numamem.ttrpc.status import Code, StatusError


class Result(NamedTuple):
    """The end of a call."""

    request: Request
    outcome: bytes | StatusError
    """The payload of the reply, or the error."""

    def reply(self, connection: ServerConnection) -> None:
        """Reply to the client."""
        if isinstance(self.outcome, StatusError):
            connection.reply_error(self.request, self.outcome)
        else:
            connection.reply(self.request, self.outcome)


class Calls:
    """The calls of a connection; all methods are for its thread."""

    def __init__(self) -> None:
        self.running = 0
        """Number of calls whose results are not taken."""
        self._results: queue.SimpleQueue[tuple[threading.Thread | None, Result]]
        self._results = queue.SimpleQueue()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """Return a file descriptor that is readable while a result waits."""
        return self._ready

    def start(self, request: Request, handle: Callable[[Request], bytes]) -> None:
        """Start a call; its handler may raise StatusError."""
        self.running += 1
        thread = threading.Thread(
            target=self._run, args=(request, handle), name="grpc-call", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # a limit of threads
            error = StatusError(Code.UNAVAILABLE, "the server cannot start a thread for the call")
            self._end(None, Result(request, error))

    def take(self) -> Iterator[Result]:
        """Yield the results that wait."""
        try:
            os.eventfd_read(self._ready)
        except BlockingIOError:
            return
        while not self._results.empty():
            yield self._next()

    def close(self) -> None:
        """Wait for all calls."""
        while self.running:
            self._next()
        os.close(self._ready)

    def _next(self) -> Result:
        thread, result = self._results.get()
        if thread is not None:
            thread.join()  # it still uses the file descriptor
        self.running -= 1
        return result

    def _run(self, request: Request, handle: Callable[[Request], bytes]) -> None:
        outcome: bytes | StatusError = StatusError(Code.UNKNOWN, "the call ended without a result")
        try:
            outcome = handle(request)
        except StatusError as error:
            outcome = error
        finally:
            self._end(threading.current_thread(), Result(request, outcome))

    def _end(self, thread: threading.Thread | None, result: Result) -> None:
        self._results.put((thread, result))
        os.eventfd_write(self._ready, 1)
