"""NRI's multiplexer: two ttrpc connections, in opposite directions, on one socket.

Frame, big endian: connection id (uint32), payload length (uint32), payload. Source: NRI
pkg/net/multiplex. Each connection id is a byte stream of its own; where frames begin and end
means nothing to a receiver - except to the Go one: its ttrpc reads a whole frame into a buffer
of fixed size, fails for good when it does not fit, and crashes the whole runtime when a frame
runs over the end of a message. So what is sent here is always one whole ttrpc message, in the
two frames that Go itself would emit, and no other layout is offered.

No I/O; knows of ttrpc only the length of its header and of the body that it announces.
"""

import struct
from collections.abc import Iterable

PLUGIN_SERVICE_CONN = 1
"""Here the runtime calls the plugin."""
RUNTIME_SERVICE_CONN = 2
"""Here the plugin calls the runtime."""

# The largest ttrpc message that Go takes: a body of 4 MiB after its header. It is also the
# largest frame that Go sends since NRI 0.7.
MAX_MESSAGE_BYTES = (4 << 20) + 10

# Runtimes before NRI 0.7 send up to 16 MiB in one frame. Payload is never held here, so this only
# tells a corrupt header from a real one; 64 MiB is above what any runtime sends.
MAX_PAYLOAD_BYTES = 64 << 20

_HEADER = struct.Struct(">II")
_HEADER_BYTES = _HEADER.size
_TTRPC_HEADER_BYTES = 10
# The read buffer of a Go receiver that waits for a message's header.
_FIRST_FRAME_BYTES = 4096


class MuxError(Exception):
    """The peer sent a frame that is refused; the connection is beyond repair: close it."""


def frame_message(conn_id: int, message: bytes) -> bytes:
    """Return one ttrpc message (header and body) as the bytes to write to the socket.

    Frame 1 holds the ttrpc header and up to 4,086 bytes of the body, frame 2 the rest, if any.
    Messages of several connection ids may follow each other, but never mix. ValueError for
    anything that could harm the receiver: not exactly one message, one over
    MAX_MESSAGE_BYTES, or a connection id that does not exist.
    """
    if conn_id not in (PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN):
        raise ValueError(f"NRI has no connection id {conn_id}")
    size = len(message)
    if size > MAX_MESSAGE_BYTES:
        raise ValueError(f"message of {size} bytes is over the limit of {MAX_MESSAGE_BYTES}")
    if size != _TTRPC_HEADER_BYTES + int.from_bytes(message[:4]):
        raise ValueError(f"{size} bytes are not exactly one ttrpc message")
    if size <= _FIRST_FRAME_BYTES:
        return _HEADER.pack(conn_id, size) + message
    with memoryview(message) as view:
        return b"".join(
            (
                _HEADER.pack(conn_id, _FIRST_FRAME_BYTES),
                view[:_FIRST_FRAME_BYTES],
                _HEADER.pack(conn_id, size - _FIRST_FRAME_BYTES),
                view[_FIRST_FRAME_BYTES:],
            )
        )


class Demultiplexer:
    """Take the socket's bytes apart into the byte streams of the connection ids.

    Payload is handed on as it arrives, whole frame or not: nothing is held back but a partial
    header. Frames of other ids than `conn_ids` are thrown away; `discarded_frames` counts them.
    """

    def __init__(self, conn_ids: Iterable[int], max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        self.discarded_frames = 0
        self._conn_ids = frozenset(conn_ids)
        self._max_payload_bytes = max_payload_bytes
        self._header = bytearray()  # a header that has not arrived completely
        self._conn_id = 0  # of the frame whose payload is arriving
        self._left_bytes = 0  # of that payload
        self._failure = ""

    def receive_data(self, data: bytes | bytearray | memoryview) -> list[tuple[int, memoryview]]:
        """Take the next bytes; return pieces of (connection id, bytes), in order of arrival.

        The pieces are views of `data`: use them before it changes. MuxError when a header
        announces more than `max_payload_bytes`, and at every call after that.
        """
        if self._failure:
            raise MuxError(self._failure)
        pieces: list[tuple[int, memoryview]] = []
        view = memoryview(data)
        at, end = 0, len(view)
        conn_id, left_bytes = self._conn_id, self._left_bytes
        while at < end:
            if left_bytes:
                piece = view[at : at + left_bytes]  # or as much of that as there is
                left_bytes -= len(piece)
                at += len(piece)
                if conn_id in self._conn_ids:
                    pieces.append((conn_id, piece))
                continue
            body_at = at + _HEADER_BYTES - len(self._header)
            if body_at > end:
                self._header += view[at:]
                break
            if self._header:
                self._header += view[at:body_at]
                conn_id, left_bytes = _HEADER.unpack(self._header)
                self._header.clear()
            else:
                conn_id, left_bytes = _HEADER.unpack_from(view, at)
            at = body_at
            if left_bytes > self._max_payload_bytes:
                self._failure = (
                    f"frame of {left_bytes} bytes for connection id {conn_id} "
                    f"is over the limit of {self._max_payload_bytes}"
                )
                raise MuxError(self._failure)
            if conn_id not in self._conn_ids:
                self.discarded_frames += 1
        self._conn_id, self._left_bytes = conn_id, left_bytes
        return pieces
