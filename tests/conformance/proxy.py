"""A recording proxy between the plugin and a runtime, on Unix sockets.

It forwards bytes unchanged. FrameRecorder checks every frame of the plugin. The messages of both
directions are recorded in the order in which they became complete.
"""

import contextlib
import select
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.nri.multiplexer import PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN, Demultiplexer
from nri_numamem.ttrpc.envelope import Request, Response, decode_request, decode_response
from nri_numamem.ttrpc.frames import Frame, FrameParser, MessageType
from tests.laboratory.frames import FrameRecorder

_RECEIVE_BYTES = 1 << 18
_MAX_BODY_BYTES = 64 << 20
_CONN_IDS = (PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN)


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One message: its sender, connection id, stream id and content."""

    by_plugin: bool
    conn_id: int
    stream_id: int
    content: Request | Response


@dataclass
class Direction:
    """Parses the bytes of one direction."""

    by_plugin: bool
    mux: Demultiplexer = field(default_factory=lambda: Demultiplexer(_CONN_IDS))
    parsers: dict[int, FrameParser] = field(
        default_factory=lambda: {conn: FrameParser(_MAX_BODY_BYTES) for conn in _CONN_IDS}
    )

    def feed(self, data: bytes) -> list[RecordedMessage]:
        messages = []
        for conn_id, piece in self.mux.receive_data(data):
            for frame in self.parsers[conn_id].feed(piece):
                assert isinstance(frame, Frame)
                is_request = frame.message_type == MessageType.REQUEST
                decode = decode_request if is_request else decode_response
                content = decode(frame.body)
                messages.append(RecordedMessage(self.by_plugin, conn_id, frame.stream_id, content))
        return messages


class Recorded:
    """One connection through the proxy."""

    def __init__(self) -> None:
        self.recorder = FrameRecorder()
        self.messages: list[RecordedMessage] = []
        self.closed = threading.Event()

    def calls_of_plugin(self) -> list[str]:
        """Return the methods that the plugin called."""
        return [m.content.method for m in self._requests(by_plugin=True)]

    def calls_of_runtime(self) -> list[str]:
        """Return the methods that the runtime called."""
        return [m.content.method for m in self._requests(by_plugin=False)]

    def last_reply(self, method: str) -> Response:
        """Return the plugin's reply to the newest call of `method`."""
        calls = [
            m
            for m in self.messages
            if not m.by_plugin and isinstance(m.content, Request) and m.content.method == method
        ]
        for message in self.messages:
            is_reply = message.by_plugin and message.conn_id == PLUGIN_SERVICE_CONN
            if is_reply and message.stream_id == calls[-1].stream_id:
                assert isinstance(message.content, Response)
                return message.content
        raise AssertionError(f"no reply to {method}")

    def _requests(self, *, by_plugin: bool) -> "list[_RecordedMessageRequest]":
        return [
            _RecordedMessageRequest(m.stream_id, m.conn_id, m.content)
            for m in list(self.messages)
            if m.by_plugin is by_plugin and isinstance(m.content, Request)
        ]


@dataclass(frozen=True, slots=True)
class _RecordedMessageRequest:
    stream_id: int
    conn_id: int
    content: Request


class Proxy:
    """Listens at `path` and forwards each connection to `target`."""

    def __init__(self, path: Path, target: Path) -> None:
        self.connections: list[Recorded] = []
        """All connections, the newest last."""
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening; existing connections end with their peers."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                plugin, _ = self._listener.accept()
            except OSError:
                return
            runtime = socket.socket(socket.AF_UNIX)
            try:
                runtime.connect(str(self._target))
            except OSError:  # no runtime: the plugin reads the end of the stream
                runtime.close()
                plugin.close()
                continue
            recorded = Recorded()
            self.connections.append(recorded)
            thread = threading.Thread(
                target=_forward, args=(plugin, runtime, recorded), daemon=True
            )
            self._threads.append(thread)
            thread.start()


def _forward(plugin: socket.socket, runtime: socket.socket, recorded: Recorded) -> None:
    """Forward bytes in both directions until either side closes."""
    upward, downward = Direction(by_plugin=True), Direction(by_plugin=False)
    with plugin, runtime, contextlib.suppress(OSError):
        while True:
            ready, _, _ = select.select([plugin, runtime], [], [])
            for sock in ready:
                data = sock.recv(_RECEIVE_BYTES)
                if not data:
                    recorded.closed.set()
                    return
                if sock is plugin:
                    recorded.recorder.feed(data)
                    recorded.messages += upward.feed(data)
                    runtime.sendall(data)
                else:
                    recorded.messages += downward.feed(data)
                    plugin.sendall(data)
    recorded.closed.set()
