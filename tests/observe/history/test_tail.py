"""Reading what is added to a history."""

from pathlib import Path

import pytest

from nri_numamem.observe.files import beside
from nri_numamem.observe.history.lines import NAMES, Entry, encode_entry, encode_header
from nri_numamem.observe.history.tail import FIRST_BYTES, HistoryTail


class Stand:
    """A history that a test writes."""

    def __init__(self, directory: Path) -> None:
        self.tail = HistoryTail(directory / "state.json")

    def write(self, index: int, text: bytes) -> None:
        with self.tail.paths[index].open("ab") as file:
            file.write(text)

    def read(self) -> list[float]:
        return [entry.time_s for entry in self.tail.read()]


@pytest.fixture(name="stand")
def _stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


def line(time_s: float, size: int = 1) -> bytes:
    return encode_entry(Entry(time_s, "admitted", "", {"pod": "p" * size}))


def test_without_a_history(stand: Stand) -> None:
    assert stand.read() == []
    stand.write(0, encode_header(1) + line(1))
    assert stand.read() == [1]


def test_each_entry_is_returned_once(stand: Stand) -> None:
    stand.write(0, encode_header(1) + line(1) + line(2))
    assert stand.read() == [1, 2]
    assert stand.read() == []
    stand.write(0, line(3))
    assert stand.read() == [3]


def test_a_line_that_is_being_written(stand: Stand) -> None:
    stand.write(0, encode_header(1))
    assert stand.read() == []
    for byte in line(1)[:-1]:
        stand.write(0, bytes([byte]))
        assert stand.read() == []
    stand.write(0, b"\n" + line(2))
    assert stand.read() == [1, 2]


def test_damaged_lines_are_skipped(stand: Stand) -> None:
    stand.write(0, encode_header(1) + b"garbage\n" + line(1) + b"\xff\n")
    assert stand.read() == [1]


def test_a_new_segment_replaces_an_old_one(stand: Stand) -> None:
    stand.write(0, encode_header(1) + line(1))
    stand.write(1, encode_header(2) + line(2))
    assert stand.read() == [1, 2]
    stand.write(1, line(3))
    new = stand.tail.paths[0].with_name("new")
    new.write_bytes(encode_header(3) + line(4))
    new.replace(stand.tail.paths[0])
    assert stand.read() == [3, 4]


def test_a_segment_that_became_shorter_is_read_again(stand: Stand) -> None:
    stand.write(0, encode_header(1) + line(1, 100))
    assert stand.read() == [1]
    stand.tail.paths[0].write_bytes(encode_header(1) + line(2))
    assert stand.read() == [2]


def test_the_first_reading_has_the_latest_entries(stand: Stand) -> None:
    each = len(line(1, 1000))
    count = 2 * FIRST_BYTES // each
    stand.write(0, encode_header(1) + b"".join(line(n, 1000) for n in range(1000, 1000 + count)))
    found = stand.read()
    assert found[-1] == 999 + count
    assert len(found) == pytest.approx(FIRST_BYTES / each, abs=2)
    assert found == sorted(found)
    stand.write(1, encode_header(2) + b"".join(line(n, 1000) for n in range(count)))
    assert len(stand.read()) == count, "later readings have all"


def test_an_error_of_the_file_system(stand: Stand) -> None:
    stand.tail.paths[0].mkdir()
    with pytest.raises(IsADirectoryError):
        stand.tail.read()


def test_its_files(tmp_path: Path) -> None:
    state_file = tmp_path / "state.json"
    assert HistoryTail(state_file).paths == tuple(beside(state_file, name) for name in NAMES)
