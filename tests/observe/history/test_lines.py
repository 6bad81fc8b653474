"""The lines of the history."""

from pathlib import Path

import pytest

from nri_numamem.observe.history import lines
from nri_numamem.observe.history.lines import (
    Entry,
    History,
    decode_entry,
    encode_entry,
    encode_header,
    header_number,
    is_intact,
    read_history,
)

ENTRY = Entry(1_700_000_000.123, "admitted", "3-17", {"pod": "p", "free_bytes": {"0": 1}})
LINE = (
    b'885aff94 {"time":1700000000.123,"event":"admitted","request_id":"3-17",'
    b'"fields":{"pod":"p","free_bytes":{"0":1}}}\n'
)


def test_the_format_of_version_1() -> None:
    assert encode_entry(ENTRY) == LINE
    assert decode_entry(LINE) == ENTRY
    assert encode_header(7)[8:] == b' {"history":1,"number":7}\n'
    assert header_number(encode_header(7)) == 7


def test_the_pod_of_an_entry() -> None:
    assert Entry(1.0, "admitted", "", {"pod_uid": "u", "pod": "p"}).pod_uid == "u"
    assert Entry(1.0, "started").pod_uid == ""


def test_names_may_be_anything() -> None:
    entry = Entry(1.0, "admitted", "", {"pod": "a\nb\ud800\x1b"})
    line = encode_entry(entry)
    assert (line.count(b"\n"), line.isascii()) == (1, True)
    assert decode_entry(line) == entry


def test_every_damaged_byte_is_detected() -> None:
    for index in range(len(LINE)):
        damaged = bytearray(LINE)
        damaged[index] ^= 1
        assert not is_intact(bytes(damaged))
        assert decode_entry(bytes(damaged)) is None
    for length in range(len(LINE)):
        assert decode_entry(LINE[:length]) is None


def sealed(text: bytes) -> bytes:
    import zlib

    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{",
        b"3",
        b"[" * 100_000,
        b'{"time":"x","event":"e","fields":{}}',
        b'{"time":1,"event":2,"fields":{}}',
        b'{"time":1,"event":"e","fields":[]}',
        b'{"time":1000000000000000000,"event":"e","fields":{}}',
        b'{"time":1e400,"event":"e","fields":{}}',
        b'{"time":NaN,"event":"e","fields":{}}',
        b'{"time":-1,"event":"e","fields":{}}',
        b'{"time":' + b"9" * 400 + b',"event":"e","fields":{}}',
    ],
)
def test_what_is_no_entry(text: bytes) -> None:
    assert decode_entry(sealed(text)) is None
    assert header_number(sealed(text)) is None


@pytest.mark.parametrize(
    "text", [b'{"history":2,"number":1}', b'{"history":1,"number":-1}', b'{"history":1}']
)
def test_what_is_no_header(text: bytes) -> None:
    assert header_number(sealed(text)) is None


def test_a_header_is_no_entry() -> None:
    assert decode_entry(encode_header(1)) is None
    assert header_number(LINE) is None


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
    monkeypatch.setattr(lines, "READ_LIMIT_BYTES", limit)
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
