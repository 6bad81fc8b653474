"""The parts of HTTP/2 that both sides have beside ``h2``: a limit of frames, and bodies to send.

The size of a frame is checked when its head has arrived. ``h2`` checks it when the whole frame has
arrived, and would hold up to 16 MiB of a connection. A body is sent as far as the peer's windows
allow.
"""

from h2.connection import H2Connection
from h2.exceptions import FrameTooLargeError

MAX_FRAME_BYTES = 16_384
"""The default of HTTP/2, which both sides here leave as it is."""

_HEAD_BYTES = 9


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
                size = min(_HEAD_BYTES - len(self._head), len(view))
                self._head += view[:size]
                self._end_head()
            view = view[size:]

    def _end_head(self) -> None:
        if len(self._head) < _HEAD_BYTES:
            return
        self._left = int.from_bytes(self._head[:3], "big")
        self._head.clear()
        if self._left > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"frame of {self._left} bytes")


class Outgoing:
    """What a side still has to send, by stream."""

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
        """Return the number of streams whose bodies are not sent completely."""
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
