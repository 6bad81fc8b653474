"""The thread between files and the main thread."""

import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest

from nri_numamem.daemon.file_exchange import FileExchange
from nri_numamem.observe.wake import wake
from tests.observe.collected import WAIT_S
from tests.simulated_host import wait_for


class Files:
    """What the thread reads and writes."""

    def __init__(self, root: Path) -> None:
        self.file = root / "answers" / "file"
        self.wanted: str | None = "first"
        self.written: list[list[str]] = []
        self.began: list[str | None] = []
        self.woken = threading.Semaphore(0)
        self.exchange: FileExchange[str, str] = FileExchange(
            "test", self.file, lambda: self.wanted, self._write, self.woken.release
        )

    def _write(self, several: Sequence[str]) -> None:
        self.written.append(list(several))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    found = Files(tmp_path)
    found.exchange.start(found.began.append)
    yield found
    found.exchange.close()


def test_what_is_new_wakes_the_main_thread_once(files: Files) -> None:
    assert files.woken.acquire(timeout=WAIT_S)
    assert files.began == ["first"]
    assert [files.exchange.take(), files.exchange.take()] == ["first", None]
    wake(files.file)  # nothing has changed
    files.wanted = "second"
    wake(files.file)
    assert files.woken.acquire(timeout=WAIT_S)
    assert files.exchange.take() == "second"
    assert not files.woken.acquire(blocking=False)


def test_what_cannot_be_read_changes_nothing(files: Files) -> None:
    assert files.woken.acquire(timeout=WAIT_S)
    files.exchange.take()
    files.wanted = None
    files.exchange.hand_over("one")
    wait_for(lambda: files.written == [["one"]], "what was handed over")
    assert not files.exchange.is_new


def test_the_oldest_is_written_first(files: Files) -> None:
    assert files.woken.acquire(timeout=WAIT_S)
    for text in ("a", "b", "c"):
        files.exchange.hand_over(text)
    wait_for(lambda: [*chain(*files.written)] == ["a", "b", "c"], "all of them")


def test_the_end_before_the_start_is_none(tmp_path: Path) -> None:
    Files(tmp_path).exchange.close()


def test_a_place_without_a_socket_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("")
    with pytest.raises(OSError, match="File exists"):
        Files(tmp_path).exchange.start()
