"""One connection from the embedded runtime to a plugin: a socket and two ttrpc ends.

No thread: bytes move only while a call, ``flush`` or ``wait_for_request`` runs, reading and
writing at the same time, so that a plugin that writes while we write cannot block us. What the
plugin calls meanwhile is queued in `requests` for the runtime to answer. Every wait has a limit.

Frames are cut as Go's buffered writer cuts them; tests may set another `framer`. Sources: NRI
mux.go, ttrpc.go.
"""

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable

from nri_numamem.nri.mux import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    Demultiplexer,
    MuxError,
)
from nri_numamem.nri.runtime_frames import GO_BUFFER_BYTES, FrameRecorder
from nri_numamem.ttrpc import (
    CallFailed,
    ClientConnection,
    Code,
    ConnectionClosed,
    ReplyReceived,
    RequestReceived,
    RequestRefused,
    ServerConnection,
)

Framer = Callable[[int, bytes], bytes]
"""(connection id, one ttrpc message) -> the bytes for the socket."""

# Runtimes before NRI 0.7 send a Synchronize of up to 16 MiB in one message.
_MAX_SEND_BYTES = 16 << 20

_RECEIVE_BYTES = 1 << 18

_FRAME_HEADER = struct.Struct(">II")


def go_framer(max_payload_bytes: int) -> Framer:
    """Return the framer that cuts as Go does: a first frame of at most 4096 bytes, the rest."""

    def frame(conn_id: int, message: bytes) -> bytes:
        pieces = [message[:GO_BUFFER_BYTES]]
        starts = range(GO_BUFFER_BYTES, len(message), max_payload_bytes)
        pieces.extend(message[start : start + max_payload_bytes] for start in starts)
        return b"".join(_FRAME_HEADER.pack(conn_id, len(piece)) + piece for piece in pieces)

    return frame


class PluginWire:
    """The runtime's end of the connection; owns `sock`, which must be connected."""

    def __init__(self, sock: socket.socket, framer: Framer) -> None:
        sock.settimeout(0)
        self.framer = framer
        """How messages are cut into frames; may be exchanged at any time."""
        self.recorder = FrameRecorder()
        """All frames that the plugin sent."""
        self.requests: deque[RequestReceived] = deque()
        """Calls of the plugin that nobody has answered."""
        self.requests_received: list[str] = []
        """Methods of all calls of the plugin, from RegisterPlugin on."""
        self.closed = False
        """Whether the connection ended, by either side."""
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._out = bytearray()
        self._demultiplexer = Demultiplexer((PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN))
        self._client = ClientConnection(max_send_bytes=_MAX_SEND_BYTES)
        self._server = ServerConnection()
        self._outcomes: dict[int, ReplyReceived | CallFailed] = {}

    def call(self, service: str, method: str, payload: bytes, timeout_s: float) -> bytes:
        """Call the plugin and return the payload of its reply.

        Raises StatusError for an error reply; TimeoutError, ConnectionClosed and
        RemoteProtocolError where a real runtime would give the plugin up.
        """
        stream_id, message = self._client.call(
            service, method, payload, timeout_ns=round(timeout_s * 1e9)
        )
        self.send_raw(self.framer(PLUGIN_SERVICE_CONN, message))
        if not self._pump(lambda: stream_id in self._outcomes, timeout_s):
            self._client.abandon(stream_id)
            if self.closed:
                raise ConnectionClosed(f"the plugin closed the connection during {method}")
            raise TimeoutError(f"no reply to {method} within {timeout_s:g} s")
        outcome = self._outcomes.pop(stream_id)
        if isinstance(outcome, CallFailed):
            raise outcome.error
        return outcome.payload

    def wait_for_request(self, timeout_s: float) -> RequestReceived | None:
        """Return the oldest unanswered call of the plugin; None when none came in time."""
        self._pump(lambda: bool(self.requests), timeout_s)
        return self.requests.popleft() if self.requests else None

    def reply(self, stream_id: int, payload: bytes) -> None:
        """Answer a call of the plugin with success."""
        self.send_raw(self.framer(RUNTIME_SERVICE_CONN, self._server.reply(stream_id, payload)))

    def reply_error(self, stream_id: int, code: Code, text: str) -> None:
        """Answer a call of the plugin with an error."""
        message = self._server.reply_error(stream_id, code, text)
        self.send_raw(self.framer(RUNTIME_SERVICE_CONN, message))

    def send_raw(self, data: bytes) -> None:
        """Queue bytes for the socket, whatever they are; the next wait writes them."""
        self._out += data

    def flush(self, timeout_s: float) -> bool:
        """Write what is queued; False when that did not succeed in time."""
        return self._pump(lambda: not self._out, timeout_s)

    def wait_closed(self, timeout_s: float) -> bool:
        """Read until the plugin closes the connection; False when it did not in time."""
        return self._pump(lambda: self.closed, timeout_s)

    def close(self) -> None:
        """Close the socket; the plugin sees the end of the stream. Harmless when repeated."""
        if self._sock.fileno() >= 0:
            self._poll.unregister(self._sock)
            self._sock.close()
        self.closed = True

    def _pump(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Move bytes both ways until `done()`; False at the end of time or of the stream."""
        deadline = time.monotonic() + timeout_s
        while not done():
            left_s = deadline - time.monotonic()
            if self.closed or left_s <= 0:
                return False
            self._poll.modify(self._sock, select.POLLIN | (select.POLLOUT if self._out else 0))
            for _, ready in self._poll.poll(left_s * 1000):
                self._move(ready)
        return True

    def _move(self, ready: int) -> None:
        try:
            if ready & select.POLLOUT:
                del self._out[: self._sock.send(self._out)]
            if ready & ~select.POLLOUT:
                self._receive(self._sock.recv(_RECEIVE_BYTES))
        except (OSError, MuxError):
            self.close()

    def _receive(self, data: bytes) -> None:
        if not data:
            self.close()
            return
        self.recorder.feed(data)
        for conn_id, piece in self._demultiplexer.receive_data(data):
            if conn_id == PLUGIN_SERVICE_CONN:
                for outcome in self._client.receive_data(piece):
                    self._outcomes[outcome.stream_id] = outcome
            else:
                for event in self._server.receive_data(piece):
                    if isinstance(event, RequestRefused):
                        self.send_raw(self.framer(RUNTIME_SERVICE_CONN, event.message))
                    else:
                        self.requests.append(event)
                        self.requests_received.append(event.request.method)
