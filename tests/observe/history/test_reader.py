"""Reading the history."""

from pathlib import Path

import pytest

from nri_numamem.observe.history import reader
from nri_numamem.observe.history.lines import Entry, encode_entry, encode_header
from nri_numamem.observe.history.reader import History, read_history


def entry(number: int) -> Entry:
    return Entry(float(number), "admitted", "", {"n": number})


def write(folder: Path, index: int, number: int, *entries: int) -> None:
    lines = [encode_header(number), *(encode_entry(entry(n)) for n in entries)]
    (folder / f"history-{index}.log").write_bytes(b"".join(lines))


def test_without_files_the_history_is_empty(tmp_path: Path) -> None:
    assert read_history(tmp_path / "nri_numamem_state") == History(())


@pytest.mark.parametrize("newer", [0, 1])
def test_the_older_segment_comes_first(tmp_path: Path, newer: int) -> None:
    write(tmp_path, newer, 9, 3, 4)
    write(tmp_path, 1 - newer, 8, 1, 2)
    found = read_history(tmp_path / "nri_numamem_state")
    assert found == History(tuple(map(entry, (1, 2, 3, 4))))


def test_only_the_newest_lines_of_a_huge_segment_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 0, 1, *range(100, 200))
    write(tmp_path, 1, 2, *range(200, 210))
    limit = (tmp_path / "history-1.log").stat().st_size
    monkeypatch.setattr(reader, "READ_LIMIT_BYTES", limit)
    found = read_history(tmp_path / "nri_numamem_state")
    assert found == History(tuple(entry(number) for number in range(190, 210)))


def test_damaged_lines_and_segments_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, 1, 2, 3)
    data = (tmp_path / "history-0.log").read_bytes()
    (tmp_path / "history-0.log").write_bytes(data.replace(b'"n":2', b'"n":7'))
    (tmp_path / "history-1.log").write_bytes(b"nothing\n")
    found = read_history(tmp_path / "nri_numamem_state")
    assert found == History((entry(1), entry(3)), skipped_lines=2)


def test_another_state_file_has_its_own_history(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, 1)
    assert read_history(tmp_path / "second") == History(())
