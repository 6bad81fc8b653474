"""The text file: atomic, retried, recorded once, removed at the end, and never waited for."""

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_numamem.engine.records.plain import fields_of
from nri_numamem.observe.metrics.textfile import TextFile
from nri_numamem.observe.metrics.threads import NO_THREAD
from tests.observe.collected import WAIT_S, Collected, refuse_threads, thread_of
from tests.simulated_host import wait_for


class Site:
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
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "nri_numamem.prom")
    yield made
    for file in made.files:
        file.close()


def test_the_file_is_written_again_and_again(site: Site) -> None:
    site.start()
    record = site.collected.wait_for("metrics_textfile_started")
    assert (record.level, fields_of(record)) == ("info", {"path": str(site.path)})
    assert site.path.read_bytes() == b"up 1\n"
    assert stat.S_IMODE(site.path.stat().st_mode) == 0o644
    site.text = b"up 2\n"
    wait_for(lambda: site.path.read_bytes() == b"up 2\n")
    assert site.collected.events == ["metrics_textfile_started"]
    assert {signal.SIGTERM, signal.SIGALRM} <= site.masks[0]
    assert len(site.masks) == 1


def test_a_reader_sees_a_whole_file(site: Site) -> None:
    site.text = b"x" * 100_000
    site.start(0.0001)
    site.collected.wait_for("metrics_textfile_started")
    assert {len(site.path.read_bytes()) for _ in range(200)} == {100_000}


def test_a_directory_that_is_missing_is_recorded_once(site: Site) -> None:
    site.path = site.path.parent / "later" / site.path.name
    site.start()
    record = site.collected.wait_for("metrics_textfile_retrying")
    assert record.level == "warning"
    assert fields_of(record) == {"path": str(site.path), "cause": "No such file or directory"}
    site.path.parent.mkdir()
    site.collected.wait_for("metrics_textfile_started")
    assert site.collected.events == ["metrics_textfile_retrying", "metrics_textfile_started"]


def test_a_write_that_fails_keeps_the_file_and_leaves_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.start()
    site.collected.wait_for("metrics_textfile_started")
    full = True
    write = os.write

    def fail(descriptor: int, data: bytes) -> int:
        if full and data == b"up 2\n":
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", fail)
    site.text = b"up 2\n"
    site.collected.wait_for("metrics_textfile_retrying")
    assert site.path.read_bytes() == b"up 1\n"
    wait_for(lambda: list(site.path.parent.iterdir()) == [site.path])
    full = False
    wait_for(lambda: site.collected.events.count("metrics_textfile_started") == 2)
    assert site.path.read_bytes() == b"up 2\n"


def test_a_bug_is_recorded_with_its_traceback(site: Site) -> None:
    site.failures = [ValueError("what a bug"), ValueError("again")]
    site.start()
    site.collected.wait_for("metrics_textfile_started")
    failed, _ = site.collected.records
    assert (failed.event, failed.level) == ("metrics_textfile_failed", "error")
    assert "ValueError: what a bug" in str(fields_of(failed)["exception"])


def test_close_removes_the_file(site: Site) -> None:
    file = site.start(600)
    site.collected.wait_for("metrics_textfile_started")
    file.close()
    thread_of(file).join(WAIT_S)
    assert not thread_of(file).is_alive()
    assert list(site.path.parent.iterdir()) == []


def test_a_file_that_this_process_did_not_write_stays(site: Site) -> None:
    site.path.write_text("of another process")
    site.failures = [ValueError("a bug")]
    file = site.start(600)
    site.collected.wait_for("metrics_textfile_failed")
    file.close()
    thread_of(file).join(WAIT_S)
    assert site.path.exists()
    TextFile(site.path, site.load, site.collected).close()  # never started


def test_close_does_not_wait_for_a_disk_that_hangs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_numamem.observe.metrics.textfile._CLOSE_S", 0.01)
    hanging, released = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        assert released.wait(WAIT_S)

    site.before_return = hang
    file = site.start()
    assert hanging.wait(WAIT_S)
    file.close()
    assert thread_of(file).is_alive()
    assert thread_of(file).daemon
    released.set()
    thread_of(file).join(WAIT_S)


def test_a_thread_that_cannot_start_is_one_record(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_threads(monkeypatch, 2)
    file = site.start()
    file.start()
    (record,) = site.collected.records
    assert (record.event, record.level) == ("metrics_textfile_retrying", "warning")
    assert fields_of(record) == {"path": str(site.path), "cause": NO_THREAD}
    file.start()
    site.collected.wait_for("metrics_textfile_started")
    thread = thread_of(file)
    file.start()
    assert thread_of(file) is thread
