"""Structured logs: one record per thing worth telling, by structlog, to one sink.

``configure`` says where records go, ``get_logger`` gives a logger to bind fields to. A record has
its keys in a fixed order: ts, level, event, then the fields as they were bound and given, then
exception. Loggers taken before ``configure`` follow it.

Logging neither raises nor waits for a reader (a file is written at once). A record that a busy
sink does not take is dropped and counted, and the count travels as ``dropped_records`` with the
next record that gets through. A sink that is broken is replaced by the fallback for this one
record, which then says so (``sink_error``).

Of structlog one module is imported, with the first logger. The package itself imports all of its
modules, and with them asyncio, OpenSSL and rich: that takes 20 ms (50 with rich) and 7 MB, a
quarter of the plugin. Nothing of the standard library's logging, and none of structlog's own
global set-up, is touched.
"""

import contextlib
import functools
import importlib.util
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Protocol

from nri_numamem.observe.journal import JOURNAL_SOCKET, JournalSink
from nri_numamem.observe.render import (
    EXCEPTION_KEY,
    HEAD_KEYS,
    Renderer,
    render_colours,
    render_console,
    render_json,
)
from nri_numamem.observe.sinks import FileSink, Sink, StreamSink

LOG_FILE = Path("/var/log/nri-numamem/nri-numamem.log")
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_STDERR = 2
# A traceback of a deep recursion is long and says little; its end says most.
_EXCEPTION_CHARACTERS = 16 * 1024


class Logger(Protocol):
    """What the rest of the program sees of a logger."""

    def bind(self, **fields: object) -> "Logger":
        """Return a logger that adds these fields to each of its records."""

    def debug(self, event: str, /, **fields: object) -> None:
        """Tell something that only matters when looking for a fault."""

    def info(self, event: str, /, **fields: object) -> None:
        """Tell what happened."""

    def warning(self, event: str, /, **fields: object) -> None:
        """Tell what an operator should look at."""

    def error(self, event: str, /, **fields: object) -> None:
        """Tell what failed."""

    def exception(self, event: str, /, **fields: object) -> None:
        """Tell what failed, with the traceback of the exception being handled."""


class LogOutput:
    """The sinks behind all loggers, the level, and the count of what was lost."""

    def __init__(self, sinks: tuple[Sink, ...], level: str) -> None:
        self.threshold = LEVELS[level]
        self.dropped_records = 0
        self._sinks = sinks
        # A signal handler may log while its thread is logging.
        self._lock = threading.RLock()

    def replace(self, sinks: tuple[Sink, ...], level: str) -> None:
        """Send records elsewhere from now on; the former sinks are closed."""
        with self._lock:
            former, self._sinks = self._sinks, sinks
            self.threshold = LEVELS[level]
            for sink in former:
                with contextlib.suppress(OSError):
                    sink.close()

    def write(self, record: dict[str, object]) -> None:
        """Hand the record to the first sink that takes it; count it when none does."""
        with self._lock:
            told = self.dropped_records
            if told:
                record["dropped_records"] = told
            for sink in self._sinks:
                try:
                    sink.write(record)
                except BlockingIOError:
                    break  # the sink is well; what has to wait is not worth another place
                except OSError as error:
                    record.setdefault("sink_error", str(error))
                else:
                    self.dropped_records -= told
                    return
            self.dropped_records += 1

    def count_lost(self) -> None:
        """Count a record that could not even be made."""
        with self._lock:
            self.dropped_records += 1


def configure(
    sink: str | Path | Sink = "stderr", level: str = "info", log_format: str = "auto"
) -> None:
    """Send the records of all loggers to `sink` from now on.

    `sink` is "stderr", "journal", "auto" (for a plugin without stderr: the journal's socket when
    it exists, else LOG_FILE), the path of a file, or a sink. `level` is a key of LEVELS.
    `log_format` is "json", "console", or "auto": for people on a terminal, JSON elsewhere; the
    journal has a form of its own. A sink that cannot be opened is no error here: each record
    tries it, and then takes the fallback.
    """
    _OUTPUT.replace(_sinks_for(sink, log_format), level)


def dropped_records() -> int:
    """Return how many records were lost and not yet told of."""
    return _OUTPUT.dropped_records


