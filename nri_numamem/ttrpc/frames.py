"""Messages on a byte stream: a 10-byte header, then the body.

Header, big endian: body length (uint32), stream id (uint32), message type (uint8), flags
(uint8). Source: ttrpc PROTOCOL.md and channel.go. This module parses and builds frames; client and
server both use it and decode the bodies.

The parser accepts the stream in any pieces. Between two calls it stores at most one incomplete
frame of bounded size. It discards the bytes of a body over the bound and reports the body once,
after its header, so that the connection can continue.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

HEADER_BYTES = 10

# The Go implementation refuses larger bodies when it receives (channel.go, messageLengthMax).
MAX_BODY_BYTES = 4 << 20

# A little below a Go peer's limit (MAX_BODY_BYTES), so that an envelope or a relay has room.
MAX_SEND_BYTES = MAX_BODY_BYTES - (64 << 10)

# Stream ids are unsigned 32-bit numbers.
MAX_STREAM_ID = (1 << 32) - 1

_HEADER = struct.Struct(">IIBB")

BytesLike = bytes | bytearray | memoryview


class MessageType(IntEnum):
    """Values of the header's type byte; other values may occur and are undefined."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class Frame(NamedTuple):
    """One complete message; `message_type` may be a number outside MessageType."""

    stream_id: int
    message_type: int
    flags: int
    body: bytes


class OversizeFrame(NamedTuple):
    """The header of a message whose body is over the parser's limit and was discarded."""

    stream_id: int
    message_type: int
    body_bytes: int


def encode_frame(stream_id: int, message_type: int, body: bytes) -> bytes:
    """Return the bytes of one message; its flags are 0, as in every unary message.

    Raise ValueError when a number does not fit its field of the header.
    """
    try:
        return _HEADER.pack(len(body), stream_id, message_type, 0) + body
    except struct.error as error:
        raise ValueError(
            f"stream id {stream_id}, type {message_type} or length {len(body)} of a message "
            "does not fit its header"
        ) from error


class FrameParser:
    """Parse a byte stream, which arrives in any pieces, into frames.

    `max_body_bytes` is the limit for bodies. No input is an error: the header has no invalid
    values.
    """

    __slots__ = ("_buffer", "_header", "_skip_bytes", "max_body_bytes")

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.max_body_bytes = max_body_bytes
        self._header: tuple[int, int, int, int] | None = None  # the header of an incomplete body
        self._buffer = bytearray()  # the start of that body, or else of a header
        self._skip_bytes = 0  # bytes of an oversize body that have not arrived

    def feed(self, data: BytesLike) -> list[Frame | OversizeFrame]:
        """Process the next bytes of the stream; return the frames that they complete, in order.

        The caller may reuse `data` afterwards: the parser keeps no reference to it.
        """
        frames: list[Frame | OversizeFrame] = []
        buffer = self._buffer
        at, end = 0, len(data)
        while at < end:
            if self._skip_bytes:
                step = min(self._skip_bytes, end - at)
                self._skip_bytes -= step
                at += step
                continue
            header = self._header
            if header is None:
                body_at = at + HEADER_BYTES - len(buffer)
                if body_at > end:
                    buffer += data[at:]
                    break
                if buffer:
                    buffer += data[at:body_at]
                    header = _HEADER.unpack(buffer)
                    buffer.clear()
                else:
                    header = _HEADER.unpack_from(data, at)
                at = body_at
            body_bytes, stream_id, message_type, flags = header
            if body_bytes > self.max_body_bytes:
                frames.append(OversizeFrame(stream_id, message_type, body_bytes))
                self._skip_bytes = body_bytes
                continue
            stop = at + body_bytes - len(buffer)
            if stop > end:
                self._header = header
                buffer += data[at:]
                break
            if buffer:
                buffer += data[at:stop]
                body = bytes(buffer)
                buffer.clear()
            else:
                body = bytes(data[at:stop])
            self._header = None
            frame = Frame(stream_id=stream_id, message_type=message_type, flags=flags, body=body)
            frames.append(frame)
            at = stop
        return frames
