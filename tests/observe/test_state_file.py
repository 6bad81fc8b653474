"""The state file: replaced as a whole, off the caller's thread, and never an obstacle."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from nri_numamem.engine.plan import Record
from nri_numamem.engine.snapshot import restore, snapshot
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import Block, NodeSet, State
from nri_numamem.observe import state_file
from nri_numamem.observe.state_file import StateFile

WAIT_S = 30


class Told:
    """Takes the records, and lets a test wait for one."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._more = threading.Condition()

    def __call__(self, record: Record) -> None:
        with self._more:
            self.records.append(record)
            self._more.notify_all()

    def wait_for(self, event: str) -> Record:
        with self._more:
            assert self._more.wait_for(lambda: event in self.events, WAIT_S)
        return next(record for record in self.records if record.event == event)

    @property
    def events(self) -> list[str]:
        return [record.event for record in self.records]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "nri-numamem" / "memory_manager_state"


def state(number: int) -> EngineState:
    """Return a state in which one container holds `number` bytes."""
    holder = Holder(f"c{number}", "s", ("uid", "app"))
    books = State({}, {"uid": {"app": (Block(NodeSet([0]), "memory", number),)}})
    return EngineState(books, holders={holder.key: holder}, keys={holder.container_id: holder.key})


def kept(path: Path) -> int:
    """Return how much the container in the file holds."""
    (holder,) = restore(path.read_bytes()).holders
    return restore(path.read_bytes()).books.assignments[holder[0]][holder[1]][0].size


def test_what_is_offered_is_there_after_the_end(path: Path, told: Told) -> None:
    file = StateFile(path, told)
    file.offer(state(7))
    file.close()
    assert path.read_bytes() == snapshot(state(7))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    assert StateFile(path, told).load() == state(7)
    assert told.records == []


def test_nothing_offered_nothing_written(path: Path, told: Told) -> None:
    file = StateFile(path, told)
    assert file.load() is None
    file.close()
    assert not path.exists()
    assert told.records == []


def test_a_state_that_waits_for_synchronize_does_not_replace_what_it_came_from(
    path: Path, told: Told
) -> None:
    file = StateFile(path, told)
    file.offer(EngineState(State({}), former=state(7)))
    file.close()
    assert not path.exists()


def test_without_synchronize_containers_count(path: Path, told: Told) -> None:
    now = state(8)
    file = StateFile(path, told)
    file.offer(EngineState(now.books, holders=now.holders, keys=now.keys, former=state(7)))
    file.close()
    assert kept(path) == 8


