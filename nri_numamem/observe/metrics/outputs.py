"""Where the metrics go: a server that retries until its address is available, and a text file.

Each has a separate thread, which a disk or a peer may delay. The libraries are imported by `load`
on that thread, so that neither the start of the plugin nor Configure waits for them.

The text file is for the textfile collector of Prometheus's node_exporter, for hosts on which the
plugin cannot be scraped. It is replaced atomically and not flushed to the disk, because it is of no
use after a crash of the host. It is removed at an orderly end, because the exporter would export it
for ever.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from nri_numamem.engine.records.files import (
    MetricsEndpointFailed,
    MetricsEndpointRetrying,
    MetricsEndpointStarted,
    MetricsTextfileFailed,
    MetricsTextfileRetrying,
    MetricsTextfileStarted,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.files import reason_of, traceback_of
from nri_numamem.observe.log.sinks import write_all
from nri_numamem.observe.threads import start_thread

# Another process usually keeps a port for a while.
RETRY_S = 60.0

INTERVAL_S = 15.0
"""The interval at which Prometheus usually scrapes the exporter."""

# The exporter runs as another user.
_MODE = 0o644

# How long close() waits for the thread.
_CLOSE_S = 1.0

Emit: TypeAlias = Callable[[Record], None]


class Output:
    """A thread that repeats its work after pauses. `emit` logs records, from any thread."""

    _name: str
    """That of the thread."""

    def __init__(
        self,
        emit: Emit,
        pause_s: float,
        retrying: Callable[..., Record],
        failed: Callable[..., Record],
    ) -> None:
        """`retrying(cause=…)` and `failed(exception=…)` make the records of errors and bugs."""
        self._emit = emit
        self._pause_s = pause_s
        self._retrying = retrying
        self._failed = failed
        self._reported: set[str] = set()
        """Kinds of errors in the log since the work was last good."""
        self._closing = threading.Event()
        self._waking = threading.Event()
        """Ends the pause."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin the work, unless it has begun; returns immediately.

        If no thread can be started, that is recorded, and another start() tries again.
        """
        if self._thread is None:
            try:
                self._thread = start_thread(self._run, self._name)
            except OSError as error:
                self._report(error)

    def close(self) -> None:
        """End the work; does not wait longer than a second."""
        self._closing.set()
        self._waking.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - a bug must not end more than this output
                self._report(error)
            self._waking.wait(self._pause_s)
            self._waking.clear()
        self._end()

    def _work(self) -> None: ...

    def _end(self) -> None: ...

    def _report(self, error: Exception) -> None:
        """Log the first error of each kind."""
        if isinstance(error, OSError):
            kind = reason_of(error)
            record = self._retrying(cause=kind)
        else:
            kind = type(error).__name__
            record = self._failed(exception=traceback_of(error))
        if kind not in self._reported:
            self._reported.add(kind)
            self._emit(record)


class Server(Protocol):
    """A bound HTTP server."""

    def serve(self) -> None:
        """Serve until close()."""

    def close(self) -> None:
        """End serve(), from another thread."""


Report: TypeAlias = Callable[[Exception], None]
OpenServer: TypeAlias = Callable[[str, Report], Server]
"""(address, report) -> bound server; OSError if the address is not available."""


class MetricsServer(Output):
    """Serves one address, "HOST:PORT" or "unix://PATH"; `load` imports and returns OpenServer."""

    _name = "metrics"

    def __init__(
        self, address: str, load: Callable[[], OpenServer], emit: Emit, *, retry_s: float = RETRY_S
    ) -> None:
        retrying = partial(MetricsEndpointRetrying, address=address)
        super().__init__(emit, retry_s, retrying, partial(MetricsEndpointFailed, address=address))
        self._address = address
        self._load = load
        self._server: Server | None = None

    def retry(self) -> None:
        """Try again at once if the address was not available, and record it if it still is not."""
        self._reported.clear()
        self._waking.set()

    def close(self) -> None:
        """Stop serving and release the port."""
        self._closing.set()
        if self._server is not None:
            self._server.close()
        super().close()

    def _work(self) -> None:
        server = self._load()(self._address, self._report)
        self._server = server
        if self._closing.is_set():  # close() may have come before the assignment
            server.close()
        else:
            self._emit(MetricsEndpointStarted(address=self._address))
        server.serve()


Render: TypeAlias = Callable[[], bytes]
"""Returns the text of the file."""


class TextFile(Output):
    """Writes one text file; `load` imports and returns a Render."""

    _name = "metrics-textfile"

    def __init__(
        self, path: Path, load: Callable[[], Render], emit: Emit, *, interval_s: float = INTERVAL_S
    ) -> None:
        retrying = partial(MetricsTextfileRetrying, path=str(path))
        super().__init__(emit, interval_s, retrying, partial(MetricsTextfileFailed, path=str(path)))
        self._path = path
        # The exporter reads *.prom only.
        self._temporary = path.with_name(f".{path.name}.new")
        self._load = load
        self._render: Render | None = None
        self._is_written = False

    def _work(self) -> None:
        self._render = self._render or self._load()
        self._replace(self._render())
        if not self._is_written or self._reported:
            self._emit(MetricsTextfileStarted(path=str(self._path)))
        self._is_written = True
        self._reported.clear()

    def _replace(self, data: bytes) -> None:
        self._temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(self._temporary, flags, _MODE)
        try:
            os.fchmod(descriptor, _MODE)  # whatever the umask
            write_all(descriptor, data)
            self._temporary.replace(self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                self._temporary.unlink()
            raise
        finally:
            os.close(descriptor)

    def _end(self) -> None:
        if self._is_written:
            with contextlib.suppress(OSError):
                self._path.unlink()
