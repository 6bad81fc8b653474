"""Checks that a Go runtime can read the frames of a plugin.

Go reads a multiplexed connection through a buffer of 4096 bytes. A frame that is larger than Go's
current read ends the connection or the whole runtime. The recorder stores the size of every frame
and tracks the ttrpc messages inside; tests read its violations. Sources of the rules: NRI mux.go,
Go's bufio and ttrpc channel.go.

The recorder reads only the headers of frames and messages, and changes no bytes.
"""

import struct
from dataclasses import dataclass, field

# Go's bufio.Reader: the largest frame while Go reads a header or a shorter remainder of a body.
GO_BUFFER_BYTES = 4096

_FRAME_HEADER = struct.Struct(">II")
_MESSAGE_HEADER_BYTES = 10
_BODY_LENGTH = struct.Struct(">I")


@dataclass(slots=True)
class _Stream:
    """The position of one logical connection within its current ttrpc message."""

    header: bytearray = field(default_factory=bytearray)
    body_missing: int = 0

    def at_message_start(self) -> bool:
        return not self.header

    def consume_frame(self, payload: bytes) -> str | None:
        """Advance by one frame; return the violation in it, or None."""
        problem = self._check_size(len(payload))
        remainder = self._consume_message(payload)
        while remainder:
            problem = "holds bytes of two messages"
            remainder = self._consume_message(remainder)
        return problem

    def _check_size(self, size_bytes: int) -> str | None:
        if self.body_missing < GO_BUFFER_BYTES and size_bytes > GO_BUFFER_BYTES:
            expected = f"{self.body_missing} body bytes are" if self.body_missing else "a header is"
            return f"has {size_bytes} bytes where {expected} expected; at most 4096 are allowed"
        return None

    def _consume_message(self, payload: bytes) -> bytes:
        """Consume the bytes of the current message and return the remainder."""
        missing = _MESSAGE_HEADER_BYTES - len(self.header)
        if missing:
            self.header += payload[:missing]
            payload = payload[missing:]
            if len(self.header) < _MESSAGE_HEADER_BYTES:
                return b""
            (self.body_missing,) = _BODY_LENGTH.unpack_from(self.header)
        remainder = payload[self.body_missing :]
        self.body_missing -= min(self.body_missing, len(payload))
        if not self.body_missing:
            self.header.clear()
        return remainder


class FrameRecorder:
    """Records and checks the frames of a plugin; the bytes may arrive in any pieces."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, int]] = []
        """(connection id, payload bytes) of every complete frame."""
        self.violations: list[str] = []
        """One line per frame that a Go runtime could not read."""
        self._buffer = bytearray()
        self._streams: dict[int, _Stream] = {}

    def feed(self, data: bytes) -> None:
        """Record the next bytes from the plugin."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _FRAME_HEADER.size:
            conn_id, length = _FRAME_HEADER.unpack_from(self._buffer, start)
            body = start + _FRAME_HEADER.size
            if len(self._buffer) < body + length:
                break
            start = body + length
            self._record(conn_id, bytes(self._buffer[body:start]))
        del self._buffer[:start]

    def incomplete(self) -> bool:
        """Return whether a frame or a message has begun and not ended."""
        return bool(self._buffer) or any(not s.at_message_start() for s in self._streams.values())

    def _record(self, conn_id: int, payload: bytes) -> None:
        number = len(self.frames)
        self.frames.append((conn_id, len(payload)))
        if conn_id not in (1, 2):
            problem: str | None = "has an unknown connection id"
        else:
            problem = self._streams.setdefault(conn_id, _Stream()).consume_frame(payload)
        if problem is not None:
            self.violations.append(f"frame {number} of connection {conn_id} {problem}")
