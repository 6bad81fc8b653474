import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_numamem.grpc.client import call
from nri_numamem.grpc.server import Server
from nri_numamem.ttrpc.status import Code, StatusError
from tests.grpc.pair import METHOD, SETTINGS, frame, no_bug

GENEROUS_S = 60.0


@contextmanager
def peer(path: Path, behave: Callable[[socket.socket], object]) -> Iterator[None]:
    """Run a peer that treats one connection as `behave` does, and then closes it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.fspath(path))
    listener.listen()

    def serve() -> None:
        sock, _address = listener.accept()
        with sock:
            behave(sock)

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    thread.join()
    listener.close()


def error_of(path: Path, timeout_s: float = GENEROUS_S) -> StatusError:
    with pytest.raises(StatusError) as found:
        call(path, METHOD, timeout_s=timeout_s)
    return found.value


def read_all(sock: socket.socket) -> None:
    while sock.recv(1 << 16):
        pass


def test_a_call_returns_the_reply(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Server(path, {METHOD: lambda payload, _timeout_s: payload * 2}, no_bug):
        assert call(path, METHOD, b"ab", timeout_s=GENEROUS_S) == b"abab"
        assert call(path, METHOD, timeout_s=GENEROUS_S) == b""
        with pytest.raises(StatusError, match=r"over the limit of 3 "):
            call(path, METHOD, b"ab", timeout_s=GENEROUS_S, limit_bytes=3)


def test_a_missing_server_is_unavailable(tmp_path: Path) -> None:
    error = error_of(tmp_path / "s")
    assert (error.code, error.message) == (Code.UNAVAILABLE, "No such file or directory")
    assert error_of(tmp_path / ("x" * 200)).code is Code.UNAVAILABLE


def test_a_server_that_closes_is_unavailable(tmp_path: Path) -> None:
    with peer(tmp_path / "s", lambda sock: sock.recv(1)):
        assert error_of(tmp_path / "s").code is Code.UNAVAILABLE


def test_a_server_that_sends_garbage_is_an_error(tmp_path: Path) -> None:
    with peer(tmp_path / "s", lambda sock: sock.sendall(b"\xff" * 1000)):
        # The peer closes with unread bytes, which resets the connection.
        assert error_of(tmp_path / "s").code in {Code.INTERNAL, Code.UNAVAILABLE}


def test_a_server_that_never_replies_is_left_at_the_deadline(tmp_path: Path) -> None:
    with peer(tmp_path / "s", read_all):
        error = error_of(tmp_path / "s", timeout_s=0.05)
        assert (error.code, error.message) == (Code.DEADLINE_EXCEEDED, "no reply in 0.05 s")


def test_a_server_that_sends_without_end_is_left_at_the_deadline(tmp_path: Path) -> None:
    def flood(sock: socket.socket) -> None:
        try:
            sock.sendall(SETTINGS)
            while True:
                sock.sendall(frame(6, 1, 0, bytes(8)))  # acknowledgements of pings
        except OSError:
            pass

    with peer(tmp_path / "s", flood):
        assert error_of(tmp_path / "s", timeout_s=0.05).code is Code.DEADLINE_EXCEEDED


def test_a_call_waits_for_a_server_that_accepts_late(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen(0)
        others = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for other in others:
            other.settimeout(0)
            other.connect_ex(os.fspath(path))
        assert error_of(path, timeout_s=0.05).code is Code.DEADLINE_EXCEEDED
        for other in others:
            other.close()


def test_no_call_begins_after_its_deadline(tmp_path: Path) -> None:
    assert error_of(tmp_path / "s", timeout_s=0).code is Code.DEADLINE_EXCEEDED
