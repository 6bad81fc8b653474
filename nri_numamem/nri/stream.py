"""The one place where the plugin touches its socket: reads, answers, and writes, on one thread.

The socket is non-blocking. Reading never stops for writing, because a runtime that cannot write
to us holds its locks, and with them every container operation of the node; what it does not take
from us waits in a bounded buffer. Between bytes in and reply out nothing is awaited, and what is
to be logged is handed over after the reply is on its way.
"""

import mmap
import selectors
import socket
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

# Large enough for nearly every request in one read; Synchronize takes several.
READ_BYTES = 256 << 10

# How often on_tick is called. It feeds the watchdog, whose patience leaves room for a stop of 3 s.
# An idle host is woken for nothing else.
TICK_S = 1.5

# What may wait for a runtime that does not read. Replies are small; this is thousands of them.
MAX_UNSENT_BYTES = 16 << 20


class Session(Protocol):
    """What is served: the protocol without its socket."""

    @property
    def finished(self) -> bool:
        """Tell whether the connection is to be closed from our side."""

    def receive_data(self, data: memoryview) -> bytes:
        """Take bytes from the socket; return bytes for it. May raise StreamError's causes.

        `data` is overwritten by what comes next.
        """


class Ended(StrEnum):
    """Why serve() returned."""

    EOF = "the runtime closed the connection"
    FINISHED = "the session is over"
    STOPPED = "asked to stop"
    UNREAD = "the runtime does not read our replies"


class Stream:
    """A connected socket and the session that it carries.

    `after` is called after each batch of replies was handed to the kernel: the moment for logs.
    `wake` is a readable socket (signals, other threads); `on_wake` is called when it has
    something to read and returns True to stop. `on_tick` is called every TICK_S seconds.
    """

    def __init__(
        self,
        sock: socket.socket,
        session: Session,
        *,
        after: Callable[[], None],
        wake: socket.socket,
        on_wake: Callable[[], bool],
        on_tick: Callable[[], object],
    ) -> None:
        sock.setblocking(False)  # noqa: FBT003 - its only argument
        self._sock = sock
        self._session = session
        self._after = after
        self._wake = wake
        self._on_wake = on_wake
        self._on_tick = on_tick
        self._unsent = bytearray()
        # One for all reads: memory of this size would be mapped anew for each of them. Anonymous
        # memory of the kernel's, of which only what was written to takes any.
        self._received = memoryview(mmap.mmap(-1, READ_BYTES))
        self._selector = selectors.DefaultSelector()
        self._watched = selectors.EVENT_READ

    def serve(self, first: bytes) -> Ended:
        """Send `first`, then serve until the connection ends; says how.

        Raises OSError other than the peer's disappearance, and what the session raises for bytes
        that are no NRI. The socket stays open: closing it is the caller's.
        """
        with self._selector as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            try:
                self._send(first)
                next_tick = time.monotonic() + TICK_S
                while True:
                    wait_s = next_tick - time.monotonic()
                    ended = self._turn(selector.select(max(0.0, wait_s)))
                    if ended is not None:
                        return ended
                    if time.monotonic() >= next_tick:
                        self._on_tick()
                        next_tick = time.monotonic() + TICK_S
            except (BrokenPipeError, ConnectionResetError):
                return Ended.EOF

    def _turn(self, ready: list[tuple[selectors.SelectorKey, int]]) -> Ended | None:
        for key, mask in ready:
            if key.fileobj is self._wake:
                if self._on_wake():
                    return Ended.STOPPED
                continue
            if mask & selectors.EVENT_WRITE:
                self._flush()
            if mask & selectors.EVENT_READ:
                ended = self._read()
                if ended is not None:
                    return ended
        return None

    def _read(self) -> Ended | None:
        try:
            size_bytes = self._sock.recv_into(self._received)
        except (BlockingIOError, InterruptedError):
            return None
        if not size_bytes:
            return Ended.EOF
        try:
            self._send(self._session.receive_data(self._received[:size_bytes]))
        finally:
            self._after()
        if len(self._unsent) > MAX_UNSENT_BYTES:
            return Ended.UNREAD
        return Ended.FINISHED if self._session.finished else None

    def _send(self, data: bytes) -> None:
        if not data:
            return
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            self._unsent += memoryview(data)[sent:]
            self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _flush(self) -> None:
        try:
            sent = self._sock.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._watch(selectors.EVENT_READ)

    def _watch(self, events: int) -> None:
        if events != self._watched:
            self._selector.modify(self._sock, events)
            self._watched = events
