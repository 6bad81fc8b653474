"""The thread of the metrics: retries, one record per kind of error, and an orderly end."""

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_numamem.engine.records.plain import fields_of
from nri_numamem.observe.metrics.outputs import MetricsServer, OpenServer, Report, TextFile
from nri_numamem.observe.threads import NO_THREAD
from tests.observe.collected import WAIT_S, Collected, refuse_threads, thread_of
from tests.simulated_host import wait_for

ADDRESS = "127.0.0.1:9551"


class FakeServer:
    """A server without a socket; ends with close(), or with `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = threading.Event()
        self._error = error

    def serve(self) -> None:
        if self._error is not None:
            raise self._error
        assert self.closed.wait(WAIT_S)

    def close(self) -> None:
        self.closed.set()


class Site:
    """Opens servers; `outcomes` are exceptions to raise first."""

    def __init__(self) -> None:
        self.collected = Collected()
        self.outcomes: list[Exception] = []
        self.masks: list[set[int]] = []
        self.report: Report | None = None
        self.opened: list[FakeServer] = []
        self.before_return: Callable[[], None] = lambda: None
        self._servers: list[MetricsServer] = []

    def open(self, address: str, report: Report) -> FakeServer:
        assert address == ADDRESS
        self.report = report
        if self.outcomes:
            raise self.outcomes.pop(0)
        self.before_return()
        self.opened.append(FakeServer())
        return self.opened[-1]

    def load(self) -> OpenServer:
        self.masks.append({int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())})
        return self.open

    def start(self, retry_s: float = 0.01) -> MetricsServer:
        server = MetricsServer(ADDRESS, self.load, self.collected, retry_s=retry_s)
        self._servers.append(server)
        server.start()
        return server

    def close(self) -> None:
        for server in self._servers:
            server.close()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def test_a_bound_server_is_recorded(site: Site) -> None:
    site.start()
    record = site.collected.wait_for("metrics_endpoint_started")
    assert (record.level, fields_of(record)) == ("info", {"address": ADDRESS})


def test_signals_stay_with_the_main_thread(site: Site) -> None:
    site.start()
    site.collected.wait_for("metrics_endpoint_started")
    assert {signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGUSR1} <= site.masks[0]


def test_an_address_that_is_not_available_is_recorded_once_and_retried(site: Site) -> None:
    site.outcomes = [OSError(98, "Address already in use") for _ in range(5)]
    site.start()
    site.collected.wait_for("metrics_endpoint_started")
    refused, _ = site.collected.records
    assert (refused.event, refused.level) == ("metrics_endpoint_retrying", "warning")
    assert fields_of(refused) == {"address": ADDRESS, "cause": "Address already in use"}


def test_a_bug_is_recorded_with_its_traceback(site: Site) -> None:
    site.outcomes = [ValueError("what a bug"), ValueError("again"), OSError("no reason")]
    site.start()
    site.collected.wait_for("metrics_endpoint_started")
    failed, retrying, _ = site.collected.records
    assert (failed.event, failed.level) == ("metrics_endpoint_failed", "error")
    assert "ValueError: what a bug" in str(fields_of(failed)["exception"])
    assert fields_of(retrying)["cause"] == "no reason"


def test_a_bug_of_a_request_is_recorded(site: Site) -> None:
    site.start()
    site.collected.wait_for("metrics_endpoint_started")
    assert site.report is not None
    site.report(KeyError("x"))
    assert site.collected.events[-1] == "metrics_endpoint_failed"


def test_close_ends_the_thread(site: Site) -> None:
    server = site.start()
    site.collected.wait_for("metrics_endpoint_started")
    server.close()
    thread_of(server).join(WAIT_S)
    assert not thread_of(server).is_alive()
    assert site.opened[0].closed.is_set()
    server.close()


def test_close_ends_a_thread_that_waits_to_retry(site: Site) -> None:
    site.outcomes = [OSError("not now")]
    server = site.start(retry_s=600)
    site.collected.wait_for("metrics_endpoint_retrying")
    server.close()
    thread_of(server).join(WAIT_S)
    assert not thread_of(server).is_alive()


def test_close_while_the_server_is_opened(site: Site) -> None:
    opening, closed = threading.Event(), threading.Event()

    def wait() -> None:
        opening.set()
        assert closed.wait(WAIT_S)

    site.before_return = wait
    server = site.start()
    assert opening.wait(WAIT_S)
    server._closing.set()
    closed.set()
    server.close()
    thread_of(server).join(WAIT_S)
    assert not thread_of(server).is_alive()
    assert site.collected.records == []
    assert site.opened[0].closed.is_set()


def test_close_before_start_does_nothing(site: Site) -> None:
    MetricsServer(ADDRESS, site.load, site.collected).close()
    assert site.masks == []


def test_an_address_is_tried_again_on_demand(site: Site) -> None:
    site.outcomes = [OSError("in use"), OSError("in use")]
    server = site.start(retry_s=600)
    site.collected.wait_for("metrics_endpoint_retrying")
    site.collected.records.clear()
    server.retry()
    site.collected.wait_for("metrics_endpoint_retrying")  # recorded again
    server.retry()
    site.collected.wait_for("metrics_endpoint_started")


def test_a_thread_that_cannot_start_is_one_record(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_threads(monkeypatch, 2)
    server = site.start()
    server.start()
    (record,) = site.collected.records
    assert (record.event, record.level) == ("metrics_endpoint_retrying", "warning")
    assert fields_of(record) == {"address": ADDRESS, "cause": NO_THREAD}
    server.close()
    site.start()
    site.collected.wait_for("metrics_endpoint_started")


class Directory:
    """Text files whose contents are `text`, written again each 10 ms."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.collected = Collected()
        self.text = b"up 1\n"
        self.failures: list[Exception] = []
        self.masks: list[set[int]] = []
        self.before_return: Callable[[], None] = lambda: None
        self.files: list[TextFile] = []

    def render(self) -> bytes:
        if self.failures:
            raise self.failures.pop(0)
        self.before_return()
        return self.text

    def load(self) -> Callable[[], bytes]:
        self.masks.append({int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())})
        return self.render

    def start(self, interval_s: float = 0.01) -> TextFile:
        made = TextFile(self.path, self.load, self.collected, interval_s=interval_s)
        self.files.append(made)
        made.start()
        return made


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    made = Directory(tmp_path / "nri_numamem.prom")
    yield made
    for file in made.files:
        file.close()


