"""The runtime's end of a connection to a plugin: a socket with a ttrpc client and a ttrpc server.

There is no thread: bytes move only while ``call``, ``flush`` or a wait runs. Each of them reads and
writes at the same time, so a plugin that writes while the runtime writes cannot block it. Calls of
the plugin are queued in `requests`. Every wait has a timeout.

Frames have the sizes that Go's buffered writer produces; tests may set another `framer`. Sources:
NRI mux.go, ttrpc.go.
"""

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable

from nri_numamem.nri.multiplexer import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    Demultiplexer,
    MuxError,
)
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
from tests.laboratory.frames import GO_BUFFER_BYTES, FrameRecorder

Framer = Callable[[int, bytes], bytes]
"""(connection id, one ttrpc message) -> the bytes for the socket."""

# Runtimes before NRI 0.7 send a Synchronize of up to 16 MiB in one message.
_MAX_SEND_BYTES = 16 << 20

_RECEIVE_BYTES = 1 << 18

_FRAME_HEADER = struct.Struct(">II")


def go_framer(max_payload_bytes: int) -> Framer:
    """Return the framer with Go's frame sizes: at most 4096 bytes first, then the remainder."""

    def frame(conn_id: int, message: bytes) -> bytes:
        pieces = [message[:GO_BUFFER_BYTES]]
        starts = range(GO_BUFFER_BYTES, len(message), max_payload_bytes)
        pieces.extend(message[start : start + max_payload_bytes] for start in starts)
        return b"".join(_FRAME_HEADER.pack(conn_id, len(piece)) + piece for piece in pieces)

    return frame


class PluginConnection:
    """The runtime's end of the connection; it owns `sock`, a connected socket."""

    def __init__(self, sock: socket.socket, framer: Framer) -> None:
        sock.settimeout(0)
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._begin(framer)

    def _begin(self, framer: Framer) -> None:
        """Set up everything but the socket; a connection of another transport begins here."""
        self.framer = framer
        """Divides messages into frames; may be replaced at any time."""
        self.recorder = FrameRecorder()
        """All frames from the plugin."""
        self.requests: deque[RequestReceived] = deque()
        """Calls of the plugin that wait for a reply."""
        self.requests_received: list[str] = []
        """The methods of all calls of the plugin, beginning with RegisterPlugin."""
        self.closed = False
        """Whether either side closed the connection."""
        self._out = bytearray()
        self._demultiplexer = Demultiplexer((PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN))
        self._client = ClientConnection(max_send_bytes=_MAX_SEND_BYTES)
        self._server = ServerConnection()
        self._outcomes: dict[int, ReplyReceived | CallFailed] = {}

    def call(self, service: str, method: str, payload: bytes, timeout_s: float) -> bytes:
        """Call the plugin and return the payload of its reply.

        Raise StatusError for an error reply; raise TimeoutError, ConnectionClosed or
        RemoteProtocolError where a real runtime would close the plugin.
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
        """Return the plugin's oldest call without a reply; None after `timeout_s`."""
        self._pump(lambda: bool(self.requests), timeout_s)
        return self.requests.popleft() if self.requests else None

    def reply(self, stream_id: int, payload: bytes) -> None:
        """Send a successful reply to a call of the plugin."""
        self.send_raw(self.framer(RUNTIME_SERVICE_CONN, self._server.reply(stream_id, payload)))

    def reply_error(self, stream_id: int, code: Code, text: str) -> None:
        """Send an error reply to a call of the plugin."""
        message = self._server.reply_error(stream_id, code, text)
        self.send_raw(self.framer(RUNTIME_SERVICE_CONN, message))

    def send_raw(self, data: bytes) -> None:
        """Queue arbitrary bytes for the socket; the next wait writes them."""
        self._out += data

    def flush(self, timeout_s: float) -> bool:
        """Write the queued bytes; return whether all were written within `timeout_s`."""
        return self._pump(lambda: not self._out, timeout_s)

    def wait_closed(self, timeout_s: float) -> bool:
        """Read until the connection ends; return whether it ended within `timeout_s`."""
        return self._pump(lambda: self.closed, timeout_s)

    def close(self) -> None:
        """Close the socket, so that the plugin reads the end of the stream. May be repeated."""
        if self._sock.fileno() >= 0:
            self._poll.unregister(self._sock)
            self._sock.close()
        self.closed = True

    def _pump(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Read and write until `done()`; return False at the timeout or the end of the stream."""
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
