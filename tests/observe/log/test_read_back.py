"""Records read back from JSON lines and from both formats of journalctl."""

import json
import struct

import pytest

from nri_numamem.observe.log.journal import encode_journal
from nri_numamem.observe.log.read_back import IncompleteRecordError, last_record
from nri_numamem.observe.log.render import render_json

NAMES = {"machineState": "NRI_NUMAMEM_MACHINESTATE", "entries": "NRI_NUMAMEM_ENTRIES"}


def record(number: int, event: str = "state_dump") -> dict[str, object]:
    state = {"0": {"cells": [0], "memoryMap": {"memory": {"free": number}}}}
    head = {"ts": "2026-01-31T12:00:00.123Z", "level": "info", "event": event}
    return {**head, "machineState": state, "entries": {"pod\u00e4": {}}}


def fields(content: dict[str, object]) -> dict[str, str]:
    """Return the fields that the journal has of a record."""
    lines = encode_journal(content).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def exported(content: dict[str, object], *, as_bytes: bool = False) -> bytes:
    """Return an entry as journalctl -o export prints it: not printable fields have a length."""
    entry = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1\n"
    for name, text in fields(content).items():
        data = text.encode()
        if as_bytes:
            entry += name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
        else:
            entry += name.encode() + b"=" + data + b"\n"
    return entry + b"\n"


def expected(number: int) -> dict[str, object]:
    return {name: record(number)[name] for name in NAMES}


def test_the_last_dump_of_a_log_file() -> None:
    lines = [render_json(r) for r in (record(1), record(2), record(3, "admitted"))]
    content = "\n".join(["begin of a cut line}", *lines, '{"event":"state_dump","mach']).encode()
    found = last_record(content, "state_dump", NAMES)
    assert found is not None
    assert {name: found[name] for name in NAMES} == expected(2)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_the_last_dump_of_an_export_of_the_journal(as_bytes: bool) -> None:
    content = b"".join(
        exported(r, as_bytes=as_bytes) for r in (record(1), record(2), record(3, "admitted"))
    )
    assert last_record(content, "state_dump", NAMES) == expected(2)
    # The output of a journalctl that was ended has no empty line, or half of an entry.
    assert last_record(content.rstrip(b"\n"), "state_dump", NAMES) == expected(2)
    cut = exported(record(2)) + b"__CURSOR=x\nMESSAGE\n\x05\x00"
    assert last_record(cut, "state_dump", NAMES) == expected(2)


def test_the_last_dump_of_the_journal_as_json() -> None:
    first, last = fields(record(1)), dict[str, object](fields(record(2)))
    last["NRI_NUMAMEM_ENTRIES"] = list(str(last["NRI_NUMAMEM_ENTRIES"]).encode())
    content = "\n".join(json.dumps(part) for part in (first, last)).encode()
    assert last_record(content, "state_dump", NAMES) == expected(2)


def test_a_field_that_journalctl_leaves_out_has_a_remedy() -> None:
    content = json.dumps(fields(record(1)) | {"NRI_NUMAMEM_MACHINESTATE": None}).encode()
    with pytest.raises(IncompleteRecordError, match=r"MACHINESTATE is left out; use .* --all"):
        last_record(content, "state_dump", NAMES)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1]\n{\n", exported(record(1, "admitted")), b'{"event": "admitted"}'],
    ids=["nothing", "empty", "no log", "another event", "another record"],
)
def test_a_log_without_a_dump(content: bytes) -> None:
    assert last_record(content, "state_dump", NAMES) is None
