"""Sockets that wake the writer of a file."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_numamem.observe.wake import WakeSocket
from tests.observe.collected import WAIT_S


@contextmanager
def woken(file: Path) -> Iterator[threading.Semaphore]:
    """Yield what is released at each datagram; the thread that waits has ended afterwards."""
    sock, released = WakeSocket(file, 10 * WAIT_S), threading.Semaphore(0)

    def run() -> None:
        while sock.wait():
            released.release()

    thread = threading.Thread(target=run)
    thread.start()
    yield released
    sock.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert not sock.wait()


def test_a_socket_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 100)  # a socket's path has at most 107 bytes
    with pytest.raises(OSError, match="AF_UNIX path too long"):
        WakeSocket(directory / "file", WAIT_S)


def test_without_a_datagram_the_wait_ends_after_its_timeout(tmp_path: Path) -> None:
    sock = WakeSocket(tmp_path / "file", 0.01)
    assert sock.wait()
    sock.close()
    assert not sock.wait()


def test_an_empty_datagram_does_not_end_the_wait(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with woken(file) as released, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        for _ in range(2):
            other.sendto(b"", str(file.with_name("wake.sock")))
            assert released.acquire(timeout=WAIT_S)
