"""Loggers: order and content of records, levels, losses, fallbacks, and a cheap import."""

import gc
import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.log.journal import JournalSink
from nri_numamem.observe.log.render import Record, render_colours, render_console, render_json
from nri_numamem.observe.log.sinks import FileSink, StreamSink
from tests.simulated_host import wait_for

pytestmark = pytest.mark.usefixtures("restored_output")


class ListSink:
    """Keeps records; raises what a test puts into `error`."""

    def __init__(self) -> None:
        self._records: list[dict[str, object]] = []
        self.error: Exception | None = None
        self.is_closed = False

    @property
    def records(self) -> list[dict[str, object]]:
        logs.flush()
        return self._records

    def write(self, record: Record) -> None:
        if self.error is not None:
            raise self.error
        self._records.append(dict(record))

    def close(self) -> None:
        self.is_closed = True
        if self.error is not None:
            raise self.error


@pytest.fixture
def sink() -> ListSink:
    sink = ListSink()
    logs.configure(sink, level="debug")
    return sink


def test_a_record_has_its_keys_in_order(sink: ListSink) -> None:
    log = logs.get_logger()
    log.info("container placed", component="engine", op_id=7, pod="a", nodes="0-1")
    (record,) = sink.records
    assert list(record) == ["ts", "level", "event", "component", "op_id", "pod", "nodes"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(record["ts"]))
    assert record["level"] == "info"
    assert record["event"] == "container placed"


def test_the_time_is_utc(sink: ListSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_042_999_999)
    logs.get_logger().info("x")
    assert sink.records[0]["ts"] == "2023-11-14T22:13:20.042Z"


def test_each_method_has_its_level(sink: ListSink) -> None:
    log = logs.get_logger()
    log.debug("x")
    log.info("x")
    log.warning("x")
    log.error("x")
    levels = [record["level"] for record in sink.records]
    assert levels == ["debug", "info", "warning", "error"]


@pytest.mark.parametrize("level", list(logs.LEVELS))
def test_loggers_follow_the_configured_level(level: str) -> None:
    log = logs.get_logger()
    sink = ListSink()
    logs.configure(sink, level=level)
    for method in (log.debug, log.info, log.warning, log.error):
        method("x")
    names = list(logs.LEVELS)
    assert [record["level"] for record in sink.records] == names[names.index(level) :]


def test_fields_cannot_replace_time_and_level(sink: ListSink) -> None:
    logs.get_logger().info("x", ts="t", level=3)
    (record,) = sink.records
    assert record["event"] == "x"
    assert record["level"] == "info"
    assert (record["ts_"], record["level_"]) == ("t", 3)


def test_an_exception_is_at_the_end(sink: ListSink) -> None:
    logs.get_logger().error("request failed", exception="KeyError: 'missing'", pod="a")
    (record,) = sink.records
    assert list(record) == ["ts", "level", "event", "pod", "exception"]
    assert record["exception"] == "KeyError: 'missing'"


def test_an_endless_exception_keeps_its_end(sink: ListSink) -> None:
    logs.get_logger().error("x", exception="a" * 100_000 + "end")
    assert len(str(sink.records[0]["exception"])) == 16 * 1024
    assert str(sink.records[0]["exception"]).endswith("aend")


def test_records_that_a_sink_drops_are_counted(sink: ListSink) -> None:
    log = logs.get_logger()
    sink.error = BlockingIOError()
    for _ in range(3):
        log.info("lost")
    logs.flush()
    assert logs.dropped_records() == 3
    sink.error = None
    log.info("through")
    assert [record["event"] for record in sink.records] == ["log_records_dropped", "through"]
    assert sink.records[0]["dropped_records"] == 3
    assert logs.dropped_records() == 3


def test_logging_never_raises(sink: ListSink) -> None:
    sink.error = RuntimeError("a bug in a sink")
    logs.get_logger().error("x")
    logs.flush()
    assert logs.dropped_records() == 1
    sink.error = None


def test_without_a_thread_records_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    sink = ListSink()
    logs.configure(sink)
    dropped = logs.dropped_records()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        for event in ("first", "second"):
            logs.get_logger().error(event)
    assert logs.dropped_records() == dropped
    logs.get_logger().error("third")
    logs.flush()
    assert [record["event"] for record in sink.records] == ["first", "second", "third"]


def test_former_sinks_are_closed(sink: ListSink) -> None:
    sink.error = OSError("cannot be closed")
    logs.configure(ListSink())
    assert sink.is_closed
    second = ListSink()
    logs.configure(second)
    logs.get_logger().info("x")
    logs.configure(ListSink())
    wait_for(lambda: second.is_closed)


