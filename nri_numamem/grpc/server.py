"""A server on a Unix socket: a thread that accepts, one for each connection, and one for each call.

A connection's calls run one after the other, or as many at a time as the server is made for. Before
each one the bytes that have arrived are read: a call that the client has cancelled, or whose client
is gone, does not run. A connection lasts until its running calls have ended.

No client can stop the server. A request and its reply have STALL_S until they are complete, unless
a call runs, and at most as many replies per connection wait in memory as calls may run. At
MAX_CONNECTIONS the server ends a connection for the next client: the one that has waited longest
for its own client, idle or not, if that is at least LATE_S; otherwise the first one that sends a
reply. A running call is never ended.
"""

import math
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final, Self, TypeAlias

from nri_numamem.grpc.calls import Calls
from nri_numamem.grpc.listen import Listener, listen
from nri_numamem.grpc.server_connection import (
    MAX_REQUEST_BYTES,
    MAX_STREAMS,
    Request,
    ServerConnection,
)
from nri_numamem.ttrpc.status import Code, StatusError

Handler: TypeAlias = Callable[[bytes, float | None], bytes]
"""Receives the payload and the seconds that the client waits (None: no limit); returns the payload
of the reply, or raises StatusError."""

OnBug: TypeAlias = Callable[[str, Exception], None]
"""Receives the method whose handler raised an unexpected exception, on the thread of the call."""

STALL_S: Final = 30.0
MAX_CONNECTIONS: Final = 16
LATE_S: Final = 0.5
"""Time that a client has to read a reply or send a request while another client waits."""

# Frames have nine bytes at least, and ``h2`` makes an object of some 500 bytes of each.
_READ_BYTES = 16 << 10
# Before the next accept() after one that failed, because of too many open files for example.
_ACCEPT_PAUSE_S = 1.0


class _Phase(Enum):
    """What a connection does."""

    IDLE = auto()
    EXCHANGE = auto()
    """A request or a reply is incomplete: the client has to send or to read."""
    CALL = auto()
    """A handler runs."""


@dataclass(slots=True, eq=False)
class _Connection:
    """A connected client."""

    sock: socket.socket
    thread: threading.Thread | None = None
    phase: _Phase = _Phase.EXCHANGE
    since_s: float = math.inf
    """When the phase began; infinite until the thread runs."""
    is_ending: bool = False

    def enter(self, phase: _Phase) -> None:
        if phase is not self.phase:
            self.phase, self.since_s = phase, time.monotonic()

    def may_end(self, now_s: float) -> bool:
        """Return whether it may be ended for another client."""
        return self.phase is not _Phase.CALL and now_s - self.since_s >= LATE_S

    def shut_down(self) -> None:
        self.is_ending = True
        with suppress(OSError):  # the peer closed first
            self.sock.shutdown(socket.SHUT_RDWR)


