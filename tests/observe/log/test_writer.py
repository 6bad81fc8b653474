"""The thread of the log: sinks that hang, a bounded queue, losses, and what a flush writes."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_numamem.observe.log.render import Record, render_json
from nri_numamem.observe.log.sinks import FileSink
from nri_numamem.observe.log.writer import LogWriter, Losses
from tests.simulated_host import wait_for

# A hanging sink hangs for as long as a test needs; this bounds a test that fails.
WAIT_S = 30


class FrozenSink:
    """Writes hang until `thaw`, as on a frozen file system."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.entered = threading.Event()
        self.thawed = threading.Event()
        self.closed = threading.Event()

    def write(self, record: Record) -> None:
        self.entered.set()
        assert self.thawed.wait(WAIT_S)
        self.events.append(record.get("dropped_records", record["event"]))

    def close(self) -> None:
        self.closed.set()


class BrokenSink:
    """Raises `error` while there is one."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.records: list[Record] = []

    def write(self, record: Record) -> None:
        if self.error is not None:
            raise self.error
        self.records.append(record)

    def close(self) -> None:
        if self.error is not None:
            raise self.error


def event(name: object) -> Record:
    return {"event": name}


@pytest.fixture
def frozen() -> Iterator[FrozenSink]:
    sink = FrozenSink()
    yield sink
    sink.thawed.set()


def put_to_frozen(writer: LogWriter, sink: FrozenSink, count: int) -> None:
    """Hand over records, the first of which hangs in the sink."""
    writer.put(event(0))
    assert sink.entered.wait(WAIT_S)
    for number in range(1, count):
        writer.put(event(number))


def test_records_are_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = LogWriter([FileSink(path, render_json)], Losses())
    for number in range(50):
        writer.put(event(number))
    writer.flush(WAIT_S)
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == list(range(50))
    writer.close()


def test_a_sink_that_hangs_holds_up_nothing_and_losses_are_reported(frozen: FrozenSink) -> None:
    losses = Losses()
    writer = LogWriter([frozen], losses, limit=10)
    put_to_frozen(writer, frozen, 40)
    assert (losses.total, losses.unreported) == (29, 29)
    frozen.thawed.set()
    writer.flush(WAIT_S)
    # The number of lost records precedes the next record that is written.
    assert frozen.events == [0, 29, *range(1, 11)]
    assert (losses.total, losses.unreported) == (29, 0)
    writer.close()
    assert frozen.closed.wait(WAIT_S)


def test_a_synchronize_of_thousands_of_containers_is_kept_whole(frozen: FrozenSink) -> None:
    losses = Losses()
    writer = LogWriter([frozen], losses)
    put_to_frozen(writer, frozen, 1 + 4096)  # the sink has one of them
    assert losses.total == 0
    writer.put(event("one too many"))
    assert losses.total == 1
    frozen.thawed.set()
    writer.flush(WAIT_S)
    assert frozen.events == [0, 1, *range(1, 1 + 4096)]
    writer.close()


def test_a_flush_that_takes_too_long_writes_to_stderr(frozen: FrozenSink) -> None:
    reader, descriptor = os.pipe()
    losses = Losses()
    writer = LogWriter([frozen], losses, limit=3, descriptor=descriptor)
    put_to_frozen(writer, frozen, 6)
    writer.flush(0.01)
    os.close(descriptor)
    with os.fdopen(reader) as file:
        lines = [json.loads(line) for line in file]
    assert [line["event"] for line in lines] == ["log_records_dropped", 1, 2, 3]
    assert lines[0]["dropped_records"] == 2
    assert losses.unreported == 0
    frozen.thawed.set()
    writer.put(event("next"))
    writer.flush(WAIT_S)
    assert frozen.events == [0, "next"]
    writer.close()


def test_a_flush_does_not_write_to_a_file_which_may_hang_too(
    frozen: FrozenSink, tmp_path: Path
) -> None:
    losses = Losses()
    with (tmp_path / "stderr").open("w") as file:
        writer = LogWriter([frozen], losses, descriptor=file.fileno())
        put_to_frozen(writer, frozen, 3)
        writer.flush(0.01)
    assert (tmp_path / "stderr").read_text() == ""
    assert losses.total == 2


def test_a_flush_without_stderr_counts_losses(frozen: FrozenSink) -> None:
    losses = Losses()
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.close(descriptor)
    writer = LogWriter([frozen], losses, descriptor=descriptor)
    put_to_frozen(writer, frozen, 2)
    writer.flush(0.01)
    assert losses.total == 1


def test_a_writer_that_hangs_can_be_closed(frozen: FrozenSink) -> None:
    reader, descriptor = os.pipe()
    writer = LogWriter([frozen], Losses(), descriptor=descriptor)
    put_to_frozen(writer, frozen, 2)
    writer.close()
    os.close(descriptor)
    with os.fdopen(reader) as file:
        assert json.loads(file.read())["event"] == 1
    assert not frozen.closed.is_set()
    frozen.thawed.set()
    assert frozen.closed.wait(WAIT_S)
    assert frozen.events == [0]


def test_two_flushes_at_once_both_end(frozen: FrozenSink) -> None:
    writer = LogWriter([frozen], Losses(), descriptor=-1)
    put_to_frozen(writer, frozen, 1)
    other = threading.Thread(target=writer.flush, args=(WAIT_S,))
    other.start()
    wait_for(lambda: writer._queue.qsize() == 1)
    writer.flush(0.01)
    other.join(WAIT_S)
    assert not other.is_alive()


def test_without_records_there_is_no_thread() -> None:
    sink = BrokenSink(None)
    writer = LogWriter([sink], Losses())
    writer.flush()
    writer.reopen()
    writer.close()
    assert writer._thread is None


def test_a_broken_sink_is_replaced_for_one_record() -> None:
    first = BrokenSink(OSError(28, "No space left on device", "/var/log/x"))
    second = BrokenSink(None)
    losses = Losses()
    writer = LogWriter([first, second], losses)
    writer.put(event("one"))
    writer.flush(WAIT_S)
    first.error = None
    writer.put(event("two"))
    writer.flush(WAIT_S)
    problem = "[Errno 28] No space left on device: '/var/log/x'"
    assert second.records == [{"event": "one", "sink_error": problem}]
    assert first.records == [{"event": "two"}]
    assert losses.total == 0
    first.error = OSError("cannot be closed")
    writer.close()


@pytest.mark.parametrize("error", [OSError("broken"), BlockingIOError(), RuntimeError("a bug")])
def test_a_record_that_no_sink_accepts_is_counted(error: Exception) -> None:
    first, second = BrokenSink(error), BrokenSink(OSError("broken"))
    losses = Losses()
    writer = LogWriter([first, second], losses)
    writer.put(event("one"))
    writer.put(event("two"))
    writer.flush(WAIT_S)
    assert losses.total == losses.unreported == 2
    first.error = None
    writer.close()


def test_threads_that_log_at_the_same_time_start_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two writing threads would mix their lines."""
    started: list[str] = []
    together = threading.Barrier(2)
    thread = threading.Thread

    def slow_thread(*, target: Callable[[], None], name: str, daemon: bool) -> threading.Thread:
        started.append(name)
        time.sleep(0.05)  # the other one comes here meanwhile, unless it waits
        return thread(target=target, name=name, daemon=daemon)

    sink = BrokenSink(None)
    output = LogWriter([sink], Losses())

    def log(name: str) -> None:
        together.wait(WAIT_S)
        output.put(event(name))

    callers = [thread(target=log, args=(name,)) for name in ("a", "b")]
    monkeypatch.setattr("nri_numamem.observe.log.writer.threading.Thread", slow_thread)
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    output.close()
    wait_for(lambda: len(sink.records) == 2)
    assert started == ["log"]
