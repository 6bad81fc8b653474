"""Sends log records to the systemd journal by its native protocol.

A service of systemd has the journal as stderr. What is written there is cut into lines of at most
48 KiB (LineMax), without priorities and fields, so records go to the journal's socket instead.

Each record is a datagram to the journal's socket, with fields as KEY=value lines. Sending never
waits: a full queue raises BlockingIOError. A record that is too large for a datagram is sent as a
sealed memory file. No socket stays open, so a restart of the journal has no effect.
Source: systemd, "Native Journal Protocol" (JOURNAL_NATIVE_PROTOCOL).
"""

import errno
import fcntl
import os
import re
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from nri_numamem.engine.core.text import escape
from nri_numamem.observe.log.render import EXCEPTION_KEY, HEAD_KEYS, Record, render_message, text_of
from nri_numamem.observe.log.sinks import write_all

JOURNAL_SOCKET = Path("/run/systemd/journal/socket")
SYSLOG_IDENTIFIER = "nri-numamem"
FIELD_PREFIX = "NRI_NUMAMEM_"
"""All programs of the host share the names of the journal's fields."""

# syslog(3) severities.
_PRIORITIES = {"debug": "7", "info": "6", "warning": "4", "error": "3"}
# The journal drops fields with longer names.
_NAME_LIMIT = 64
_NOT_IN_NAMES = re.compile(r"[^A-Z0-9_]", re.ASCII)
# The journal accepts memory files only if they cannot be changed any more.
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class JournalSink:
    """Sends records to a journal's socket."""

    def __init__(self, path: Path = JOURNAL_SOCKET) -> None:
        self._path = str(path)

    def write(self, record: Record) -> None:
        """Send a record. BlockingIOError if the journal is busy, OSError if it does not run."""
        datagram = encode_journal(record)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            try:
                sender.sendto(datagram, self._path)
            except OSError as error:
                # EMSGSIZE: larger than the send buffer; ENOBUFS: not enough memory for it.
                if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                    raise
                _send_as_file(sender, datagram, self._path)

    def close(self) -> None:
        """Do nothing: no socket stays open."""


def is_stderr(environment: Mapping[str, str], descriptor: int = 2) -> bool:
    """Return whether stderr is a stream to the journal.

    JOURNAL_STREAM has the device and inode of the stream that systemd made; a process may inherit
    the variable and have another stderr. Source: systemd.exec(5).
    """
    device, _, inode = environment.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return (device, inode) == (str(status.st_dev), str(status.st_ino))


def _send_as_file(sender: socket.socket, datagram: bytes, path: str) -> None:
    descriptor = os.memfd_create("journal-record", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        write_all(descriptor, datagram)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))
        sender.sendmsg([], [rights], 0, path)
    finally:
        os.close(descriptor)


def encode_journal(record: Record) -> bytes:
    """Return the fields of a record in the journal's format.

    MESSAGE is what ``journalctl`` shows: one line for people. Each field is there under its name in
    capitals, for programs and searches such as ``journalctl NRI_NUMAMEM_POD_UID=…``.
    Only a traceback has several lines; other characters that are not printable are escaped.
    """
    level = text_of(record["level"])
    fields = {
        "MESSAGE": render_message(record),
        "PRIORITY": _PRIORITIES.get(level, _PRIORITIES["info"]),
        "SYSLOG_IDENTIFIER": SYSLOG_IDENTIFIER,
        _field_name("event"): text_of(record["event"]),
    }
    for key, value in record.items():
        if key not in HEAD_KEYS:
            lines = text_of(value).split("\n") if key == EXCEPTION_KEY else [text_of(value)]
            fields[_field_name(key)] = "\n".join(map(escape, lines))
    return b"".join(_encode_field(name, text) for name, text in fields.items())


def _field_name(key: str) -> str:
    """Return the key in capitals with the prefix, without characters that the journal refuses."""
    return f"{FIELD_PREFIX}{_NOT_IN_NAMES.sub('_', key.upper())}"[:_NAME_LIMIT]


def _encode_field(name: str, text: str) -> bytes:
    """Return KEY=value; for text of several lines the KEY, the length and the text."""
    data = text.encode("utf-8", errors="backslashreplace")
    if b"\n" not in data:
        return b"%b=%b\n" % (name.encode(), data)
    return b"%b\n%b%b\n" % (name.encode(), struct.pack("<Q", len(data)), data)
