"""The limit for the size of HTTP/2 frames, checked when the head of a frame has arrived.

``h2`` checks it when the whole frame has arrived, and would hold up to 16 MiB of a connection.
"""

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
