"""Uevents about memory and NUMA nodes; a pair of sockets replaces netlink."""

import errno
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.host.uevents import _MAX_KEPT, _MAX_RECEIVED, UeventBatch, UeventSocket, describe

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
def pair() -> Iterator[tuple[UeventSocket, socket.socket]]:
    """Return the plugin's socket and the kernel's."""
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    uevents = UeventSocket(ours)
    yield uevents, kernel
    uevents.close()
    kernel.close()


def test_no_message_is_an_empty_batch(pair: tuple[UeventSocket, socket.socket]) -> None:
    uevents, _ = pair
    assert uevents.receive() == UeventBatch()
    assert not uevents.receive()


def test_only_messages_about_memory_and_nodes_are_kept(
    pair: tuple[UeventSocket, socket.socket],
) -> None:
    uevents, kernel = pair
    for message in UNRELATED:
        kernel.send(message)
    assert not uevents.receive()
    for message in (UNRELATED[0], ONLINE, *UNRELATED[1:], ADD):
        kernel.send(message)
    batch = uevents.receive()
    assert batch == UeventBatch((ONLINE, ADD))
    assert batch
    assert not uevents.receive()


class Endless(socket.socket):
    """A socket that always has another message."""

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


def test_work_per_poll_is_bounded() -> None:
    with Endless(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        batch = UeventSocket(sock).receive()
        assert batch == UeventBatch((ONLINE,) * _MAX_KEPT)
        assert sock.read == _MAX_RECEIVED


def test_lost_messages_count_as_a_change() -> None:
    with Overrun(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        uevents = UeventSocket(sock)
        assert uevents.receive() == UeventBatch((), is_incomplete=True)
        assert not uevents.receive()
        sock.number = errno.EBADF
        with pytest.raises(OSError, match="x"):
            uevents.receive()


def test_a_closed_socket_raises(pair: tuple[UeventSocket, socket.socket]) -> None:
    uevents, _ = pair
    uevents.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        uevents.receive()


def test_messages_are_described() -> None:
    assert describe([ONLINE, ADD]) == [
        "online /devices/system/memory/memory33",
        "add /devices/system/node/node1",
    ]
    assert describe([]) == []


def test_receiving_does_not_import_pyroute2() -> None:
    """Its import costs more memory than the plugin itself."""
    code = (
        "import sys; from nri_numamem.host.uevents import UeventSocket"
        "; from nri_numamem.daemon import service"
        "; sys.exit(any(name.startswith('pyroute2') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_forbidden_subscription_closes_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
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
        UeventSocket.open()
    assert closed == [True]


def test_the_real_kernel_sends_uevents_of_nodes() -> None:
    trigger = Path("/sys/devices/system/node/node0/uevent")
    try:
        uevents = UeventSocket.open()
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
        assert time.monotonic() < deadline, "no uevent in time"
        messages.extend(uevents.receive().messages)
        time.sleep(0.001)
    uevents.close()
    assert "change /devices/system/node/node0" in describe(messages)
