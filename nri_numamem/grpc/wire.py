"""What client and server share, without I/O: gRPC's encodings, and HTTP/2 beside ``h2``.

A message has a prefix of five bytes: 0 (not compressed) and its length, big-endian. The text of a
status is UTF-8 in percent-encoding. A timeout is a number of at most eight digits and a unit.

``FrameLimit`` checks the size of a frame when its head has arrived. ``h2`` checks it when the whole
frame has arrived, and would hold up to 16 MiB of a connection. ``Outgoing`` sends bodies as far as
the peer's windows allow.
"""

import math
import re
from collections.abc import Iterable
from typing import TypeAlias

from h2.connection import H2Connection
from h2.exceptions import FrameTooLargeError

from nri_numamem.ttrpc.status import Code, StatusError

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

CONTENT_TYPE = b"application/grpc"
MAX_TEXT_BYTES = 1024
"""Of a status, before percent-encoding, which can triple it: peers accept 8 kB of headers."""

MAX_FRAME_BYTES = 16_384
"""The default of HTTP/2, which both sides here leave as it is."""

_FRAME_HEAD_BYTES = 9
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
    """Return a status text; invalid escapes stay, invalid UTF-8 becomes a replacement character."""
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


class FrameLimit:
    """Follows the frames in a byte stream; `skipped_bytes` come before the first frame."""

    def __init__(self, skipped_bytes: int = 0) -> None:
        self._left = skipped_bytes
        self._head = bytearray()

    @property
    def is_between_frames(self) -> bool:
        """Whether the bytes so far end with a frame."""
        return not self._left and not self._head

    def feed(self, data: bytes) -> None:
        """Add bytes; raise FrameTooLargeError for a frame over the limit."""
        view = memoryview(data)
        while view:
            if self._left:
                size = min(self._left, len(view))
                self._left -= size
            else:
                size = min(_FRAME_HEAD_BYTES - len(self._head), len(view))
                self._head += view[:size]
            view = view[size:]
            if len(self._head) == _FRAME_HEAD_BYTES:
                self._left = int.from_bytes(self._head[:3], "big")
                self._head.clear()
                if self._left > MAX_FRAME_BYTES:
                    raise FrameTooLargeError(f"frame of {self._left} bytes")


class Outgoing:
    """The unsent bodies of one side, by stream."""

    def __init__(self, connection: H2Connection) -> None:
        self._h2 = connection
        self._unsent: dict[int, tuple[memoryview, list[tuple[bytes, bytes]]]] = {}

    def add(
        self, stream_id: int, body: bytes, trailers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        """Send a body, which is not empty, and then end the stream, with trailers if given."""
        self._unsent[stream_id] = memoryview(body), trailers or []

    def discard(self, stream_id: int) -> None:
        """Send nothing more on this stream."""
        self._unsent.pop(stream_id, None)

    def __len__(self) -> int:
        """Return the number of streams with an unsent rest of a body."""
        return len(self._unsent)

    def send_what_fits(self) -> None:
        """Give to the connection what the peer's windows allow."""
        for stream_id in list(self._unsent):
            self._send(stream_id)

    def _send(self, stream_id: int) -> None:
        body, trailers = self._unsent[stream_id]
        while body:
            window = self._h2.local_flow_control_window(stream_id)
            size = min(window, self._h2.max_outbound_frame_size, len(body))
            if size <= 0:
                self._unsent[stream_id] = body, trailers
                return
            is_last = size == len(body) and not trailers
            self._h2.send_data(stream_id, bytes(body[:size]), end_stream=is_last)
            body = body[size:]
        if trailers:
            self._h2.send_headers(stream_id, trailers, end_stream=True)
        del self._unsent[stream_id]
