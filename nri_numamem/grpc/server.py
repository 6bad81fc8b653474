"""A server on a Unix socket: one thread that accepts, and one for each connection.

A connection's calls run one after the other. No peer can stop the server: a request and its reply
have STALL_S until they are complete, and one reply per connection waits in memory. With
MAX_CONNECTIONS the idle one that was used longest ago ends for the next, which waits for that.
"""

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
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


@dataclass(slots=True, eq=False)
class _Connection:
    """A connected client."""

    sock: socket.socket
    thread: threading.Thread | None = None
    is_idle: bool = False
    """No call is under way, and it may be ended for another one."""
    is_ending: bool = False
    used_s: float = 0.0

    def shut_down(self) -> None:
        self.is_ending = True
        with suppress(OSError):  # the peer closed first
            self.sock.shutdown(socket.SHUT_RDWR)


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
        self._connections: set[_Connection] = set()
        # Guards the set and its values; notified when one ends or becomes idle.
        self._changed = threading.Condition()
        self._acceptor = threading.Thread(target=self._accept, name="grpc-server", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """End all connections and remove the socket file; calls that run come to their end."""
        self._is_closing.set()
        self._listener.close()
        with self._changed:
            self._changed.notify_all()
        self._acceptor.join()
        with self._changed:
            connections = list(self._connections)
            for connection in connections:
                connection.shut_down()
        for connection in connections:
            if connection.thread is not None:
                connection.thread.join()

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
            self._wait_for_room()
            self._begin(_Connection(sock))

    def _wait_for_room(self) -> None:
        with self._changed:
            while len(self._connections) >= MAX_CONNECTIONS and not self._is_closing.is_set():
                idle = [connection for connection in self._connections if connection.is_idle]
                if idle and not any(connection.is_ending for connection in idle):
                    min(idle, key=lambda connection: connection.used_s).shut_down()
                self._changed.wait()

    def _begin(self, connection: _Connection) -> None:
        thread = threading.Thread(
            target=self._serve, args=(connection,), name="grpc-connection", daemon=True
        )
        connection.thread = thread
        with self._changed:
            self._connections.add(connection)
        try:
            thread.start()
        except RuntimeError:  # a limit of threads
            connection.thread = None
            self._end(connection)

    def _serve(self, connection: _Connection) -> None:
        """Serve one connection until its end."""
        try:
            # A reset, a timeout and a close by this side end the connection.
            with suppress(OSError):
                self._exchange(connection)
        finally:
            self._end(connection)

    def _end(self, connection: _Connection) -> None:
        with self._changed:
            self._connections.discard(connection)
            connection.sock.close()
            self._changed.notify_all()

    def _note(self, connection: _Connection, *, is_idle: bool) -> None:
        with self._changed:
            connection.is_idle, connection.used_s = is_idle, time.monotonic()
            if is_idle:
                self._changed.notify_all()

    def _exchange(self, connection: _Connection) -> None:
        sock, core = connection.sock, ServerConnection()
        waiting: deque[Request] = deque()
        deadline_s = time.monotonic() + self._stall_s
        while not core.has_ended:
            self._send(sock, core)
            if waiting and not core.unsent_replies:
                self._handle(core, waiting.popleft())
                deadline_s = time.monotonic() + self._stall_s
                continue
            is_idle = core.is_idle
            self._note(connection, is_idle=is_idle)
            sock.settimeout(None if is_idle else max(deadline_s - time.monotonic(), 1e-3))
            data = sock.recv(_READ_BYTES)
            if not data:
                return
            if is_idle:
                self._note(connection, is_idle=False)
                deadline_s = time.monotonic() + self._stall_s
            waiting.extend(core.receive_data(data))
        self._send(sock, core)

    def _send(self, sock: socket.socket, connection: ServerConnection) -> None:
        sock.settimeout(self._stall_s)
        sock.sendall(connection.data_to_send())

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
