"""Structured logs: each record goes to one sink, chosen by ``configure``.

The keys of a record have a fixed order: ts, level, event, the fields, then exception.

Logging neither raises an exception nor waits: a thread writes the records (``observe.log.writer``),
and drops and counts what is too much for it. While a sink is broken, records go to the fallback and
have the reason as ``sink_error``. The standard library's logging is not touched.
"""

import atexit
import os
from collections.abc import Mapping
from pathlib import Path

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

LOG_FILE = Path("/var/log/nri-numamem/nri-numamem.log")
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Logger:
    """The log of this process. A field named as a key of each record gets an underscore."""

    def __init__(self, sinks: tuple[Sink, ...], level: str) -> None:
        self.threshold = LEVELS[level]
        self.losses = Losses()
        self.writer = LogWriter(sinks, self.losses)

    def debug(self, event: str, /, **fields: object) -> None:
        """Log a detail that helps to find a fault."""
        self._log("debug", event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Log what happened."""
        self._log("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log what an operator should look at."""
        self._log("warning", event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Log a failure."""
        self._log("error", event, fields)

    def _log(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        if LEVELS[level] < self.threshold:
            return
        record = {"ts": timestamp(), "level": level, "event": event}
        others = {f"{key}_" if key in HEAD_KEYS else key: value for key, value in fields.items()}
        try:
            self.writer.put(record | others)
        except Exception:  # noqa: BLE001 - a log call never fails
            self.losses.add()


def configure(
    sink: str | Path | Sink = "stderr", level: str = "info", log_format: str = "auto"
) -> None:
    """Send all records to `sink` from now on; may wait 0.2 s for the former one.

    `sink` is "stderr" (the journal's socket if stderr is the journal and `log_format` is "auto"),
    "journal", "auto" (the journal's socket if it exists, else LOG_FILE), the path of a file, or a
    sink. `level` is a key of LEVELS. `log_format` is "json", "console" or
    "auto": console on a terminal, else JSON; the journal has its own format. A sink that cannot be
    opened is no error here: each record tries it and falls back.
    """
    sinks = _sinks_for(sink, log_format)
    former, _LOGGER.writer = _LOGGER.writer, LogWriter(sinks, _LOGGER.losses)
    _LOGGER.threshold = LEVELS[level]
    former.close()


def flush() -> None:
    """Wait until all records are written; after 0.2 s write the others to stderr.

    For a process that is about to end; Python calls it at an ordinary exit.
    """
    _LOGGER.writer.flush()


def reopen() -> None:
    """Close the log file; the next record opens it, or creates it."""
    _LOGGER.writer.reopen()


def set_level(level: str) -> None:
    """Drop records below this level from now on."""
    _LOGGER.threshold = LEVELS[level]


def dropped_records() -> int:
    """Return how many records were dropped since the start."""
    return _LOGGER.losses.total


def get_logger() -> Logger:
    """Return the log of this process; it follows each ``configure``."""
    return _LOGGER


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


_LOGGER = Logger((StreamSink(STDERR, _stream_renderer("auto")),), "info")
atexit.register(flush)
