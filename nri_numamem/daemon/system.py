"""Everything that the daemon takes from the operating system, as small interfaces in one value.

The daemon reads no clock, opens no socket, arms no timer and draws no random number except through
its `System`. ``host_system()`` makes the one of a real process. A test makes another one, with a
virtual clock, channels in memory and time limits that expire where the test sets them; the whole
daemon then runs in the test's thread, and a seed replays a run exactly.

Files of the host need no interface: every reader takes the root directory that it reads below.
"""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

from nri_numamem.daemon.signals import Deadline, Signals
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.record import Record
from nri_numamem.host.uevents import UeventSocket
from nri_numamem.nri.poller import Channel, Clock, HostClock, Poller, SelectorPoller, Source
from nri_numamem.observe.plugin_file import PluginFacts
from nri_numamem.observe.state_file import StateFile

_PEER_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid

_Result = TypeVar("_Result")


class TimeLimit(Protocol):
    """A context in which the time of computations can be limited."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exception: object) -> None: ...

    def run(self, limit_s: float, call: Callable[[], _Result]) -> _Result:
        """Return what `call` returns; Overrun in the middle of `call` after `limit_s`."""

    def run_on_processor(self, limit_s: float, call: Callable[[], _Result]) -> _Result:
        """Do the same; only time counts in which `call` runs on a processor."""


class SignalSource(Protocol):
    """The signals that the process received."""

    @property
    def wake(self) -> Source:
        """A source that is readable when a signal has arrived."""

    def take(self) -> set[int]:
        """Return the numbers of the signals since the last call; never waits."""

    def wake_up(self) -> None:
        """Make `wake` readable without a signal; any thread may call it, also after the end."""


class StateWriter(Protocol):
    """A state file; see ``observe.state_file.StateFile``."""

    @property
    def failed_writes(self) -> int:
        """Number of failed writes since the start."""

    @property
    def written_at_s(self) -> float | None:
        """When the file was last written, in seconds since 1970; None if it was not."""

    def load(self) -> EngineState | None:
        """Return what an earlier process wrote; None when there is nothing usable."""

    def offer(self, state: EngineState) -> None:
        """Hand over a state to be written; never waits for a disk."""

    def append(self, time_s: float, record: Record) -> None:
        """Hand over a record for the history, of this Unix time; never waits."""

    def describe(self, facts: PluginFacts) -> None:
        """Hand over facts about the plugin to be written beside it; never waits either."""

    def forget_written(self) -> None:
        """Write what is handed over next in any case: the files may be gone."""

    def close(self) -> None:
        """Write what is waiting."""


class Connector(Protocol):
    """Connects to Unix sockets."""

    def connect(self, path: Path) -> Channel:
        """Return a connected channel; OSError when no process listens at `path`."""

    def peer_pid(self, channel: Channel) -> int:
        """Return the pid of the process that listens at the other end."""


@dataclass(frozen=True, slots=True)
class System:
    """What the daemon uses of the operating system."""

    clock: Clock
    connector: Connector
    new_poller: Callable[[], Poller]
    new_time_limit: Callable[[], TimeLimit]
    open_state_file: Callable[[Path, Callable[[Record], None]], StateWriter]
    """(path, emit) -> state file"""
    listen_uevents: Callable[[], UeventSocket]
    """Return a socket on which the kernel sends uevents; OSError where that is not allowed."""
    open_signals: Callable[[], AbstractContextManager[SignalSource]]
    """Return a context in which the process's signals arrive at a source."""
    random: Callable[[], float]
    """Return a random number from 0 up to 1."""


class SocketConnector:
    """Connects by the kernel's sockets."""

    def connect(self, path: Path) -> socket.socket:
        """Return a connected non-blocking socket; OSError when no process listens at `path`."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(path))
        except BaseException:
            sock.close()
            raise
        sock.setblocking(False)  # noqa: FBT003 - its only argument
        return sock

    def peer_pid(self, channel: Channel) -> int:
        """Return the pid of the process that listens at the other end."""
        with socket.socket(fileno=os.dup(channel.fileno())) as sock:
            credentials = sock.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size
            )
        pid: int = _PEER_CREDENTIALS.unpack(credentials)[0]
        return pid


def host_system() -> System:
    """Return the operating system of this process."""
    return System(
        clock=HostClock(),
        connector=SocketConnector(),
        new_poller=SelectorPoller,
        new_time_limit=Deadline,
        open_state_file=StateFile,
        listen_uevents=UeventSocket.open,
        open_signals=Signals,
        random=_random,
    )


def _random() -> float:
    # The kernel's: the module random costs 1 MiB of memory for one number per connection.
    return int.from_bytes(os.urandom(4), "big") / (1 << 32)
