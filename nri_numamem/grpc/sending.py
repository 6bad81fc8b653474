"""Bodies of HTTP/2 streams on their way: as much at a time as the peer's windows allow."""

from h2.connection import H2Connection


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
