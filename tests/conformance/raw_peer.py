"""A runtime side that sends arbitrary bytes and returns the plugin's replies.

Unlike FakeRuntime it accepts every order and checks nothing.
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from nri_numamem.nri.multiplexer import frame_message
from nri_numamem.ttrpc.envelope import Request, Response, encode_request
from nri_numamem.ttrpc.frames import encode_frame
from tests.conformance.proxy import Direction, RecordedMessage
from tests.laboratory import api_pb2 as api
from tests.laboratory.plugin import PLUGIN_SERVICE

_RECEIVE_BYTES = 1 << 18
_WAIT_S = 20.0


class RawPeer:
    """The runtime's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.framer: Callable[[int, bytes], bytes] = frame_message
        """Divides messages into frames."""
        self._sock = sock
        self._direction = Direction(by_plugin=True)
        self._messages: list[RecordedMessage] = []
        self._last_stream = -1

    @staticmethod
    def listen(path: Path) -> socket.socket:
        """Return a listening socket."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(_WAIT_S)
        return listener

    @classmethod
    def accept(cls, listener: socket.socket) -> Self:
        """Wait for the plugin to connect."""
        sock, _ = listener.accept()
        return cls(sock)

    def next_stream(self) -> int:
        """Return an unused stream id."""
        self._last_stream += 2
        return self._last_stream

    def send_bytes(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self._sock.settimeout(_WAIT_S)
        self._sock.sendall(data)

    def send(self, conn_id: int, message: bytes) -> None:
        """Send one ttrpc message."""
        self.send_bytes(self.framer(conn_id, message))

    def call(self, method: str, payload: bytes, *, service: str = PLUGIN_SERVICE) -> Response:
        """Call the plugin and return its reply."""
        stream = self.next_stream()
        request = Request(service, method, payload, 2 * 10**9)
        self.send(1, encode_frame(stream, 1, encode_request(request)))
        return self.reply_to(stream)

    def reply_to(self, stream: int) -> Response:
        """Wait for the reply on a stream."""
        deadline = time.monotonic() + _WAIT_S
        while True:
            for message in self._messages:
                if message.conn_id == 1 and message.stream_id == stream:
                    assert isinstance(message.content, Response)
                    return message.content
            self.receive(deadline - time.monotonic())

    def next_request(self) -> RecordedMessage:
        """Wait for the first call of the plugin."""
        while not self._messages:
            self.receive(_WAIT_S)
        (request,) = self._messages
        return request

    def accept_registration(self) -> None:
        """Reply to RegisterPlugin with success."""
        self.send(2, encode_frame(self.next_request().stream_id, 2, b""))

    def configure(self) -> api.ConfigureResponse:
        """Send Configure as a new containerd does; return the reply."""
        request = api.ConfigureRequest(
            runtime_name="containerd",
            runtime_version="v2.3.4",
            registration_timeout=5000,
            request_timeout=2000,
            NRI_version="v0.12.0",
        )
        reply = self.call("Configure", request.SerializeToString())
        assert reply.code == 0
        return api.ConfigureResponse.FromString(reply.payload)

    def receive(self, timeout_s: float) -> None:
        """Receive the plugin's next bytes; raise TimeoutError, or EOFError at the end."""
        self._sock.settimeout(max(timeout_s, 0.001))
        data = self._sock.recv(_RECEIVE_BYTES)
        if not data:
            raise EOFError("the plugin closed the connection")
        self._messages += self._direction.feed(data)

    def wait_closed(self, timeout_s: float) -> bool:
        """Return whether the plugin closes the connection within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.receive(deadline - time.monotonic())
            except (EOFError, ConnectionResetError):
                return True
            except TimeoutError:
                return False

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()

    def __enter__(self) -> Self:
        """Return the peer itself; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
