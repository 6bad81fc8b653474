"""A judge of the frames that a plugin sends: a Go runtime must survive them.

Go reads a multiplexed connection through a buffer of 4096 bytes, and a frame that does not fit
what Go is just reading kills the connection or even the whole runtime. The recorder keeps every
frame's size and follows the ttrpc messages inside, so that a test can ask for the violations.
Source of the rules: NRI mux.go together with Go's bufio and ttrpc channel.go.

Knows frame and message headers only; it changes nothing on the wire.
"""

import struct
from dataclasses import dataclass, field

# Go's bufio.Reader: what it may be handed while it waits for a header or a short rest.
GO_BUFFER_BYTES = 4096

_FRAME_HEADER = struct.Struct(">II")
_MESSAGE_HEADER_BYTES = 10
_BODY_LENGTH = struct.Struct(">I")


@dataclass(slots=True)
class _Stream:
    """Where one logical connection is within its current ttrpc message."""

    header: bytearray = field(default_factory=bytearray)
    body_missing: int = 0

    def at_message_start(self) -> bool:
        return not self.header

    def take(self, payload: bytes) -> str | None:
        """Follow one frame; return what is wrong with it, or None."""
        problem = self._check_size(len(payload))
        rest = self._take_one_message(payload)
        while rest:
            problem = "holds bytes of two messages"
            rest = self._take_one_message(rest)
        return problem

    def _check_size(self, size_bytes: int) -> str | None:
        if self.body_missing < GO_BUFFER_BYTES and size_bytes > GO_BUFFER_BYTES:
            wanted = f"{self.body_missing} body bytes are" if self.body_missing else "a header is"
            return f"has {size_bytes} bytes where {wanted} expected; at most 4096 are allowed"
        return None

    def _take_one_message(self, payload: bytes) -> bytes:
        """Consume what belongs to the current message and return the rest."""
        missing = _MESSAGE_HEADER_BYTES - len(self.header)
        if missing:
            self.header += payload[:missing]
            payload = payload[missing:]
            if len(self.header) < _MESSAGE_HEADER_BYTES:
                return b""
            (self.body_missing,) = _BODY_LENGTH.unpack_from(self.header)
        rest = payload[self.body_missing :]
        self.body_missing -= min(self.body_missing, len(payload))
        if not self.body_missing:
            self.header.clear()
        return rest


class FrameRecorder:
    """Records the frames in a plugin's bytes, fed in any cuts, and judges their layout."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, int]] = []
        """(connection id, payload bytes) of every complete frame."""
        self.violations: list[str] = []
        """One line per frame that a Go runtime could not read; empty is good."""
        self._buffer = bytearray()
        self._streams: dict[int, _Stream] = {}

    def feed(self, data: bytes) -> None:
        """Take the next bytes that the plugin sent."""
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
        """Tell whether a frame or a message was begun and not finished."""
        return bool(self._buffer) or any(not s.at_message_start() for s in self._streams.values())

    def _record(self, conn_id: int, payload: bytes) -> None:
        number = len(self.frames)
        self.frames.append((conn_id, len(payload)))
        if conn_id not in (1, 2):
            problem: str | None = "belongs to a connection that nobody opened"
        else:
            problem = self._streams.setdefault(conn_id, _Stream()).take(payload)
        if problem is not None:
            self.violations.append(f"frame {number} of connection {conn_id} {problem}")
