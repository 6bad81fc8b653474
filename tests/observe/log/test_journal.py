"""The journal sink against a real datagram socket."""

import array
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.observe.log.journal import JournalSink, encode_journal, is_stderr
from nri_numamem.observe.log.render import Record

HEAD: Record = {"ts": "2026-01-31T12:00:00.123Z", "level": "warning", "event": "node passed over"}


def decode(datagram: bytes) -> dict[str, str]:
    """Read the journal's format, written from its specification apart from the encoder."""
    fields: dict[str, str] = {}
    while datagram:
        name, _, rest = datagram.partition(b"\n")
        if b"=" in name:
            key, _, value = name.partition(b"=")
            datagram = rest
        else:
            (size,) = struct.unpack_from("<Q", rest)
            key, value = name, rest[8 : 8 + size]
            assert rest[8 + size : 9 + size] == b"\n"
            datagram = rest[9 + size :]
        fields[key.decode()] = value.decode()
    return fields


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    # The path of a socket has at most 107 bytes; a relative one is always short enough.
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("journal")
        server.settimeout(0)
        yield server


def test_a_record_becomes_one_datagram(journal: socket.socket) -> None:
    sink = JournalSink(Path("journal"))
    sink.write({**HEAD, "pod_uid": "u-1", "nodes": [0, 1], "free bytes": 5})
    sink.close()
    assert decode(journal.recv(1 << 16)) == {
        "MESSAGE": "node passed over u-1: free bytes=5",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "nri-numamem",
        "NRI_NUMAMEM_EVENT": "node passed over",
        "NRI_NUMAMEM_POD_UID": "u-1",
        "NRI_NUMAMEM_NODES": "[0,1]",
        "NRI_NUMAMEM_FREE_BYTES": "5",
    }


@pytest.mark.parametrize(
    ("level", "priority"),
    [("debug", "7"), ("info", "6"), ("warning", "4"), ("error", "3"), ("other", "6")],
)
def test_priorities(level: str, priority: str) -> None:
    assert decode(encode_journal({**HEAD, "level": level}))["PRIORITY"] == priority


def test_field_names_the_journal_would_refuse() -> None:
    record = {"message": "m", "_x": 1, "9": 2, "ü": 3, "": 4, "priority": 5, "n" * 80: 6}
    fields = decode(encode_journal({**HEAD, **record}))
    assert fields["PRIORITY"] == "4"
    prefix = "NRI_NUMAMEM_"
    own = {name.removeprefix(prefix): text for name, text in fields.items() if prefix in name}
    assert own == {
        "EVENT": "node passed over",
        "MESSAGE": "m",
        "_X": "1",
        "9": "2",
        "_": "3",
        "": "4",
        "PRIORITY": "5",
        "N" * 52: "6",
    }
    assert all(len(name) <= 64 for name in fields)


def test_stderr_is_the_journal_only_if_it_is_the_stream_of_systemd(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w") as stream:
        status = os.fstat(stream.fileno())
        own = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert is_stderr(own, stream.fileno())
        assert not is_stderr({}, stream.fileno())
        assert not is_stderr({"JOURNAL_STREAM": f"{status.st_dev}:1"}, stream.fileno())
        with (tmp_path / "other").open("w") as other:
            assert not is_stderr(own, other.fileno())
    assert not is_stderr(own, stream_that_is_closed())


def stream_that_is_closed() -> int:
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_text_of_several_lines() -> None:
    fields = decode(encode_journal({**HEAD, "exception": "Traceback:\n  a\nError", "x": "\ud800"}))
    assert fields["NRI_NUMAMEM_EXCEPTION"] == "Traceback:\n  a\nError"
    assert fields["MESSAGE"].splitlines()[1:] == ["    Traceback:", "      a", "    Error"]
    assert fields["NRI_NUMAMEM_X"] == "\\ud800"


def test_a_large_record_travels_as_a_sealed_file(journal: socket.socket) -> None:
    text = "x" * 1_000_000
    JournalSink(Path("journal")).write({**HEAD, "text": text})
    data, ancillary, _, _ = journal.recvmsg(16, socket.CMSG_SPACE(4))
    assert data == b""
    ((_, kind, rights),) = ancillary
    assert kind == socket.SCM_RIGHTS
    (descriptor,) = array.array("i", rights)
    with os.fdopen(descriptor, "rb") as file:
        assert fcntl.fcntl(file, fcntl.F_GET_SEALS) == 0b1111
        file.seek(0)
        assert decode(file.read())["NRI_NUMAMEM_TEXT"] == text


def fill(sink: JournalSink) -> int:
    """Write until the sink is busy, and return how many records it took."""
    for count in range(10_000):
        try:
            sink.write({**HEAD, "n": count})
        except BlockingIOError:
            return count
    raise AssertionError("the sink takes everything")


def test_a_busy_journal_does_not_block(journal: socket.socket) -> None:
    sink = JournalSink(Path("journal"))
    sent = fill(sink)
    numbers = [int(decode(journal.recv(1 << 16))["NRI_NUMAMEM_N"]) for _ in range(sent)]
    assert numbers == list(range(sent))
    sink.write({**HEAD, "n": -1})
    assert decode(journal.recv(1 << 16))["NRI_NUMAMEM_N"] == "-1"


def test_a_journal_that_stops_and_starts_again(tmp_path: Path, journal: socket.socket) -> None:
    sink = JournalSink(Path("journal"))
    (tmp_path / "journal").rename(tmp_path / "former")
    with pytest.raises(FileNotFoundError):
        sink.write(HEAD)
    (tmp_path / "former").rename(tmp_path / "journal")
    sink.write(HEAD)
    assert journal.recv(1 << 16)


def test_fields_of_the_journal_are_printable() -> None:
    record = {
        "ts": "t",
        "level": "info",
        "event": "x",
        "pod": "a\n\x1b[2J\u202e\x85",
        "exception": "line 1\nline 2\x1b[2J",
    }
    fields = decode(encode_journal(record))
    assert fields["NRI_NUMAMEM_POD"] == r"a\n\u001b[2J\u202e\u0085"
    assert fields["NRI_NUMAMEM_EXCEPTION"] == "line 1\nline 2\\u001b[2J"
    assert fields["MESSAGE"].replace("\n", "").isprintable()
