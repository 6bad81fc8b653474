"""What the kernel tells of memory and nodes; a pair of sockets stands in for netlink."""

import errno
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.machine.uevents import _KEPT, _READ_AT_ONCE, Told, Uevents, describe

ONLINE = (
    b"online@/devices/system/memory/memory33\0ACTION=online\0"
    b"DEVPATH=/devices/system/memory/memory33\0SUBSYSTEM=memory\0SEQNUM=7\0"
)
ADD = (
    b"add@/devices/system/node/node1\0ACTION=add\0"
    b"DEVPATH=/devices/system/node/node1\0SUBSYSTEM=node\0SEQNUM=8\0"
)
UNRELATED = [
    b"add@/devices/virtual/net/veth1\0ACTION=add\0INTERFACE=/devices/system/node/\0",
    b"libudev\0\xfe\xed\xca\xfe/devices/system/memory/",
    b"/devices/system/memory/memory33",
    b"@/devices/system/cpu/cpu1",
    b"",
]


@pytest.fixture
def pair() -> Iterator[tuple[Uevents, socket.socket]]:
    """Return uevents, and the kernel's end."""
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    uevents = Uevents(ours)
    yield uevents, kernel
    uevents.close()
    kernel.close()


def test_nothing_came(pair: tuple[Uevents, socket.socket]) -> None:
    uevents, _ = pair
    assert uevents.take() == Told()
    assert not uevents.take()


def test_memory_and_nodes_are_told_and_nothing_else(pair: tuple[Uevents, socket.socket]) -> None:
    uevents, kernel = pair
    for message in UNRELATED:
        kernel.send(message)
    assert not uevents.take()
    for message in (UNRELATED[0], ONLINE, *UNRELATED[1:], ADD):
        kernel.send(message)
    told = uevents.take()
    assert told == Told((ONLINE, ADD))
    assert told
    assert not uevents.take()


class Endless(socket.socket):
    """A socket on which there always is another message."""

    def recv(self, size: int, _flags: int = 0, /) -> bytes:
        assert size > len(ONLINE)
        self.read = getattr(self, "read", 0) + 1
        return ONLINE


class Overrun(socket.socket):
    """A netlink socket that lost messages, or is broken."""

    number = errno.ENOBUFS

    def recv(self, _size: int, _flags: int = 0, /) -> bytes:
        number, self.number = self.number, errno.EAGAIN
        raise OSError(number, "x")


def test_a_flood_is_read_piece_by_piece() -> None:
    with Endless(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        told = Uevents(sock).take()
        assert told == Told((ONLINE,) * _KEPT)
        assert sock.read == _READ_AT_ONCE


def test_lost_messages_may_have_been_about_memory() -> None:
    with Overrun(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        uevents = Uevents(sock)
        assert uevents.take() == Told((), is_incomplete=True)
        assert not uevents.take()
        sock.number = errno.EBADF
        with pytest.raises(OSError, match="x"):
            uevents.take()


def test_a_closed_socket_is_told(pair: tuple[Uevents, socket.socket]) -> None:
    uevents, _ = pair
    uevents.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        uevents.take()


def test_messages_in_words() -> None:
    assert describe([ONLINE, ADD]) == [
        "online /devices/system/memory/memory33",
        "add /devices/system/node/node1",
    ]
    assert describe([]) == []


def test_listening_loads_no_library() -> None:
    """The library costs more than all the rest of the plugin."""
    code = (
        "import sys; from nri_numamem.machine.uevents import Uevents; from nri_numamem.cli import"
        " service; sys.exit(any(name.startswith('pyroute2') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_where_listening_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    class Forbidden(socket.socket):
        def __init__(self, *_arguments: int) -> None:
            super().__init__(socket.AF_UNIX, socket.SOCK_DGRAM)

        def bind(self, _address: object, /) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        def close(self) -> None:
            closed.append(True)
            super().close()

    monkeypatch.setattr(socket, "socket", Forbidden)
    with pytest.raises(PermissionError):
        Uevents.listen()
    assert closed == [True]


def test_the_real_kernel_tells_of_its_nodes() -> None:
    trigger = Path("/sys/devices/system/node/node0/uevent")
    try:
        uevents = Uevents.listen()
    except OSError as error:
        pytest.skip(f"netlink is not allowed here: {error}")
    try:
        trigger.write_text("change")
    except OSError as error:
        uevents.close()
        pytest.skip(f"no uevent can be made here: {error}")
    messages: list[bytes] = []
    deadline = time.monotonic() + 30
    while not any(b"node0" in message for message in messages):
        assert time.monotonic() < deadline, "it was not told in time"
        messages.extend(uevents.take().messages)
        time.sleep(0.001)
    uevents.close()
    assert "change /devices/system/node/node0" in describe(messages)
