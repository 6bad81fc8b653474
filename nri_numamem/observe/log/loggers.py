"""Structured logs by structlog: each record goes to one sink.

``configure`` selects the sink, also for loggers that exist already. The keys of a record have a
fixed order: ts, level, event, the fields in the order of the call, then exception.

Logging neither raises an exception nor waits: a thread writes the records (``observe.log.writer``),
and drops and counts what is too much for it. While a sink is broken, records go to the fallback and
have the reason as ``sink_error``.

Neither the standard library's logging nor structlog's global configuration is touched. structlog
imports asyncio, some 6 MiB of the plugin's process. It would import rich as well if that is
installed, and has no setting against it: another 4.4 MiB and 50 ms, for tracebacks in colour that
the plugin never writes.
"""

import atexit
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from nri_numamem.observe.log.journal import JOURNAL_SOCKET, JournalSink, is_stderr
from nri_numamem.observe.log.render import (
    HEAD_KEYS,
    Renderer,
    render_colours,
    render_console,
    render_json,
)
from nri_numamem.observe.log.sinks import FileSink, Sink, StreamSink
from nri_numamem.observe.log.writer import STDERR, LogWriter, Losses, timestamp


@contextmanager
def _not_installed(name: str) -> Iterator[None]:
    """Let imports of a package fail in this context, as if it were not installed.

    A package that was imported before stays. Source: Python Language Reference, "The module cache".
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # None makes the import fail
    try:
        yield
    finally:
        del sys.modules[name]


with _not_installed("rich"):
    import structlog

LOG_FILE = Path("/var/log/nri-numamem/nri-numamem.log")
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Logger(Protocol):
    """Interface of a logger."""

    def debug(self, event: str, /, **fields: object) -> None:
        """Log a detail that helps to find a fault."""

    def info(self, event: str, /, **fields: object) -> None:
        """Log what happened."""

    def warning(self, event: str, /, **fields: object) -> None:
        """Log what an operator should look at."""

    def error(self, event: str, /, **fields: object) -> None:
        """Log a failure."""


class LogOutput:
    """The writer of all loggers, and the level.

    structlog calls the method that has the name of the level, with the record.
    """

    def __init__(self, sinks: tuple[Sink, ...], level: str) -> None:
        self.threshold = LEVELS[level]
        self.losses = Losses()
        self.writer = LogWriter(sinks, self.losses)

    def write(self, record: Mapping[str, object]) -> None:
        """Hand the record to the writer; never waits."""
        try:
            self.writer.put(record)
        except Exception:  # noqa: BLE001 - a log call never fails
            self.losses.add()

    debug = info = warning = error = write


def configure(
    sink: str | Path | Sink = "stderr", level: str = "info", log_format: str = "auto"
) -> None:
    """Send the records of all loggers to `sink` from now on; may wait FLUSH_S for the former one.

    `sink` is "stderr" (the journal's socket if stderr is the journal and `log_format` is "auto"),
    "journal", "auto" (the journal's socket if it exists, else LOG_FILE), the path of a file, or a
    sink. `level` is a key of LEVELS. `log_format` is "json", "console" or
    "auto": console on a terminal, else JSON; the journal has its own format. A sink that cannot be
    opened is not an error here: each record tries it and falls back.
    """
    former, _OUTPUT.writer = (
        _OUTPUT.writer,
        LogWriter(_sinks_for(sink, log_format), _OUTPUT.losses),
    )
    _OUTPUT.threshold = LEVELS[level]
    former.close()


def flush() -> None:
    """Wait until all records are written; after 0.2 s write the others to stderr.

    For a process that is about to end; Python calls it at an ordinary exit.
    """
    _OUTPUT.writer.flush()


def reopen() -> None:
    """Close the log file; the next record opens it, or creates it."""
    _OUTPUT.writer.reopen()


def set_level(level: str) -> None:
    """Drop records below this level from now on."""
    _OUTPUT.threshold = LEVELS[level]


def dropped_records() -> int:
    """Return how many records were dropped since the start."""
    return _OUTPUT.losses.total


def get_logger() -> Logger:
    """Return a logger."""
    unbound = structlog.wrap_logger(_OUTPUT, [_to_record], structlog.BoundLogger)
    logger: Logger = unbound.bind()  # once, not for each record
    return logger


def _sinks_for(sink: str | Path | Sink, log_format: str) -> tuple[Sink, ...]:
    """Return the sink and its fallback."""
    if sink == "auto":
        sink = "journal" if JOURNAL_SOCKET.exists() else LOG_FILE
    stream = StreamSink(STDERR, _stream_renderer(log_format))
    file_renderer = render_console if log_format == "console" else render_json
    if sink == "stderr":
        is_journal = log_format == "auto" and is_stderr(os.environ, STDERR)
        return (JournalSink(JOURNAL_SOCKET), stream) if is_journal else (stream,)
    if sink == "journal":
        return (JournalSink(JOURNAL_SOCKET), FileSink(LOG_FILE, file_renderer))
    if isinstance(sink, str | Path):
        fallback = JournalSink(JOURNAL_SOCKET) if JOURNAL_SOCKET.exists() else stream
        return (FileSink(Path(sink), file_renderer), fallback)
    return (sink,)


def _stream_renderer(log_format: str) -> Renderer:
    is_terminal = os.isatty(STDERR)
    if log_format == "json" or (log_format == "auto" and not is_terminal):
        return render_json
    return render_colours if is_terminal and "NO_COLOR" not in os.environ else render_console


def _to_record(
    output: LogOutput, method: str, fields: MutableMapping[str, Any]
) -> tuple[tuple[dict[str, object]], dict[str, object]]:
    """Drop what is below the level; put time, level and event first: a structlog processor.

    A field with one of these names gets an underscore as suffix. Returns the arguments of the
    output's method.
    """
    if LEVELS[method] < output.threshold:
        raise structlog.DropEvent
    record = {"ts": timestamp(), "level": method, "event": fields.pop("event")}
    record |= {f"{key}_" if key in HEAD_KEYS else key: value for key, value in fields.items()}
    return (record,), {}


_OUTPUT = LogOutput((StreamSink(STDERR, _stream_renderer("auto")),), "info")
atexit.register(flush)