class Server:
    """Serves `methods` at `path` until ``close``; also a context manager.

    `on_bug` logs a handler's bug, which ends its call with UNKNOWN. At most `calls` calls of a
    connection run at a time, and a request has at most `request_bytes`. The constructor raises
    ListenError if another process serves the path.
    """

    def __init__(
        self,
        path: Path,
        methods: Mapping[str, Handler],
        on_bug: OnBug,
        *,
        stall_s: float = STALL_S,
        calls: int = 1,
        request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self._methods = methods
        self._on_bug = on_bug
        self._stall_s = stall_s
        self._calls, self._streams = calls, max(calls, MAX_STREAMS)
        self._request_bytes = request_bytes
        self._listener: Listener = listen(path)
        self._is_closing = threading.Event()
        self._connections: set[_Connection] = set()
        self._is_one_waiting = False
        """Whether the next connection that sends a reply ends for a waiting client."""
        # Guards all of these; notified when a connection ends or enters another phase.
        self._changed = threading.Condition()
        self._acceptor = threading.Thread(target=self._accept, name="grpc-server", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """End all connections and remove the socket file; wait for running calls."""
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

    def __exit__(self, *_exception: object) -> None:
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
                self._is_one_waiting = not self._make_room()
                self._changed.wait(LATE_S / 4)
            self._is_one_waiting = False

    def _make_room(self) -> bool:
        """End a connection that may be ended; return whether one ends."""
        now_s = time.monotonic()
        found = [connection for connection in self._connections if connection.may_end(now_s)]
        is_one_ending = any(connection.is_ending for connection in self._connections)
        if found and not is_one_ending:
            min(found, key=lambda one: one.since_s).shut_down()
        return is_one_ending or bool(found)

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
            calls = Calls()
            try:
                with suppress(OSError):
                    self._exchange(connection, calls)
            finally:
                calls.close()
        finally:
            self._end(connection)

    def _end(self, connection: _Connection) -> None:
        with self._changed:
            self._connections.discard(connection)
            connection.sock.close()
            self._changed.notify_all()

    def _enter(self, connection: _Connection, phase: _Phase) -> None:
        """Begin a phase; raise ConnectionAbortedError if the connection ends for another one."""
        with self._changed:
            if connection.is_ending:
                raise ConnectionAbortedError
            connection.enter(phase)
            self._changed.notify_all()

    def _ends_for_another(self, connection: _Connection) -> bool:
        """Return whether a connection that has sent its reply ends for another client."""
        with self._changed:
            if self._is_one_waiting:
                self._is_one_waiting, connection.is_ending = False, True
            return connection.is_ending

    def _exchange(self, connection: _Connection, calls: Calls) -> None:
        sock, core = connection.sock, ServerConnection(self._request_bytes, self._streams)
        connection.since_s = time.monotonic()
        has_replied = False
        while not core.has_ended:
            self._send(sock, core)
            if has_replied and not core.unsent_replies and not calls.running:
                if self._ends_for_another(connection):
                    self._leave(sock, core)
                    return
                has_replied = False
            self._enter(connection, _phase(core, calls))
            may_start = core.has_request and calls.running + core.unsent_replies < self._calls
            if self._wait(connection, calls, may_wait=not may_start):
                data = sock.recv(_READ_BYTES)
                if not data:
                    return
                core.receive_data(data)
            elif may_start:
                self._enter(connection, _Phase.CALL)
                calls.start(core.take_request(), self._handle)
            for result in calls.take():
                result.reply(core)
                has_replied = True
        self._send(sock, core)

    def _wait(self, connection: _Connection, calls: Calls, *, may_wait: bool) -> bool:
        """Wait for the client or the end of a call; return whether there are bytes of the client.

        Raises TimeoutError if a request or a reply takes too long.
        """
        timeout_ms = None if may_wait else 0.0
        if connection.phase is _Phase.EXCHANGE:
            left_s = connection.since_s + self._stall_s - time.monotonic()
            if left_s <= 0.0:
                raise TimeoutError
            timeout_ms = math.ceil(left_s * 1000.0) if may_wait else 0.0
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        poll.register(calls, select.POLLIN)
        return any(number == connection.sock.fileno() for number, _ in poll.poll(timeout_ms))

    def _send(self, sock: socket.socket, connection: ServerConnection) -> None:
        sock.settimeout(self._stall_s)
        sock.sendall(connection.data_to_send())

    def _leave(self, sock: socket.socket, connection: ServerConnection) -> None:
        """End a connection whose client may not have read its reply yet."""
        connection.end()
        self._send(sock, connection)
        # A client that still sends must not get an error before it has read.
        sock.shutdown(socket.SHUT_WR)
        end_s = time.monotonic() + LATE_S
        while (left_s := end_s - time.monotonic()) > 0.0:
            sock.settimeout(left_s)
            if not sock.recv(_READ_BYTES):
                return

    def _handle(self, request: Request) -> bytes:
        """Return the payload of the reply; raise StatusError."""
        handler = self._methods.get(request.method)
        if handler is None:
            raise StatusError(Code.UNIMPLEMENTED, f"unknown method {request.method:.200}")
        try:
            return handler(request.payload, request.timeout_s)
        except StatusError:
            raise
        except Exception as error:  # a bug in a handler ends only its call
            self._on_bug(request.method, error)
            raise StatusError(Code.UNKNOWN, repr(error)) from error


def _phase(core: ServerConnection, calls: Calls) -> _Phase:
    if calls.running:
        return _Phase.CALL
    return _Phase.IDLE if core.is_idle else _Phase.EXCHANGE
