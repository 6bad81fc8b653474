"""What the kernel tells of memory and NUMA nodes that come and go: netlink uevents.

The socket gathers them until somebody asks; nobody is woken. Whoever asks learns only that there
was something, for what became of the machine stands in sysfs. A message that was lost counts as
one about memory. Everything else that happens to devices (each pod brings network interfaces) is
dropped after a look at its first bytes; a hundred such messages take 0.2 ms.

The listening is the standard library's. pyroute2 takes the messages apart, for the log: to import
it takes 10 to 22 MB and 0.1 s, so that is done only where somebody reads it.
Source: kernel lib/kobject_uevent.c ("ACTION@DEVPATH", then NUL-separated KEY=VALUE).
"""

import errno
import socket
from collections.abc import Iterable
from typing import Self

from nri_numamem.values import valueclass

# <linux/netlink.h>; the kernel's own messages come in group 1.
_NETLINK_KOBJECT_UEVENT = 15
_KERNEL_GROUP = 1

# The kernel's buffer for one message is 2 KiB, with the path twice besides.
_MESSAGE_BYTES = 8192
# Several times what fits into the socket: whoever floods it shall not hold up the reader.
_READ_AT_ONCE = 2048
_KEPT = 32

_PLACES = (b"/devices/system/memory/", b"/devices/system/node/")


@valueclass(frozen=True, slots=True)
class Told:
    """What the kernel told since the last time somebody asked."""

    messages: tuple[bytes, ...] = ()
    """Those about memory and nodes; the first few of many."""
    is_incomplete: bool = False
    """Messages were lost, perhaps such."""

    def __bool__(self) -> bool:
        """Tell whether the machine may have changed."""
        return bool(self.messages) or self.is_incomplete


class Uevents:
    """A socket on which uevents arrive; a datagram each."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003 - its only argument
        self._sock = sock

    @classmethod
    def listen(cls) -> Self:
        """Return one that the kernel sends to; OSError where that is not allowed."""
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        sock = socket.socket(socket.AF_NETLINK, kind, _NETLINK_KOBJECT_UEVENT)
        try:
            sock.bind((0, _KERNEL_GROUP))
        except OSError:
            sock.close()
            raise
        return cls(sock)

    def take(self) -> Told:
        """Return what came since the last call; never waits. OSError when the socket is broken."""
        kept: list[bytes] = []
        is_incomplete = False
        for _ in range(_READ_AT_ONCE):
            try:
                message = self._sock.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                is_incomplete = True
                continue
            if len(kept) < _KEPT and _is_about_memory(message):
                kept.append(message)
        return Told(tuple(kept), is_incomplete)

    def close(self) -> None:
        """Listen no more."""
        self._sock.close()


def _is_about_memory(message: bytes) -> bool:
    _, at, path = message.partition(b"@")
    return bool(at) and path.startswith(_PLACES)


def describe(messages: Iterable[bytes]) -> list[str]:
    """Return "ACTION DEVPATH" of each message that can be read; ImportError without pyroute2."""
    from pyroute2.netlink.uevent import MarshalUevent  # noqa: PLC0415 - see above

    found: list[str] = []
    for message in messages:
        for event in MarshalUevent().parse(message):
            found.append(f"{event.get('ACTION')} {event.get('DEVPATH')}")  # noqa: PERF401
    return found
