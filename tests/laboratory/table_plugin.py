"""A plugin whose replies come from a table, for tests of the runtime side.

It registers, replies to each method of the table with the table's function and to every other
method with an empty message, and records all requests. It runs in its own thread, because the
runtime side blocks during a call.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from nri_numamem.nri.multiplexer import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    Demultiplexer,
    frame_message,
)
from nri_numamem.ttrpc import (
    CallFailed,
    ClientConnection,
    ReplyReceived,
    RequestReceived,
    ServerConnection,
    StatusError,
)
from tests.laboratory import api_pb2 as api
from tests.laboratory.plugin import RUNTIME_SERVICE

ReplyFunction = Callable[[bytes], bytes | None]
"""Payload of a request -> payload of the reply, or None for no reply. May raise StatusError."""

# Bounds every wait, so that a test fails soon instead of blocking.
_TIMEOUT_S = 10.0

_RECEIVE_BYTES = 1 << 18

# Above the largest message of the oldest runtimes.
_MAX_BODY_BYTES = 64 << 20


class TablePlugin:
    """A plugin on a connected socket, which it owns.

    `events` is the mask of its subscription. With `idx` None it sends no registration.
    """

    def __init__(
        self,
        sock: socket.socket,
        replies: Mapping[str, ReplyFunction] | None = None,
        *,
        name: str = "table",
        idx: str | None = "10",
        events: int = 0x07FF,
    ) -> None:
        self.requests: list[tuple[str, bytes]] = []
        """(method, payload) of all requests."""
        self.outcomes: list[ReplyReceived | CallFailed] = []
        """The outcomes of its calls to the runtime; the first is the registration's."""
        self.replies = {"Configure": _subscribe_to(events), **(replies or {})}
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
        """Call the runtime; the thread will append the outcome to `outcomes`."""
        _, message = self._client.call(service, method, payload)
        self._send(RUNTIME_SERVICE_CONN, message)

    def methods(self) -> list[str]:
        """Return the methods of all requests, in order of arrival."""
        return [method for method, _ in self.requests]

    def close(self) -> None:
        """Close the connection and wait for the thread."""
        with contextlib.suppress(OSError):  # the runtime may have closed it before
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
        with contextlib.suppress(OSError):  # the runtime may close it during a reply
            while data := self._sock.recv(_RECEIVE_BYTES):
                for conn_id, piece in self._demultiplexer.receive_data(data):
                    self._receive(conn_id, piece)

    def _receive(self, conn_id: int, piece: bytes | memoryview) -> None:
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
        reply = self.replies.get(request.method, _empty_reply)
        try:
            payload = reply(request.payload)
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


def _empty_reply(_payload: bytes) -> bytes:
    return b""


def _subscribe_to(events: int) -> ReplyFunction:
    return lambda _payload: api.ConfigureResponse(events=events).SerializeToString()
