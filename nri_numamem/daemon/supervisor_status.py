"""What a plugin and its supervisor share: two files in memory.

One takes the tracebacks of a crash. The other has the plugin's status (one byte), its heartbeat (8
bytes), the number of its starts by cause (4 bytes each) and the configuration that it started with.

A runtime that waits for the plugin holds its locks. It waits as long as the socket is open, so a
process that no longer reads is worse than none. Another process reads the heartbeat, judges whether
this one is stuck (``daemon.liveness``), and ends it by SIGABRT; faulthandler, which the entry point
enables, then writes the traceback of every thread. The time limit of a single request is
``daemon.signals.Deadline``. A beat writes a few bytes to memory. It needs no thread and no memory
of its own, so a process at its limit of threads beats as well.

This module is imported by the supervisor, which must stay small.
"""

import os
from collections.abc import Callable
from typing import Self

# The end of a traceback that is kept for the log.
_CRASH_BYTES = 8192

_UNKNOWN, _RUNNING, _DISCONNECTED, _OVER = b"?", b"r", b"d", b"o"
_BEATS_BYTES, _COUNT_BYTES = 8, 4

# Why a process of the plugin was started.
LAUNCHED, SERVICE, CRASHED, KILLED, FAILED, DISCONNECTED = START_CAUSES = (
    *("launched", "service", "crashed", "killed", "failed", "disconnected"),
)

_STATUS_AT, _BEATS_AT = 0, 1
_STARTS_AT = _BEATS_AT + _BEATS_BYTES
_CONFIGURATION_AT = _STARTS_AT + len(START_CAUSES) * _COUNT_BYTES


class SupervisorStatus:
    """The two files; each process has its descriptors of them."""

    def __init__(self) -> None:
        self.crash_descriptor = os.memfd_create("nri-numamem-crash")
        self._status = os.memfd_create("nri-numamem-status")
        os.pwrite(self._status, _UNKNOWN, _STATUS_AT)
        self.beat(0)
        os.ftruncate(self._status, _CONFIGURATION_AT)

    def running(self, configuration: str) -> None:
        """Record that the plugin started with this text; from now on its death is a crash."""
        os.ftruncate(self._status, _CONFIGURATION_AT)
        os.pwrite(self._status, configuration.encode(), _CONFIGURATION_AT)
        os.pwrite(self._status, _RUNNING, _STATUS_AT)

    def disconnected(self) -> None:
        """Record that the plugin ends because the runtime closed the connection."""
        if self.should_restart:
            os.pwrite(self._status, _DISCONNECTED, _STATUS_AT)

    def over(self) -> None:
        """Record that the plugin ends on purpose."""
        os.pwrite(self._status, _OVER, _STATUS_AT)

    @property
    def should_restart(self) -> bool:
        """Return whether the plugin started and did not end on purpose."""
        return os.pread(self._status, 1, _STATUS_AT) in (_RUNNING, _DISCONNECTED)

    @property
    def is_configured(self) -> bool:
        """Return whether the plugin ever started, or ended on purpose."""
        return os.pread(self._status, 1, _STATUS_AT) != _UNKNOWN

    def take_disconnected(self) -> bool:
        """Return whether the runtime closed the connection; the plugin counts as running again."""
        was_disconnected = os.pread(self._status, 1, _STATUS_AT) == _DISCONNECTED
        if was_disconnected:
            os.pwrite(self._status, _RUNNING, _STATUS_AT)
        return was_disconnected

    def beat(self, beats: int) -> None:
        """Record the number of heartbeats; 0 while no event loop runs."""
        os.pwrite(self._status, beats.to_bytes(_BEATS_BYTES, "little"), _BEATS_AT)

    @property
    def beats(self) -> int:
        """The number of heartbeats; 0 while no event loop runs."""
        return int.from_bytes(os.pread(self._status, _BEATS_BYTES, _BEATS_AT), "little")

    def count_start(self, cause: str) -> None:
        """Count a start for one of START_CAUSES."""
        at = _STARTS_AT + START_CAUSES.index(cause) * _COUNT_BYTES
        count = int.from_bytes(os.pread(self._status, _COUNT_BYTES, at), "little")
        os.pwrite(self._status, (count + 1).to_bytes(_COUNT_BYTES, "little"), at)

    @property
    def starts(self) -> dict[str, int]:
        """The starts of the plugin by cause, of all its processes with this supervisor."""
        data = os.pread(self._status, _CONFIGURATION_AT - _STARTS_AT, _STARTS_AT)
        parts = (data[at : at + _COUNT_BYTES] for at in range(0, len(data), _COUNT_BYTES))
        return dict(zip(START_CAUSES, (int.from_bytes(p, "little") for p in parts), strict=True))

    def configuration(self) -> str:
        """Return the text that the plugin started with."""
        size = os.fstat(self._status).st_size
        return os.pread(self._status, size, _CONFIGURATION_AT).decode()

    def take_crash(self) -> str:
        """Return the end of the traceback of a crash, "" if there is none, and delete it."""
        size = os.fstat(self.crash_descriptor).st_size
        text = os.pread(self.crash_descriptor, _CRASH_BYTES, max(0, size - _CRASH_BYTES))
        os.ftruncate(self.crash_descriptor, 0)
        os.lseek(self.crash_descriptor, 0, os.SEEK_SET)
        return text.decode("utf-8", "replace")

    def close(self) -> None:
        """Close both files."""
        os.close(self.crash_descriptor)
        os.close(self._status)


class Heartbeat:
    """A context in which the event loop runs, and calls `run` at each tick.

    `status` is None if no other process watches this one. `ticked` gets the monotonic time of
    each tick.
    """

    def __init__(self, status: SupervisorStatus | None, ticked: Callable[[float], None]) -> None:
        self._status = status
        self._ticked = ticked
        self._beats = 0

    def __enter__(self) -> Self:
        """Beat for the first time."""
        self.beat()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Show that no event loop runs."""
        if self._status is not None:
            self._status.beat(0)

    def run(self, now_s: float) -> tuple[()]:
        """Beat, as a periodic job; `now_s` is monotonic. Return no records."""
        self.beat()
        self._ticked(now_s)
        return ()

    def beat(self) -> None:
        """Show that the event loop makes progress."""
        self._beats += 1
        if self._status is not None:
            self._status.beat(self._beats)
