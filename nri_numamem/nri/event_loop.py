"""The event loop of one connection: reads requests, writes replies, runs timers, on one thread.

The channel never blocks. Reading never stops for writing, because a runtime that cannot write to
the plugin holds its locks, and with them every container operation of the node; bytes that the
runtime does not take wait in a bounded buffer. Nothing waits between a request and its reply; log
records are written after the reply.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from nri_numamem.nri.poller import Channel, Clock, Poller, Ready, Source

# Large enough for nearly every request in one read; Synchronize takes several.
READ_BYTES = 64 << 10

# Interval of on_tick, the only timer that wakes an idle host. The heartbeat is there; the observer
# expects one between two of its samples.
TICK_S = 2.0

# Limit of the bytes that wait for a runtime that does not read. Replies are small; this is
# thousands of them.
MAX_UNSENT_BYTES = 16 << 20


class Session(Protocol):
    """The protocol without its socket."""

    @property
    def finished(self) -> bool:
        """Return whether the connection is to be closed from our side."""

    def receive_data(self, data: memoryview) -> bytes:
        """Take bytes from the socket; return bytes for it. May raise the errors of the protocol.

        `data` is overwritten by the next read.
        """


class Ended(StrEnum):
    """Why a connection ended."""

    EOF = "the runtime closed the connection"
    FINISHED = "the session is over"
    STOPPED = "stopped by a signal"
    UNREAD = "the runtime does not read our replies"
    ABANDONED = "the plugin closed the connection"
    FAILED = "the connection failed"


class EventLoop:
    """Serves a session on a connected channel.

    `after_replies` is called after each batch of replies was handed to the kernel, the moment for
    logs. `on_wake` is called when the source `wake` is readable (signals); it returns True to stop.
    `on_tick` is called every TICK_S seconds. Each of the three may call `end`.
    """

    def __init__(
        self,
        channel: Channel,
        session: Session,
        *,
        poller: Poller,
        clock: Clock,
        after_replies: Callable[[], None],
        wake: Source,
        on_wake: Callable[[], bool],
        on_tick: Callable[[], object],
    ) -> None:
        self._channel = channel
        self._session = session
        self._poller = poller
        self._clock = clock
        self._after_replies = after_replies
        self._wake = wake
        self._on_wake = on_wake
        self._on_tick = on_tick
        self._unsent = bytearray()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._ended: Ended | None = None

    def end(self, ended: Ended) -> None:
        """Let `run` return `ended` as soon as the current callback returns."""
        self._ended = self._ended or ended

    def run(self, first: bytes) -> Ended:
        """Send `first`, then serve until the connection ends; return why it ended.

        Raises OSError, except for the peer's disappearance, and the session's errors for bytes
        that are not NRI. The channel stays open; the poller is closed.
        """
        try:
            self._poller.watch(self._channel)
            self._poller.watch(self._wake)
            self._send(first)
            self._serve()
        except (BrokenPipeError, ConnectionResetError):
            self.end(Ended.EOF)
        finally:
            self._poller.close()
        return self._ended or Ended.EOF

    def _serve(self) -> None:
        next_tick_s = self._clock.monotonic_s() + TICK_S
        while self._ended is None:
            wait_s = next_tick_s - self._clock.monotonic_s()
            if self._turn(self._poller.wait(max(0.0, wait_s))):
                return
            if self._clock.monotonic_s() >= next_tick_s:
                self._on_tick()
                next_tick_s = self._clock.monotonic_s() + TICK_S

    def _turn(self, ready: list[Ready]) -> bool:
        """Serve the ready sources; return whether the connection ended."""
        for source, is_readable, is_writable in ready:
            if source is self._wake:
                if self._on_wake():
                    self.end(Ended.STOPPED)
            else:
                if is_writable:
                    self._flush()
                if is_readable:
                    self._read()
            if self._ended is not None:
                return True
        return False

    def _read(self) -> None:
        try:
            size_bytes = self._channel.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        if not size_bytes:
            self.end(Ended.EOF)
            return
        try:
            self._send(self._session.receive_data(self._buffer[:size_bytes]))
        finally:
            self._after_replies()
        if len(self._unsent) > MAX_UNSENT_BYTES:
            self.end(Ended.UNREAD)
        elif self._session.finished:
            self.end(Ended.FINISHED)

    def _send(self, data: bytes) -> None:
        if not data:
            return
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._channel.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            self._unsent += memoryview(data)[sent:]
            self._poller.watch(self._channel, is_write_pending=True)

    def _flush(self) -> None:
        try:
            sent = self._channel.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._poller.watch(self._channel)
