"""How gRPC writes messages, texts and timeouts, without I/O.

A message has a prefix of five bytes: 0 (not compressed) and its length, big-endian. The text of a
status is UTF-8 in percent-encoding. A timeout is a number of at most eight digits and a unit.
"""

import math
import re
from collections.abc import Iterable
from typing import TypeAlias

from nri_numamem.ttrpc.status import Code, StatusError

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

CONTENT_TYPE = b"application/grpc"
MAX_TEXT_BYTES = 1024
"""Of a status, before percent-encoding, which can triple it: peers accept 8 kB of headers."""

_PREFIX_BYTES = 5
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNIT_S = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MAX_MILLISECONDS = 99_999_999


def encode_message(payload: bytes) -> bytes:
    """Return a message with its prefix."""
    return b"\0" + len(payload).to_bytes(4, "big") + payload


class MessageReader:
    """Reads the one message of a unary call; holds at most `limit_bytes` of it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes; raise StatusError for a message that is refused."""
        self._data += data
        if len(self._data) < _PREFIX_BYTES:
            return
        if self._data[0]:
            raise StatusError(Code.UNIMPLEMENTED, "compressed messages are not supported")
        size = self._size()
        if size > self._limit_bytes:
            text = f"message of {size} bytes is over the limit of {self._limit_bytes}"
            raise StatusError(Code.RESOURCE_EXHAUSTED, text)
        if len(self._data) > _PREFIX_BYTES + size:
            raise StatusError(Code.INTERNAL, "more than one message in a unary call")

    def finish(self) -> bytes:
        """Return the message without its prefix; raise StatusError if it is incomplete."""
        if len(self._data) < _PREFIX_BYTES or len(self._data) < _PREFIX_BYTES + self._size():
            raise StatusError(Code.INTERNAL, f"the message ends after {len(self._data)} bytes")
        return bytes(self._data[_PREFIX_BYTES:])

    def _size(self) -> int:
        return int.from_bytes(self._data[1:_PREFIX_BYTES], "big")


def encode_text(text: str) -> bytes:
    """Return a status text, truncated to MAX_TEXT_BYTES, in percent-encoding."""
    data = text.encode("utf-8", "replace")[:MAX_TEXT_BYTES].decode("utf-8", "ignore").encode()
    plain = range(0x20, 0x7F)
    return b"".join(
        bytes([byte]) if byte in plain and byte != ord("%") else b"%%%02X" % byte for byte in data
    )


def decode_text(value: bytes) -> str:
    """Return a status text; what is not valid stays, or becomes a replacement character."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), value).decode("utf-8", "replace")


def encode_timeout(timeout_s: float) -> bytes:
    """Return the value of the header grpc-timeout; raise ValueError for a negative time."""
    if timeout_s < 0:
        raise ValueError(f"timeout of {timeout_s} s is negative")
    return b"%dm" % min(math.ceil(timeout_s * 1000), _MAX_MILLISECONDS)


def decode_timeout(value: bytes) -> float:
    """Return seconds; raise ValueError for an invalid value."""
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        raise ValueError("grpc-timeout is not a number of up to eight digits and a unit")
    return int(found[1]) * _UNIT_S[found[2]]


def header(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a header; None without it."""
    return next((value for key, value in headers if key == name), None)
