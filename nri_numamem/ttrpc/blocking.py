"""A blocking client for many threads and a blocking server, on a connected stream socket.

This module has the sockets, threads, locks and clock; the rules of the protocol are in ``client``
and ``server``. Both take a connection object with other limits than the defaults.

The client has one thread that only reads, and two locks. `_write_lock` is held from the choice of a
stream id until the call is written, because stream ids must increase on the wire. `_lock` guards
the connection's state and is never held during I/O, so that the reading thread continues even while
a write waits for the peer.
"""

import math
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Self

from nri_numamem.ttrpc.client import CallFailed, ClientConnection, ReplyReceived
from nri_numamem.ttrpc.envelope import Metadata
from nri_numamem.ttrpc.server import (
    RequestRefused,
    ServerConnection,
    Services,
    handle_request,
)
from nri_numamem.ttrpc.status import ConnectionClosed

# One read returns all small messages that have arrived. Larger reads are not faster.
_READ_BYTES = 64 << 10


class Client:
    """A client of the server at the other end of `sock`; the client owns the socket.

    Any number of threads may call at the same time. Use it as a context manager or ``close`` it.
    """

    def __init__(self, sock: socket.socket, connection: ClientConnection | None = None) -> None:
        sock.settimeout(None)
        self._sock = sock
        self._connection = connection or ClientConnection()
        self._write_lock = threading.Lock()
        self._lock = threading.Lock()
        self._waiters: dict[int, SimpleQueue[ReplyReceived | CallFailed]] = {}
        self._reader = threading.Thread(target=self._read, name="ttrpc-client", daemon=True)
        self._reader.start()

    def call(
        self,
        service: str,
        method: str,
        payload: bytes = b"",
        *,
        timeout_s: float | None = None,
        metadata: Metadata = (),
    ) -> bytes:
        """Call a method, wait for the reply and return its payload.

        Raise StatusError for an error reply, TimeoutError after `timeout_s` (the request carries
        it, too), ConnectionClosed, RemoteProtocolError for an invalid reply, and the errors of
        ``ClientConnection.call``. A timeout during the write closes the connection, because a part
        of the message may have been sent.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._write_lock.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0)):
            raise TimeoutError(f"{service}/{method} was not sent: other writes took too long")
        waiter: SimpleQueue[ReplyReceived | CallFailed] = SimpleQueue()
        try:
            # 0 means "no limit", so no time left becomes 1 ns.
            left_s = _left_s(deadline_s)
            timeout_ns = 0 if left_s is None else max(int(left_s * 1e9), 1)
            with self._lock:
                stream_id, message = self._connection.call(
                    service, method, payload, timeout_ns=timeout_ns, metadata=metadata
                )
                self._waiters[stream_id] = waiter
            self._send(message, deadline_s)
        finally:
            self._write_lock.release()
        try:
            event = waiter.get(timeout=_left_s(deadline_s))
        except Empty:
            self._forget(stream_id)
            raise TimeoutError(f"{service}/{method} got no reply in {timeout_s} s") from None
        if isinstance(event, CallFailed):
            raise event.error
        return event.payload

    def close(self) -> None:
        """Close the connection; waiting calls raise ConnectionClosed. May be repeated."""
        self._shut_down()
        self._reader.join()
        with self._write_lock:  # no writer may use the descriptor after its number is reused
            self._sock.close()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the client."""
        self.close()

    def _read(self) -> None:
        try:
            # A reset and a close by this side end the stream like an orderly end.
            with suppress(OSError):
                while data := self._sock.recv(_READ_BYTES):
                    with self._lock:
                        self._deliver(self._connection.receive_data(data))
        finally:
            with self._lock:
                self._deliver(self._connection.receive_eof())

    def _deliver(self, events: Sequence[ReplyReceived | CallFailed]) -> None:
        for event in events:
            self._waiters.pop(event.stream_id).put(event)

    def _forget(self, stream_id: int) -> None:
        with self._lock:
            self._connection.abandon(stream_id)
            self._waiters.pop(stream_id, None)

    def _send(self, message: bytes, deadline_s: float | None) -> None:
        try:
            _send_until(self._sock, message, deadline_s)
        except TimeoutError:
            self._shut_down()
            raise
        except OSError as error:
            self._shut_down()
            raise ConnectionClosed(f"the connection was closed: {error}") from error

    def _shut_down(self) -> None:
        with suppress(OSError):  # the socket is closed, or the peer closed first
            self._sock.shutdown(socket.SHUT_RDWR)


def serve(
    sock: socket.socket, services: Services, connection: ServerConnection | None = None
) -> None:
    """Serve calls, one after the other, until the client ends the connection.

    Handlers run in this thread, and their deadlines are values of ``time.monotonic_ns``. `sock` is
    a blocking socket, which the caller closes.
    """
    connection = connection or ServerConnection()
    with suppress(ConnectionError):  # the client closed before the reply
        while data := sock.recv(_READ_BYTES):
            now_ns = time.monotonic_ns()
            for event in connection.receive_data(data):
                if isinstance(event, RequestRefused):
                    sock.sendall(event.message)
                else:
                    sock.sendall(handle_request(connection, services, event, now_ns))


def _left_s(deadline_s: float | None) -> float | None:
    """Return the seconds until a value of time.monotonic, 0 if it is past, None for None."""
    return None if deadline_s is None else max(deadline_s - time.monotonic(), 0.0)


def _send_until(sock: socket.socket, message: bytes, deadline_s: float | None) -> None:
    """Write all of `message`; raise TimeoutError when the peer reads too slowly."""
    unsent = memoryview(message)
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    while unsent:
        try:
            unsent = unsent[sock.send(unsent, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            left_s = _left_s(deadline_s)
            if not poll.poll(None if left_s is None else math.ceil(left_s * 1000)):
                raise TimeoutError("the peer does not read: the call was not sent") from None
