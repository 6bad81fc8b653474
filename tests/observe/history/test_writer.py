"""Writing the history: two segments, restarts, damage, disks that fail."""

import os
import stat
from pathlib import Path

import pytest

from nri_numamem.engine.records.connection import CommitTimedOut
from nri_numamem.engine.records.files import StateFileWriteFailed
from nri_numamem.engine.records.process import Stopped
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.history import lines
from nri_numamem.observe.history import writer as writer_module
from nri_numamem.observe.history.lines import Entry, encode_entry, encode_header, read_history
from nri_numamem.observe.history.writer import HistoryWriter

SEGMENT_BYTES = 2000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "nri_numamem_state"


class Writing:
    """A writer, and what it logs."""

    def __init__(self, path: Path, queue_limit: int = 100) -> None:
        self.logged: list[Record] = []
        self.writer = HistoryWriter(path, self.logged.append, SEGMENT_BYTES, queue_limit)

    def add(self, *numbers: int) -> None:
        """Append and write some records."""
        for number in numbers:
            record = CommitTimedOut(exception=f"bug-{number}", request_id="1-2")
            self.writer.append(number, record)
        self.writer.write()

    @property
    def events(self) -> list[str]:
        return [record.event for record in self.logged]


def times(path: Path) -> list[int]:
    return [int(entry.time_s) for entry in read_history(path).entries]


def segment(path: Path, index: int) -> Path:
    return path.with_name(f"history-{index}.log")


def test_more_than_a_batch_is_written_in_order(path: Path) -> None:
    writing = Writing(path, queue_limit=1000)
    writing.writer = HistoryWriter(path, writing.logged.append, 10 * SEGMENT_BYTES, 1000)
    for number in range(writer_module.BATCH - 1):
        writing.writer.append(number, Stopped())
    few = writing.writer.has_batch
    for number in range(writer_module.BATCH - 1, 150):
        writing.writer.append(number, Stopped())
    assert (few, writing.writer.has_batch) == (False, True)
    writing.writer.write()
    assert times(path) == list(range(150))
    assert not writing.writer.is_pending


def test_records_are_appended_and_survive_a_restart(path: Path) -> None:
    writing = Writing(path)
    writing.add(1, 2)
    writing.add(3)
    Writing(path).add(4)
    entries = read_history(path).entries
    assert [entry.time_s for entry in entries] == [1, 2, 3, 4]
    assert (entries[0].event, entries[0].request_id) == ("commit_timed_out", "1-2")
    assert entries[0].fields == {"exception": "bug-1"}
    assert stat.S_IMODE(segment(path, 0).stat().st_mode) == 0o600
    assert not segment(path, 1).exists()
    assert writing.logged == []


def test_nothing_appended_nothing_written(path: Path) -> None:
    writing = Writing(path)
    writing.writer.write()
    assert not writing.writer.is_pending
    assert not path.parent.exists()


@pytest.mark.parametrize("at_once", [1, 7, 100])
def test_the_older_segment_is_replaced(path: Path, at_once: int) -> None:
    writing = Writing(path)
    for start in range(0, 100, at_once):
        writing.add(*range(start, min(100, start + at_once)))
    found = times(path)
    assert found == list(range(found[0], 100))
    assert len(found) > SEGMENT_BYTES // 100
    for index in range(2):
        assert 0 < segment(path, index).stat().st_size <= SEGMENT_BYTES + 100
    Writing(path).add(100)
    assert times(path)[-2:] == [99, 100]


def test_a_reader_of_a_replaced_segment_reads_on(path: Path) -> None:
    writing = Writing(path)
    writing.add(1)
    with segment(path, 0).open("rb") as file:
        writing.add(*range(2, 60))
        assert b"bug-1" in file.read()


def test_a_torn_line_is_cut_off(path: Path) -> None:
    Writing(path).add(1, 2)
    data = segment(path, 0).read_bytes()
    segment(path, 0).write_bytes(data[:-5])
    assert times(path) == [1]
    assert read_history(path).skipped_lines == 1
    writing = Writing(path)
    writing.add(3)
    assert times(path) == [1, 3]
    assert writing.logged == []


