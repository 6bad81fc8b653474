"""The lines of the history."""

import pytest

from nri_numamem.observe.history.lines import (
    Entry,
    decode_entry,
    encode_entry,
    encode_header,
    header_number,
    is_intact,
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