class Gate:
    """Stands in for the replacing; the first writes wait until they are let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.free = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self._replace = state_file._replace
        monkeypatch.setattr(state_file, "_replace", self)

    def __call__(self, path: Path, data: bytes) -> None:
        self.threads.append(threading.current_thread().name)
        self.entered.set()
        assert self.free.wait(WAIT_S)
        self._replace(path, data)


def test_the_last_state_wins_and_nobody_waits(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    file = StateFile(path, told)
    file.offer(state(1))
    assert gate.entered.wait(WAIT_S)
    for number in range(2, 50):
        file.offer(state(number))
    gate.free.set()
    file.close()
    assert kept(path) == 49
    assert gate.threads == ["state-file", "state-file"]


def test_between_two_writes_there_is_a_pause(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.free.set()
    file = StateFile(path, told, pause_s=WAIT_S)
    file.offer(state(1))
    assert gate.entered.wait(WAIT_S)
    for number in range(2, 10):
        file.offer(state(number))
    assert len(gate.threads) == 1
    file.close()
    assert kept(path) == 9
    assert len(gate.threads) == 2


def test_the_same_state_is_written_once(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.free.set()
    file, same = StateFile(path, told), state(3)
    file.offer(same)
    file.offer(same)
    assert gate.entered.wait(WAIT_S)
    file.offer(state(3))
    file.close()
    assert len(gate.threads) == 1


def test_the_end_does_not_wait_for_a_disk_that_hangs(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_file, "CLOSE_S", 0.01)
    gate = Gate(monkeypatch)
    file = StateFile(path, told)
    file.offer(state(1))
    assert gate.entered.wait(WAIT_S)
    file.close()
    gate.free.set()
    assert file._thread is not None
    file._thread.join(WAIT_S)


def test_what_a_killed_process_left_is_no_obstacle(path: Path, told: Told) -> None:
    path.parent.mkdir(parents=True)
    (path.parent / f".{path.name}.new").write_text("half")
    file = StateFile(path, told)
    file.offer(state(1))
    file.close()
    assert list(path.parent.iterdir()) == [path]


def test_an_obstacle_is_told_once_counted_and_overcome(path: Path, told: Told) -> None:
    path.parent.parent.mkdir()
    path.parent.write_text("a file where the directory belongs")
    file = StateFile(path, told, pause_s=0.0, retry_s=0.001)
    file.offer(state(1))
    record = told.wait_for("state file not written, serving on")
    assert record.level == "warning"
    assert record.fields["path"] == str(path)
    while file.failed_writes < 3:
        time.sleep(0.001)
    path.parent.unlink()
    again = told.wait_for("state file written again")
    failed = again.fields["failed_writes"]
    assert isinstance(failed, int)
    assert failed >= 3
    file.offer(state(5))
    file.close()
    assert kept(path) == 5
    assert told.events == ["state file not written, serving on", "state file written again"]


@pytest.mark.parametrize("step", ["write_all", "fsync", "open"])
def test_a_full_or_broken_disk_leaves_the_old_file(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first = StateFile(path, told)
    first.offer(state(1))
    first.close()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    owner = state_file if step == "write_all" else os
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, fail)
        second = StateFile(path, told, retry_s=WAIT_S)
        second.offer(state(2))
        record = told.wait_for("state file not written, serving on")
    assert record.fields["kind"] == "ENOSPC"
    assert "No space left" in str(record.fields["error"])
    assert kept(path) == 1
    assert list(path.parent.iterdir()) == [path]
    second.close()  # which tries once more
    assert kept(path) == 2
    assert second.failed_writes == 1


def test_a_bug_is_told_with_its_traceback_and_the_thread_lives_on(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: EngineState) -> bytes:
        raise RuntimeError("a bug")

    file = StateFile(path, told, retry_s=WAIT_S)
    with monkeypatch.context() as patched:
        patched.setattr(state_file, "snapshot", broken)
        file.offer(state(1))
        record = told.wait_for("state file not written, serving on")
    assert record.fields["kind"] == "RuntimeError"
    assert "Traceback" in str(record.fields["error"])
    file.offer(state(2))
    told.wait_for("state file written again")
    file.close()
    assert kept(path) == 2


def test_a_file_that_is_no_snapshot_is_put_aside(path: Path, told: Told) -> None:
    path.parent.mkdir(parents=True)
    for number in range(1, 8):
        path.write_text(f"broken {number}")
        stamp = 1_000_000_000 * number
        os.utime(path, ns=(stamp, stamp))
        assert StateFile(path, told).load() is None
        assert not path.exists()
    aside = {p.name.rpartition("-")[2]: p.read_text() for p in path.parent.iterdir()}
    assert aside == {
        "1": "broken 6",
        "2": "broken 7",
        "3": "broken 3",
        "4": "broken 4",
        "5": "broken 5",
    }
    assert set(told.events) == {"state file not usable, going on without"}
    assert len(told.records) == 7
    assert told.records[0].fields["kept_as"] == "memory_manager_state.corrupt-1"
    assert "not JSON" in str(told.records[0].fields["error"])


def test_a_huge_file_is_put_aside(path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "SIZE_LIMIT_BYTES", 10)
    path.parent.mkdir(parents=True)
    path.write_bytes(snapshot(state(1)))
    assert StateFile(path, told).load() is None
    assert told.records[0].fields["error"] == "more than 10 bytes"


def test_a_file_that_cannot_be_put_aside_is_told(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    path.parent.mkdir(parents=True)
    path.write_text("broken")
    monkeypatch.setattr(Path, "replace", fail)
    assert StateFile(path, told).load() is None
    assert told.records[0].fields["not_put_aside"] == "Read-only file system"


def test_what_cannot_be_read_is_told_and_left(path: Path, told: Told) -> None:
    path.mkdir(parents=True)
    assert StateFile(path, told).load() is None
    assert told.events == ["state file not read, going on without"]
    assert path.is_dir()


def test_an_error_without_a_number_has_words(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("odd")

    monkeypatch.setattr(state_file, "_replace", fail)
    file = StateFile(path, told, retry_s=WAIT_S)
    file.offer(state(1))
    record = told.wait_for("state file not written, serving on")
    file.close()
    assert (record.fields["kind"], record.fields["error"]) == ("unknown", "odd")


def test_the_thread_leaves_signals_to_others(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    blocked: list[set[int]] = []

    def look(_path: Path, _data: bytes) -> None:
        blocked.append({int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])})

    monkeypatch.setattr(state_file, "_replace", look)
    file = StateFile(path, told)
    file.offer(state(1))
    file.close()
    assert {signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1} <= blocked[0]
