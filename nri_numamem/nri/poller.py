"""What the event loop needs from the operating system: a clock, a byte channel and readiness.

The event loop reaches sockets and time only through these interfaces, so that a test can run it
on a virtual clock against a runtime in the same thread. ``socket.socket`` in non-blocking mode is
a Channel; ``SelectorPoller`` and ``HostClock`` are the implementations of a real process.
"""

import selectors
import time
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """A monotonic clock, the date, and the one way to wait without a poller."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary moment; they never go back."""

    def wall_s(self) -> float:
        """Return the seconds since 1970 (UTC)."""

    def sleep(self, seconds: float) -> None:
        """Return after this time."""


class Source(Protocol):
    """Something that becomes readable: a socket, a pipe."""

    def fileno(self) -> int:
        """Return the file descriptor."""


class Channel(Source, Protocol):
    """A connected byte stream that never blocks; its methods raise OSError as a socket's do."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Read into `buffer`; return the number of bytes, 0 at the end of the stream."""

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        """Write what fits; return the number of bytes."""

    def close(self) -> None:
        """Close the stream; the peer reads its end."""


class Ready(NamedTuple):
    """A source that can be read or written without blocking."""

    source: Source
    is_readable: bool
    is_writable: bool


class Poller(Protocol):
    """Waits for any of several sources."""

    def watch(self, source: Source, *, is_write_pending: bool = False) -> None:
        """Report `source` when it is readable and, if requested, when it is writable.

        A second call for the same source replaces the first.
        """

    def wait(self, timeout_s: float) -> list[Ready]:
        """Return the ready sources; an empty list after `timeout_s` seconds, or earlier."""

    def close(self) -> None:
        """Stop watching; the sources stay open."""


class HostClock:
    """The clocks of the kernel."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary moment; they never go back."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Return the seconds since 1970 (UTC)."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Return after this time."""
        time.sleep(seconds)


class SelectorPoller:
    """Waits with the best system call that the kernel offers (epoll)."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, source: Source, *, is_write_pending: bool = False) -> None:
        """Report `source` when it is readable and, if requested, when it is writable."""
        events = selectors.EVENT_READ
        if is_write_pending:
            events |= selectors.EVENT_WRITE
        if source in self._selector.get_map():
            self._selector.modify(source, events, source)
        else:
            self._selector.register(source, events, source)

    def wait(self, timeout_s: float) -> list[Ready]:
        """Return the ready sources; an empty list after `timeout_s` seconds, or earlier."""
        return [
            Ready(key.data, bool(mask & selectors.EVENT_READ), bool(mask & selectors.EVENT_WRITE))
            for key, mask in self._selector.select(max(0.0, timeout_s))
        ]

    def close(self) -> None:
        """Stop watching; the sources stay open."""
        self._selector.close()
