"""Writes the metrics to a text file for the textfile collector of Prometheus's node_exporter.

For hosts on which the plugin cannot be scraped. A thread of its own writes the file, so a file
system that is frozen or a disk that hangs delays nothing else. The file is replaced atomically and
not flushed to the disk: it is of no use after a crash of the host. It is removed at an orderly end,
because the exporter would export it for ever.
"""

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from nri_numamem.engine.records.files import (
    MetricsTextfileFailed,
    MetricsTextfileRetrying,
    MetricsTextfileStarted,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.log.sinks import write_all
from nri_numamem.observe.metrics.threads import start_thread

INTERVAL_S = 15.0
"""The interval at which Prometheus usually scrapes the exporter."""

# The exporter has a user of its own.
_MODE = 0o644

# How long close() waits for a write to end.
_CLOSE_S = 1.0

Render: TypeAlias = Callable[[], bytes]
"""Returns the text of the file."""


class TextFile:
    """One text file. `emit` logs records, from any thread; `load` imports and returns a Render."""

    def __init__(
        self,
        path: Path,
        load: Callable[[], Render],
        emit: Callable[[Record], None],
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._path = path
        # The exporter reads *.prom only.
        self._temporary = path.with_name(f".{path.name}.new")
        self._load = load
        self._emit = emit
        self._interval_s = interval_s
        self._reported: set[str] = set()
        """Kinds of errors in the log since the last successful write."""
        self._is_written = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write, unless it has begun; returns immediately.

        If no thread can be started, that is recorded, and another start() tries again.
        """
        if self._thread is None:
            try:
                self._thread = start_thread(self._run, "metrics-textfile")
            except OSError as error:
                self._retry(error)

    def close(self) -> None:
        """Stop writing, and remove the file; does not wait longer than a second."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        render: Render | None = None
        while not self._closing.is_set():
            try:
                render = render or self._load()
                self._replace(render())
            except OSError as error:
                self._retry(error)
            except Exception as error:  # noqa: BLE001 - a bug must not end more than this file
                text = "".join(traceback.format_exception(error)).rstrip()
                kind = type(error).__name__
                self._report(kind, MetricsTextfileFailed(path=str(self._path), exception=text))
            else:
                self._written()
            self._closing.wait(self._interval_s)
        if self._is_written:
            with contextlib.suppress(OSError):
                self._path.unlink()

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

    def _written(self) -> None:
        if not self._is_written or self._reported:
            self._emit(MetricsTextfileStarted(path=str(self._path)))
        self._is_written = True
        self._reported.clear()

    def _retry(self, error: OSError) -> None:
        cause = error.strerror or str(error)
        self._report(cause, MetricsTextfileRetrying(path=str(self._path), cause=cause))

    def _report(self, kind: str, record: Record) -> None:
        """Log the first error of each kind."""
        if kind not in self._reported:
            self._reported.add(kind)
            self._emit(record)