def test_a_log_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    logs.configure(path)
    logs.get_logger().info("one")
    logs.flush()
    path.rename(tmp_path / "plugin.log.1")
    logs.reopen()
    logs.get_logger().info("two")
    logs.flush()
    assert json.loads(path.read_text())["event"] == "two"


def test_a_file_gets_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    for name in (path, str(path)):
        logs.configure(name)
        logs.get_logger().info("started", version="1")
    logs.flush()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["event"], line["version"]) for line in lines] == [("started", "1")] * 2
    logs.configure(path, log_format="console")
    logs.get_logger().info("started")
    logs.flush()
    assert path.read_text().splitlines()[-1].endswith(" info    started")


def test_a_file_that_cannot_be_made_falls_back_to_stderr(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(logs, "JOURNAL_SOCKET", tmp_path / "none")
    (tmp_path / "file").write_text("")
    logs.configure(tmp_path / "file" / "below")
    logs.get_logger().warning("x")
    logs.flush()
    record = json.loads(capfd.readouterr().err)
    assert record["event"] == "x"
    assert "file/below" in record["sink_error"] or "file" in record["sink_error"]


def test_stderr_that_is_the_journal_is_not_used_as_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert kinds("stderr") == [StreamSink]
    monkeypatch.setattr(logs, "is_stderr", lambda _environment, _descriptor: True)
    assert kinds("stderr") == [JournalSink, StreamSink]
    # An explicit format is for whatever reads the stream.
    assert [type(found) for found in logs._sinks_for("stderr", "json")] == [StreamSink]


def kinds(sink: str | Path) -> list[type]:
    return [type(found) for found in logs._sinks_for(sink, "auto")]


def test_the_fallback_of_each_sink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(logs, "JOURNAL_SOCKET", tmp_path / "none")
    assert kinds("stderr") == [StreamSink]
    assert kinds("journal") == [JournalSink, FileSink]
    assert kinds("auto") == [FileSink, StreamSink]
    assert kinds(tmp_path / "x") == [FileSink, StreamSink]
    (tmp_path / "none").touch()
    assert kinds("auto") == [JournalSink, FileSink]
    assert kinds(tmp_path / "x") == [FileSink, JournalSink]


def test_the_format_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(os, "isatty", lambda _: False)
    assert logs._stream_renderer("auto") is render_json
    assert logs._stream_renderer("json") is render_json
    assert logs._stream_renderer("console") is render_console
    monkeypatch.setattr(os, "isatty", lambda _: True)
    assert logs._stream_renderer("auto") is render_colours
    assert logs._stream_renderer("json") is render_json
    monkeypatch.setenv("NO_COLOR", "1")
    assert logs._stream_renderer("auto") is render_console


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_structlogs_own_configuration_is_not_touched() -> None:
    script = (
        "import structlog\nfrom nri_numamem.observe.log import loggers as logs\n"
        "logs.get_logger().info('x')\nprint(structlog.is_configured())"
    )
    assert run(script) == "False\n"


def test_an_exit_writes_what_was_logged(tmp_path: Path) -> None:
    script = (
        "from nri_numamem.observe.log import loggers as logs\n"
        f"logs.configure({str(tmp_path / 'log')!r})\n"
        "for number in range(100): logs.get_logger().info('x')\n"
    )
    run(script)
    assert len((tmp_path / "log").read_text().splitlines()) == 100


def test_a_hidden_package_cannot_be_imported_meanwhile() -> None:
    name = "wave"  # a module that nothing here needs
    sys.modules.pop(name, None)
    with logs._not_installed(name), pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    assert importlib.import_module(name).__name__ == name


def test_it_is_visible_again_after_an_error() -> None:
    sys.modules.pop("wave", None)
    with pytest.raises(RuntimeError), logs._not_installed("wave"):
        raise RuntimeError
    assert importlib.import_module("wave").__name__ == "wave"


def test_a_package_that_is_in_use_stays() -> None:
    with logs._not_installed("pytest"):
        assert importlib.import_module("pytest") is pytest


def test_the_log_does_not_load_rich() -> None:
    code = (
        "import sys, nri_numamem.observe.log.loggers; assert 'rich' not in sys.modules\n"
        "import rich.console"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_records_leave_no_reference_cycles() -> None:
    """Python's collector runs on ticks only, so cycles would stay in memory."""
    log = logs.get_logger()
    log.debug("dropped")
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            log.debug("dropped")
        assert gc.collect() < 100
    finally:
        gc.enable()