def test_a_huge_segment_delays_nothing_and_is_replaced_in_turn(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valid, of 400 MB, but not of this plugin."""
    path.parent.mkdir()
    with segment(path, 1).open("wb") as file:
        file.write(encode_header(7))
        file.truncate(400_000_000)  # without blocks on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + encode_entry(Entry(1.0, "admitted")))
    examined: list[int] = []
    is_intact = lines.is_intact

    def noting(line: bytes) -> bool:
        examined.append(len(line))
        return is_intact(line)

    monkeypatch.setattr(lines, "is_intact", noting)
    writing = Writing(path)
    writing.add(2, 3)
    monkeypatch.undo()
    assert examined == [len(encode_header(7))]
    assert writing.logged == []
    assert times(path) == [1, 2, 3]
    writing.add(*range(4, 60))
    assert segment(path, 1).stat().st_size < 2 * SEGMENT_BYTES
    assert times(path)[-1] == 59


@pytest.mark.parametrize("damage", ["header", "empty"])
def test_a_damaged_segment_is_put_aside(path: Path, damage: str) -> None:
    writing = Writing(path)
    writing.add(*range(30))  # both segments
    old, new = sorted((0, 1), key=lambda index: segment(path, index).stat().st_mtime_ns)
    data = bytearray(segment(path, new).read_bytes())
    data[3] ^= 1
    segment(path, new).write_bytes(b"x\n" if damage == "empty" else data)
    again = Writing(path)
    again.add(100)
    assert again.events == ["history_unusable"]
    assert segment(path, new).with_name(f"history-{new}.log.corrupt").exists()
    found = times(path)
    assert found[-1] == 100
    assert found[:-1] == list(range(found[0], found[-2] + 1))
    assert old in (0, 1)


def test_a_damaged_place_costs_its_lines_only(path: Path) -> None:
    Writing(path).add(*range(8))
    data = segment(path, 0).read_bytes()
    begins = [index + 1 for index, byte in enumerate(data) if byte == ord("\n")]
    # The line of 1, the newline and the begin of the line of 2 are lost.
    hole = slice(begins[1] + 20, begins[2] + 20)
    segment(path, 0).write_bytes(
        data[: hole.start] + bytes(begins[2] - begins[1]) + data[hole.stop :]
    )
    again = Writing(path)
    again.add(100)
    assert again.events == []
    assert times(path) == [0, 3, 4, 5, 6, 7, 100]
    assert read_history(path).skipped_lines == 1


def test_an_empty_segment_is_used(path: Path) -> None:
    path.parent.mkdir(parents=True)
    segment(path, 0).touch()
    writing = Writing(path)
    writing.add(1)
    assert times(path) == [1]


def test_a_full_queue_drops_records_and_says_so(path: Path) -> None:
    writing = Writing(path, queue_limit=3)
    writing.add(*range(10))
    assert writing.writer.dropped == 7
    entries = read_history(path).entries
    assert (entries[0].event, entries[0].fields) == (
        "history_records_dropped",
        {"dropped_records": 7},
    )
    assert [entry.time_s for entry in entries[1:]] == [0, 1, 2]
    assert writing.events == ["history_records_dropped"]
    writing.add(11)
    assert writing.events == ["history_records_dropped"]


@pytest.mark.parametrize("partial", [False, True])
def test_a_full_disk_drops_records_until_it_has_room(
    path: Path, monkeypatch: pytest.MonkeyPatch, partial: bool
) -> None:
    writing = Writing(path)
    writing.add(1)

    def fail(descriptor: int, data: bytes) -> None:
        if partial:
            os.write(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(writer_module, "write_all", fail)
        writing.add(2)
        writing.add(3, 4)
    assert writing.events == ["state_file_write_failed"]
    (failed, *_) = writing.logged
    assert isinstance(failed, StateFileWriteFailed)
    assert failed.error_kind == "ENOSPC"
    writing.add(5)
    assert writing.events[1:] == ["history_records_dropped", "state_file_write_recovered"]
    history = read_history(path)
    assert [entry.event for entry in history.entries] == [
        "commit_timed_out",
        "history_records_dropped",
        "commit_timed_out",
    ]
    assert history.entries[1].fields == {"dropped_records": 3}
    assert history.skipped_lines == 0


def test_a_bug_does_not_end_the_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = Writing(path)
    with monkeypatch.context() as patched:
        patched.setattr(writer_module, "write_all", lambda *_: 1 // 0)
        writing.add(1)
    (failed, *_) = writing.logged
    assert isinstance(failed, StateFileWriteFailed)
    assert failed.error_kind == "ZeroDivisionError"
    writing.add(2)
    assert times(path)[-1] == 2


def test_files_that_were_removed_are_made_again(path: Path) -> None:
    writing = Writing(path)
    writing.add(1)
    segment(path, 0).unlink()
    writing.add(2)
    writing.add(3)
    assert times(path)[-1] == 3
    assert writing.writer.dropped == 1


def test_a_huge_record_is_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "_LINE_LIMIT_BYTES", 100)
    writing = Writing(path)
    writing.writer.append(1, CommitTimedOut(exception="x" * 200))
    writing.writer.write()
    assert writing.writer.dropped == 1
