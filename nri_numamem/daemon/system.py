"""Everything that the daemon takes from the operating system, in one value.

The daemon reads no clock, opens no socket, arms no timer and draws no random number except through
its `System`. ``host_system()`` makes the one of a real process. A test makes another one with
subclasses: a virtual clock, channels in memory, time limits that expire where the test sets
them; the whole daemon then runs in the test's thread, and a seed replays a run exactly.

Files of the host need no interface: every reader takes the root directory that it reads below.
"""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.daemon.signals import Deadline, Signals
from nri_numamem.engine.records.record import Record
from nri_numamem.host.uevents import UeventSocket
from nri_numamem.nri.poller import Channel, Clock, HostClock, Poller, SelectorPoller
from nri_numamem.observe.state_file import StateFile

_PEER_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Connector:
    """Connects to Unix sockets."""

    def connect(self, path: Path) -> Channel:
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


@dataclass(frozen=True, slots=True)
class System:
    """What the daemon uses of the operating system."""

    clock: Clock
    connector: Connector
    new_poller: Callable[[], Poller]
    new_time_limit: Callable[[], Deadline]
    open_state_file: Callable[[Path, Callable[[Record], None]], StateFile]
    """(path, emit) -> state file"""
    listen_uevents: Callable[[], UeventSocket]
    """Return a socket on which the kernel sends uevents; OSError where that is not allowed."""
    open_signals: Callable[[], AbstractContextManager[Signals]]
    """Return a context in which the process's signals arrive at a source."""
    random: Callable[[], float]
    """Return a random number from 0 up to 1."""


def host_system() -> System:
    """Return the operating system of this process."""
    return System(
        clock=HostClock(),
        connector=Connector(),
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
