"""NRI's multiplexer: two ttrpc connections, in opposite directions, on one socket.

Frame, big endian: connection id (uint32), payload length (uint32), payload. Source: NRI
pkg/net/multiplex. Each connection id is one byte stream, and by the protocol the boundaries of
frames have no meaning. In Go they do: its ttrpc reads a whole frame into a buffer of fixed size,
fails permanently when the frame does not fit, and crashes the whole runtime when a frame contains
bytes of two messages. Therefore this module sends one whole ttrpc message at a time, in the two
frames that Go itself sends, and supports no other layout.

There is no I/O. Of ttrpc the module uses only the header's size and its length field.
"""

import struct
from collections.abc import Iterable

PLUGIN_SERVICE_CONN = 1
"""The connection on which the runtime calls the plugin."""
RUNTIME_SERVICE_CONN = 2
"""The connection on which the plugin calls the runtime."""

# The largest ttrpc message that Go accepts: a header and a body of 4 MiB. It is also the largest
# frame that Go sends since NRI 0.7.
MAX_MESSAGE_BYTES = (4 << 20) + 10

# Detects corrupt headers. Runtimes before NRI 0.7 send up to 16 MiB in one frame; 64 MiB is above
# every runtime's limit. The demultiplexer stores no payload.
MAX_PAYLOAD_BYTES = 64 << 20

BytesLike = bytes | memoryview

_HEADER = struct.Struct(">II")
_HEADER_BYTES = _HEADER.size
_TTRPC_HEADER_BYTES = 10
# The read buffer of a Go receiver that waits for a message's header.
_FIRST_FRAME_BYTES = 4096


class MuxError(Exception):
    """The peer sent an invalid frame; the connection is unusable and must be closed."""


def frame_message(conn_id: int, message: bytes) -> bytes:
    """Return one ttrpc message (header and body) as the bytes to write to the socket.

    The first frame has the ttrpc header and up to 4,086 bytes of the body, the second frame the
    remainder, if any. Messages of several connection ids may alternate, but their frames must not.
    Raise ValueError for bytes that could harm the receiver: not exactly one message, a message over
    MAX_MESSAGE_BYTES, or an undefined connection id.
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
    """Splits the socket's bytes into the byte streams of the connection ids.

    It returns payload as it arrives, and stores only an incomplete header. Frames with ids that
    are not in `conn_ids` are discarded; `discarded_frames` is their number. Frames of one id that
    follow each other are one piece, such as the two frames of a message.
    """

    def __init__(self, conn_ids: Iterable[int], max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        self.discarded_frames = 0
        self._conn_ids = frozenset(conn_ids)
        self._max_payload_bytes = max_payload_bytes
        self._header = bytearray()  # an incomplete header
        self._conn_id = 0  # the id of the current frame
        self._left_bytes = 0  # its payload that has not arrived
        self._failure = ""

    def receive_data(self, data: bytes | bytearray | memoryview) -> list[tuple[int, BytesLike]]:
        """Process the next bytes; return pieces of (connection id, bytes), in order of arrival.

        The pieces may be views of `data`, valid until it changes. Raise MuxError for a frame over
        `max_payload_bytes`, and in every call after it.
        """
        if self._failure:
            raise MuxError(self._failure)
        pieces: list[tuple[int, BytesLike]] = []
        view = memoryview(data)
        at, end = 0, len(view)
        conn_id, left_bytes = self._conn_id, self._left_bytes
        while at < end:
            if left_bytes:
                piece = view[at : at + left_bytes]  # may be shorter, at the end of the data
                left_bytes -= len(piece)
                at += len(piece)
                if pieces and pieces[-1][0] == conn_id:
                    pieces[-1] = (conn_id, b"".join((pieces[-1][1], piece)))
                elif conn_id in self._conn_ids:
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
