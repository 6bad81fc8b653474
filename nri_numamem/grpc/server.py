"""A server on a Unix socket: one thread that accepts, and one for each connection.

A connection's calls run one after the other. No peer can stop the server: a request and its reply
have STALL_S until they are complete, one reply per connection waits in memory, and with more than
MAX_CONNECTIONS the one that was used longest ago ends.
"""

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from nri_numamem.grpc.listen import Listener, listen
from nri_numamem.grpc.server_connection import Request, ServerConnection
from nri_numamem.ttrpc.status import Code, StatusError

Handler: TypeAlias = Callable[[bytes, float | None], bytes]
"""Receives the payload and the seconds that the client waits (None: no limit); returns the payload
of the reply, or raises StatusError."""

STALL_S: Final = 30.0
MAX_CONNECTIONS: Final = 16

_READ_BYTES = 64 << 10
# Before the next accept() after one that failed, because of too many open files for example.
_ACCEPT_PAUSE_S = 1.0


class Server:
    """Serves `methods` at `path` until ``close``; also a context manager.

    The constructor raises ListenError if another process serves the path.
    """

    def __init__(
        self, path: Path, methods: Mapping[str, Handler], *, stall_s: float = STALL_S
    ) -> None:
        self._methods = methods
        self._stall_s = stall_s
        self._listener: Listener = listen(path)
        self._is_closing = threading.Event()
        self._lock = threading.Lock()
        # In the order of their last use.
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._acceptor = threading.Thread(target=self._accept, name="grpc-server", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """End all connections and remove the socket file; calls that run come to their end."""
        self._is_closing.set()
        self._listener.close()
        self._acceptor.join()
        with self._lock:
            connections = dict(self._connections)
            for sock in connections:
                _shut_down(sock)
        for thread in connections.values():
            thread.join()

    def __enter__(self) -> Self:
        """Return the server itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the server."""
        self.close()

    def _accept(self) -> None:
        while not self._is_closing.is_set():
            try:
                sock, _address = self._listener.sock.accept()
            except OSError:
                self._is_closing.wait(_ACCEPT_PAUSE_S)
                continue
            thread = threading.Thread(
                target=self._serve, args=(sock,), name="grpc-connection", daemon=True
            )
            with self._lock:
                if len(self._connections) >= 2 * MAX_CONNECTIONS:
                    sock.close()  # those that were shut down still run a call
                    continue
                for oldest in list(self._connections)[: 1 - MAX_CONNECTIONS]:
                    _shut_down(oldest)
                self._connections[sock] = thread
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        """Serve one connection until its end."""
        try:
            # A reset, a timeout and a close by this side end the connection.
            with suppress(OSError):
                self._exchange(sock)
        finally:
            with self._lock:
                del self._connections[sock]
                sock.close()

    def _exchange(self, sock: socket.socket) -> None:
        connection = ServerConnection()
        waiting: deque[Request] = deque()
        deadline_s = time.monotonic() + self._stall_s
        while not connection.has_ended:
            self._send(sock, connection)
            if waiting and not connection.unsent_replies:
                self._handle(connection, waiting.popleft())
                self._note_use(sock)
                deadline_s = time.monotonic() + self._stall_s
                continue
            is_idle = connection.is_idle
            sock.settimeout(None if is_idle else max(deadline_s - time.monotonic(), 1e-3))
            data = sock.recv(_READ_BYTES)
            if not data:
                return
            if is_idle:
                deadline_s = time.monotonic() + self._stall_s
            waiting.extend(connection.receive_data(data))
        self._send(sock, connection)

    def _send(self, sock: socket.socket, connection: ServerConnection) -> None:
        sock.settimeout(self._stall_s)
        sock.sendall(connection.data_to_send())

    def _note_use(self, sock: socket.socket) -> None:
        with self._lock:
            self._connections[sock] = self._connections.pop(sock)

    def _handle(self, connection: ServerConnection, request: Request) -> None:
        handler = self._methods.get(request.method)
        if handler is None:
            text = f"unknown method {request.method:.200}"
            connection.reply_error(request, StatusError(Code.UNIMPLEMENTED, text))
            return
        try:
            connection.reply(request, handler(request.payload, request.timeout_s))
        except StatusError as error:
            connection.reply_error(request, error)
        except Exception as error:  # a bug in a handler ends only its call
            log = logging.getLogger(__name__)
            log.exception("the handler of %s failed", request.method)
            connection.reply_error(request, StatusError(Code.UNKNOWN, repr(error)))


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # the peer closed first
        sock.shutdown(socket.SHUT_RDWR)
