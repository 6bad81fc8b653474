"""Receive the kernel's uevents about memory and NUMA nodes from a netlink socket.

The socket queues uevents until the caller polls it. A uevent only shows that the machine may have
changed; sysfs shows how. A lost message therefore counts as one about memory. Messages about other
devices (each pod brings network interfaces) are dropped by their first bytes; a hundred of them
take 0.2 ms.

A plain socket receives the messages. pyroute2 parses them for the debug log only, because its
import takes 10 to 22 MB and 0.1 s.
Source: kernel lib/kobject_uevent.c ("ACTION@DEVPATH", then NUL-separated KEY=VALUE).
"""

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

# <linux/netlink.h>; the kernel sends to group 1.
_NETLINK_KOBJECT_UEVENT = 15
_KERNEL_GROUP = 1

# The kernel's buffer for one message has 2 KiB, and the message has the path twice more.
_MESSAGE_BYTES = 8192
# Bounds the work per poll if the socket is flooded; several times the socket's capacity.
_MAX_RECEIVED = 2048
_MAX_KEPT = 32

_PLACES = (b"/devices/system/memory/", b"/devices/system/node/")


@dataclass(frozen=True, slots=True)
class UeventBatch:
    """The uevents about memory and NUMA nodes since the previous poll."""

    messages: tuple[bytes, ...] = ()
    """The first messages, at most 32."""
    is_incomplete: bool = False
    """Whether the kernel dropped messages, which may have been about memory."""

    def __bool__(self) -> bool:
        """Return whether the machine may have changed."""
        return bool(self.messages) or self.is_incomplete


class UeventSocket:
    """A netlink socket that receives uevents, one per datagram."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003 - its only argument
        self._sock = sock

    @classmethod
    def open(cls) -> Self:
        """Return a socket that is subscribed to uevents; raise OSError if that is not allowed."""
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        sock = socket.socket(socket.AF_NETLINK, kind, _NETLINK_KOBJECT_UEVENT)
        try:
            sock.bind((0, _KERNEL_GROUP))
        except OSError:
            sock.close()
            raise
        return cls(sock)

    def receive(self) -> UeventBatch:
        """Return the uevents since the previous call without waiting; raise OSError."""
        kept: list[bytes] = []
        is_incomplete = False
        for _ in range(_MAX_RECEIVED):
            try:
                message = self._sock.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                is_incomplete = True
                continue
            if len(kept) < _MAX_KEPT and _is_about_memory(message):
                kept.append(message)
        return UeventBatch(tuple(kept), is_incomplete)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def _is_about_memory(message: bytes) -> bool:
    _, at, path = message.partition(b"@")
    return bool(at) and path.startswith(_PLACES)


def describe(messages: Iterable[bytes]) -> list[str]:
    """Return "ACTION DEVPATH" of each valid message; raise ImportError without pyroute2."""
    from pyroute2.netlink.uevent import MarshalUevent  # noqa: PLC0415 - see the module's docstring

    found: list[str] = []
    for message in messages:
        for event in MarshalUevent().parse(message):
            found.append(f"{event.get('ACTION')} {event.get('DEVPATH')}")  # noqa: PERF401
    return found
