"""Serves the metrics on a thread of its own, which retries until the address is available.

The libraries for it are imported by `load` on that thread, so that neither the start of the plugin
nor Configure waits for them.
"""

import signal
import threading
import traceback
from collections.abc import Callable
from typing import Protocol, TypeAlias

from nri_numamem.engine.records.files import (
    MetricsEndpointFailed,
    MetricsEndpointRetrying,
    MetricsEndpointStarted,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.metrics.threads import start_thread

# Another process usually keeps a port for a while.
RETRY_S = 60.0

# How long close() waits for the thread.
_CLOSE_S = 1.0


class Server(Protocol):
    """A bound HTTP server."""

    def serve(self) -> None:
        """Serve until close()."""

    def close(self) -> None:
        """End serve(), from another thread."""


Report: TypeAlias = Callable[[Exception], None]
OpenServer: TypeAlias = Callable[[str, Report], Server]
"""(address, report) -> bound server; OSError if the address is not available."""


class MetricsServer:
    """Serves one address, "HOST:PORT". `emit` logs records, from any thread."""

    def __init__(
        self,
        address: str,
        load: Callable[[], OpenServer],
        emit: Callable[[Record], None],
        *,
        retry_s: float = RETRY_S,
    ) -> None:
        self._address = address
        self._load = load
        self._emit = emit
        self._retry_s = retry_s
        self._reported: set[str] = set()
        """Kinds of errors in the log."""
        self._closing = threading.Event()
        self._waking = threading.Event()
        """Ends the wait for the next attempt."""
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to serve, unless it has begun; returns immediately.

        If no thread can be started, that is recorded, and another start() tries again.
        """
        if self._thread is None:
            try:
                self._thread = start_thread(self._run, "metrics")
            except OSError as error:
                self._report(error)

    def retry(self) -> None:
        """Try again at once if the address was not available, and record it if it still is not."""
        self._reported.clear()
        self._waking.set()

    def close(self) -> None:
        """Stop serving and release the port."""
        self._closing.set()
        self._waking.set()
        if self._server is not None:
            self._server.close()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        # Signals must interrupt the main thread; threads of the server inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._closing.is_set():
            try:
                self._serve(self._load()(self._address, self._report))
            except Exception as error:  # noqa: BLE001 - a bug must not end more than the metrics
                self._report(error)
            self._waking.wait(self._retry_s)
            self._waking.clear()

    def _serve(self, server: Server) -> None:
        self._server = server
        if self._closing.is_set():  # close() may have come before the assignment
            server.close()
        else:
            self._emit(MetricsEndpointStarted(address=self._address))
        server.serve()

    def _report(self, error: Exception) -> None:
        """Log the first error of each kind."""
        if isinstance(error, OSError):
            kind = error.strerror or str(error)
            record: Record = MetricsEndpointRetrying(address=self._address, cause=kind)
        else:
            kind = type(error).__name__
            text = "".join(traceback.format_exception(error)).rstrip()
            record = MetricsEndpointFailed(address=self._address, exception=text)
        if kind not in self._reported:
            self._reported.add(kind)
            self._emit(record)