def get_logger(**fields: object) -> Logger:
    """Return a logger that adds these fields to each of its records."""
    logger: Logger = _logger_class()(_OUTPUT, (_add_exception, _fix_order), fields)
    return logger


def _sinks_for(sink: str | Path | Sink, log_format: str) -> tuple[Sink, ...]:
    """Return the sink and what stands in for it."""
    if sink == "auto":
        sink = "journal" if JOURNAL_SOCKET.exists() else LOG_FILE
    stream = StreamSink(_STDERR, _stream_renderer(log_format))
    file_renderer = render_console if log_format == "console" else render_json
    if sink == "stderr":
        return (stream,)
    if sink == "journal":
        return (JournalSink(JOURNAL_SOCKET), FileSink(LOG_FILE, file_renderer))
    if isinstance(sink, str | Path):
        fallback = JournalSink(JOURNAL_SOCKET) if JOURNAL_SOCKET.exists() else stream
        return (FileSink(Path(sink), file_renderer), fallback)
    return (sink,)


def _stream_renderer(log_format: str) -> Renderer:
    is_terminal = os.isatty(_STDERR)
    if log_format == "json" or (log_format == "auto" and not is_terminal):
        return render_json
    return render_colours if is_terminal and "NO_COLOR" not in os.environ else render_console


def _add_exception(
    _logger: object, _method: str, record: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    """Replace `exc_info` (true, or an exception) by the traceback's text; a structlog processor."""
    given = record.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else sys.exc_info()[1] if given else None
    if error is not None:
        text = "".join(traceback.format_exception(error)).rstrip()
        record[EXCEPTION_KEY] = text[-_EXCEPTION_CHARACTERS:]
    return record


def _fix_order(_logger: object, method: str, record: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Put time, level and event first; a structlog processor.

    A field that is called like one of them gets an underscore behind its name.
    """
    now_ms = time.time_ns() // 1_000_000
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ms // 1000))
    head = {"ts": f"{seconds}.{now_ms % 1000:03}Z", "level": method, "event": record.pop("event")}
    exception = record.pop(EXCEPTION_KEY, None)
    head |= {f"{key}_" if key in HEAD_KEYS else key: value for key, value in record.items()}
    return head if exception is None else head | {EXCEPTION_KEY: exception}


@contextlib.contextmanager
def _unrun(package: str) -> Iterator[None]:
    """Let modules of a package be imported, while its own is found but not run."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ImportError(package)
    sys.modules[package] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        # Whoever else wants the package imports it whole.
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]


def _bound_logger_base() -> type[Any]:
    """Return structlog's class, from the whole package only if it must be."""
    if "structlog" not in sys.modules:
        with contextlib.suppress(ImportError), _unrun("structlog"):
            from structlog._base import BoundLoggerBase as Base  # noqa: PLC0415 - see above

            return Base
    from structlog import BoundLoggerBase  # noqa: PLC0415 - see the module's docstring

    return BoundLoggerBase


@functools.cache
def _logger_class() -> type[Any]:
    """Return the class of the loggers; structlog is imported by the first call."""
    base: Any = _bound_logger_base()

    class BoundLogger(base):  # type: ignore[misc] # known at run time
        """A logger whose level can change at any time, and which never raises."""

        def debug(self, event: str, /, **fields: object) -> None:
            self._tell("debug", event, fields)

        def info(self, event: str, /, **fields: object) -> None:
            self._tell("info", event, fields)

        def warning(self, event: str, /, **fields: object) -> None:
            self._tell("warning", event, fields)

        def error(self, event: str, /, **fields: object) -> None:
            self._tell("error", event, fields)

        def exception(self, event: str, /, **fields: object) -> None:
            self._tell("error", event, {"exc_info": True, **fields})

        def _tell(self, level: str, event: str, fields: dict[str, Any]) -> None:
            output: LogOutput = self._logger
            if LEVELS[level] < output.threshold:
                return
            try:
                _, record = self._process_event(level, event, fields)
                output.write(dict(record))
            except Exception:  # noqa: BLE001 - whatever a log call does, its caller goes on
                output.count_lost()

    return BoundLogger


_OUTPUT = LogOutput((StreamSink(_STDERR, _stream_renderer("auto")),), "info")
