"""Writes log records by a thread, so that no log call waits for a disk or a reader.

A write to a file waits while its file system is frozen (fsfreeze) or its disk hangs, and the event
loop must not wait with it: runtimes disconnect a plugin that replies late. So records pass a
bounded queue. A record that finds the queue full, or that no sink accepts, is dropped and counted;
the record ``log_records_dropped`` precedes the next record that is written.

``flush`` waits for the queue for a limited time, and then writes what is left to stderr. A process
flushes before it exits, and before a reply after which it may be killed.
"""

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeAlias

from nri_numamem.engine.records.files import LogRecordsDropped
from nri_numamem.observe.log.bounds import bounded
from nri_numamem.observe.log.render import Record, render_json
from nri_numamem.observe.log.sinks import Sink, StreamSink
from nri_numamem.observe.threads import start_thread

QUEUE_RECORDS = 4096
"""A request makes a few records, a Synchronize one per container. A container's record takes 4 kB
on a machine with eight NUMA nodes and 8 kB with 64, so a full queue takes 16 or 32 MiB."""

FLUSH_S = 0.2

STDERR = 2

_Item: TypeAlias = Record | Callable[[], object] | None
"""A record to write, a function to call when all earlier records are written, or None for the
end."""


def timestamp() -> str:
    """Return the present time as in a record: UTC, RFC 3339 with milliseconds."""
    now_ms = time.time_ns() // 1_000_000
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ms // 1000))
    return f"{seconds}.{now_ms % 1000:03}Z"


class Losses:
    """Counts dropped records. Any thread may call the methods, also in a signal handler."""

    def __init__(self) -> None:
        self.total = 0
        """Records that were dropped since the start."""
        self.unreported = 0
        """Records that were dropped since the last record log_records_dropped."""
        self._lock = threading.RLock()

    def add(self) -> None:
        """Count a dropped record."""
        with self._lock:
            self.total += 1
            self.unreported += 1

    def reported(self, count: int) -> None:
        """Note that a record reported this number of dropped records."""
        with self._lock:
            self.unreported -= count


class LogWriter:
    """Sinks and the thread that writes to them. A record goes to the first sink that accepts it.

    The thread starts with the first record. It is a daemon thread: a disk that hangs must not keep
    the process from ending.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        losses: Losses,
        *,
        limit: int = QUEUE_RECORDS,
        descriptor: int = STDERR,
    ) -> None:
        self._sinks = sinks
        self._losses = losses
        self._limit = limit
        self._descriptor = descriptor
        """Takes what flush() could not write."""
        # Its put() is atomic, so a signal handler or an exception of one may interrupt a caller.
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Of two threads that log at the same time only one starts the writing thread.
        self._starting = threading.RLock()

    def put(self, record: Record) -> None:
        """Hand over a record that does not change any more; never waits."""
        if self._queue.qsize() >= self._limit:
            self._losses.add()
            return
        self._queue.put(record)
        if not self._is_running():
            with self._starting:
                if not self._is_running():
                    # At a limit of threads the record waits for the next one, or for a flush.
                    with contextlib.suppress(OSError):
                        self._thread = start_thread(self._run, "log")

    def reopen(self) -> None:
        """Close the sinks after the records before; the next record opens them again."""
        if self._thread is not None:
            self._queue.put(self._close_sinks)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all records before are written; after the time write them to stderr.

        The time is FLUSH_S by default.
        """
        if self._thread is None:  # at a limit of threads records may wait for one
            self._divert()
            return
        written = threading.Event()
        self._queue.put(written.set)
        if not written.wait(FLUSH_S if timeout_s is None else timeout_s):
            self._divert()

    def close(self) -> None:
        """Flush, and end the thread, which closes the sinks."""
        self.flush()
        if self._thread is None:
            self._close_sinks()
        else:
            self._queue.put(None)

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if callable(item):
                item()
            else:
                self._write(item)
        self._close_sinks()

    def _write(self, item: Record) -> None:
        try:
            record = bounded(item)
        except Exception:  # noqa: BLE001 - a value that cannot be shown must not end the thread
            self._losses.add()
            return
        count = self._losses.unreported
        if count:
            loss = LogRecordsDropped(dropped_records=count)
            head = {"ts": timestamp(), "level": loss.level, "event": loss.event}
            if self._deliver({**head, "dropped_records": count}):
                self._losses.reported(count)
        if not self._deliver(record):
            self._losses.add()

    def _deliver(self, record: Record) -> bool:
        """Write a record to the first sink that works; return whether one did."""
        for sink in self._sinks:
            try:
                sink.write(record)
            except BlockingIOError:
                return False  # a busy sink is not broken: the record is dropped
            except OSError as error:
                record = {**record, "sink_error": record.get("sink_error", str(error))}
            except Exception:  # noqa: BLE001 - a bug must not end the thread
                return False
            else:
                return True
        return False

    def _divert(self) -> None:
        """Write the queue to the descriptor, without waiting for it."""
        sinks = () if self._is_file() else (StreamSink(self._descriptor, render_json),)
        other = LogWriter(sinks, self._losses)
        with contextlib.suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if callable(item):
                    item()
                elif item is not None:
                    other._write(item)

    def _is_file(self) -> bool:
        """Return whether the descriptor is a file, which may be on the file system that hangs."""
        try:
            return stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        except OSError:
            return False  # writing to a closed descriptor fails at once

    def _close_sinks(self) -> None:
        for sink in self._sinks:
            with contextlib.suppress(OSError):
                sink.close()
