"""A plugin made of a table of answers, for tests of the runtime side.

It registers, answers what the table says and everything else with an empty message, and records
what it was asked. It runs in a thread of its own, because the runtime side blocks while it calls.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.mux import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    Demultiplexer,
    frame_message,
)
from nri_numamem.nri.runtime_plugin import RUNTIME_SERVICE
from nri_numamem.ttrpc import (
    CallFailed,
    ClientConnection,
    ReplyReceived,
    RequestReceived,
    ServerConnection,
    StatusError,
)

Answer = Callable[[bytes], bytes | None]
"""Payload of a request -> payload of the reply; None: no reply at all. May raise StatusError."""

# Nothing here takes long; a test that hangs shall fail soon.
_TIMEOUT_S = 10.0

_RECEIVE_BYTES = 1 << 18

# As large as what the oldest runtimes send in one message.
_MAX_BODY_BYTES = 64 << 20


class ScriptedPlugin:
    """A plugin on a connected socket, which it owns.

    `events` is what it subscribes to; `idx` None: it connects and says nothing.
    """

    def __init__(
        self,
        sock: socket.socket,
        answers: Mapping[str, Answer] | None = None,
        *,
        name: str = "scripted",
        idx: str | None = "10",
        events: int = 0x07FF,
    ) -> None:
        self.requests: list[tuple[str, bytes]] = []
        """(method, payload) of everything that it was asked."""
        self.outcomes: list[ReplyReceived | CallFailed] = []
        """Answers to what it called on the runtime: the first is the registration's."""
        self.answers = {"Configure": _subscribe_to(events), **(answers or {})}
        self._sock = sock
        self._lock = threading.Lock()
        self._client = ClientConnection()
        self._server = ServerConnection(max_body_bytes=_MAX_BODY_BYTES)
        self._demultiplexer = Demultiplexer((PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN))
        self._thread = threading.Thread(target=self._run, daemon=True)
        sock.settimeout(_TIMEOUT_S)
        if idx is not None:
            registration = api.RegisterPluginRequest(plugin_name=name, plugin_idx=idx)
            self.call("RegisterPlugin", registration.SerializeToString())
        self._thread.start()

    def call(self, method: str, payload: bytes, service: str = RUNTIME_SERVICE) -> None:
        """Call the runtime; the answer will be added to `outcomes`."""
        _, message = self._client.call(service, method, payload)
        self._send(RUNTIME_SERVICE_CONN, message)

    def methods(self) -> list[str]:
        """Return the methods of all requests, in their order."""
        return [method for method, _ in self.requests]

    def close(self) -> None:
        """Close the connection and wait for the thread."""
        with contextlib.suppress(OSError):  # the runtime may have been first
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(_TIMEOUT_S)
        self._sock.close()

    def __enter__(self) -> Self:
        """Return the plugin itself; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # the runtime may close it while we answer
            while data := self._sock.recv(_RECEIVE_BYTES):
                for conn_id, piece in self._demultiplexer.receive_data(data):
                    self._take(conn_id, piece)

    def _take(self, conn_id: int, piece: memoryview) -> None:
        if conn_id == RUNTIME_SERVICE_CONN:
            self.outcomes += self._client.receive_data(piece)
            return
        for event in self._server.receive_data(piece):
            if isinstance(event, RequestReceived):
                self._serve(event)
            else:
                self._send(PLUGIN_SERVICE_CONN, event.message)

    def _serve(self, event: RequestReceived) -> None:
        request = event.request
        self.requests.append((request.method, request.payload))
        answer = self.answers.get(request.method, _nothing)
        try:
            payload = answer(request.payload)
        except StatusError as error:
            message = self._server.reply_error(event.stream_id, error.code, error.message)
        else:
            if payload is None:
                return
            message = self._server.reply(event.stream_id, payload)
        self._send(PLUGIN_SERVICE_CONN, message)

    def _send(self, conn_id: int, message: bytes) -> None:
        with self._lock:
            self._sock.sendall(frame_message(conn_id, message))


def _nothing(_payload: bytes) -> bytes:
    return b""


def _subscribe_to(events: int) -> Answer:
    return lambda _payload: api.ConfigureResponse(events=events).SerializeToString()