def test_the_file_is_written_again_and_again(directory: Directory) -> None:
    directory.start()
    record = directory.collected.wait_for("metrics_textfile_started")
    assert (record.level, fields_of(record)) == ("info", {"path": str(directory.path)})
    assert directory.path.read_bytes() == b"up 1\n"
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o644
    directory.text = b"up 2\n"
    wait_for(lambda: directory.path.read_bytes() == b"up 2\n")
    assert directory.collected.events == ["metrics_textfile_started"]
    assert {signal.SIGTERM, signal.SIGALRM} <= directory.masks[0]
    assert len(directory.masks) == 1


def test_a_reader_sees_a_whole_file(directory: Directory) -> None:
    directory.text = b"x" * 100_000
    directory.start(0.0001)
    directory.collected.wait_for("metrics_textfile_started")
    assert {len(directory.path.read_bytes()) for _ in range(200)} == {100_000}


def test_a_directory_that_is_missing_is_recorded_once(directory: Directory) -> None:
    directory.path = directory.path.parent / "later" / directory.path.name
    directory.start()
    record = directory.collected.wait_for("metrics_textfile_retrying")
    assert record.level == "warning"
    assert fields_of(record) == {"path": str(directory.path), "cause": "No such file or directory"}
    directory.path.parent.mkdir()
    directory.collected.wait_for("metrics_textfile_started")
    assert directory.collected.events == ["metrics_textfile_retrying", "metrics_textfile_started"]


def test_a_write_that_fails_keeps_the_file_and_leaves_no_other(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.start()
    directory.collected.wait_for("metrics_textfile_started")
    full = True
    write = os.write

    def fail(descriptor: int, data: bytes) -> int:
        if full and data == b"up 2\n":
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", fail)
    directory.text = b"up 2\n"
    directory.collected.wait_for("metrics_textfile_retrying")
    assert directory.path.read_bytes() == b"up 1\n"
    wait_for(lambda: list(directory.path.parent.iterdir()) == [directory.path])
    full = False
    wait_for(lambda: directory.collected.events.count("metrics_textfile_started") == 2)
    assert directory.path.read_bytes() == b"up 2\n"


def test_file_a_bug_is_recorded_with_its_traceback(directory: Directory) -> None:
    directory.failures = [ValueError("what a bug"), ValueError("again")]
    directory.start()
    directory.collected.wait_for("metrics_textfile_started")
    failed, _ = directory.collected.records
    assert (failed.event, failed.level) == ("metrics_textfile_failed", "error")
    assert "ValueError: what a bug" in str(fields_of(failed)["exception"])


def test_close_removes_the_file(directory: Directory) -> None:
    file = directory.start(600)
    directory.collected.wait_for("metrics_textfile_started")
    file.close()
    thread_of(file).join(WAIT_S)
    assert not thread_of(file).is_alive()
    assert list(directory.path.parent.iterdir()) == []


def test_a_file_that_this_process_did_not_write_stays(directory: Directory) -> None:
    directory.path.write_text("of another process")
    directory.failures = [ValueError("a bug")]
    file = directory.start(600)
    directory.collected.wait_for("metrics_textfile_failed")
    file.close()
    thread_of(file).join(WAIT_S)
    assert directory.path.exists()
    TextFile(directory.path, directory.load, directory.collected).close()  # never started


def test_close_does_not_wait_for_a_disk_that_hangs(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_numamem.observe.metrics.outputs._CLOSE_S", 0.01)
    hanging, released = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        assert released.wait(WAIT_S)

    directory.before_return = hang
    file = directory.start()
    assert hanging.wait(WAIT_S)
    file.close()
    assert thread_of(file).is_alive()
    assert thread_of(file).daemon
    released.set()
    thread_of(file).join(WAIT_S)


def test_file_a_thread_that_cannot_start_is_one_record(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_threads(monkeypatch, 2)
    file = directory.start()
    file.start()
    (record,) = directory.collected.records
    assert (record.event, record.level) == ("metrics_textfile_retrying", "warning")
    assert fields_of(record) == {"path": str(directory.path), "cause": NO_THREAD}
    file.start()
    directory.collected.wait_for("metrics_textfile_started")
    thread = thread_of(file)
    file.start()
    assert thread_of(file) is thread
