import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nri_numamem.grpc.client import ClientCall, call
from nri_numamem.grpc.listen import ListenError
from nri_numamem.grpc.server import MAX_CONNECTIONS, Server
from nri_numamem.ttrpc.status import Code, StatusError
from tests.grpc.pair import METHOD, PREFACE, SETTINGS, frame, no_bug

GENEROUS_S = 60.0
BIG = 3_000_000
CALL = ClientCall(METHOD, b"hello", timeout_s=GENEROUS_S, limit_bytes=BIG).data_to_send()


def fail(payload: bytes, timeout_s: float | None) -> bytes:
    raise KeyError("a bug")


def refuse(payload: bytes, timeout_s: float | None) -> bytes:
    raise StatusError(Code.NOT_FOUND, "no pod")


METHODS = {
    METHOD: lambda payload, _timeout_s: payload,
    "/test.Echo/Big": lambda _payload, _timeout_s: bytes(BIG),
    "/test.Echo/Fail": fail,
    "/test.Echo/Refuse": refuse,
}

BUGS: list[tuple[str, Exception]] = []
"""What the server of `path` reports."""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    BUGS.clear()
    with Server(tmp_path / "s", METHODS, lambda method, error: BUGS.append((method, error))):
        yield tmp_path / "s"


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Path]:
    """Run a server for which a client stalls at once."""
    with Server(tmp_path / "i", METHODS, no_bug, stall_s=0.05):
        yield tmp_path / "i"


def connect(path: Path, data: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.fspath(path))  # blocks while the server's backlog is full
    sock.settimeout(GENEROUS_S)
    with suppress(ConnectionError):  # the server has ended it
        sock.sendall(data)
    return sock


def wait_for_end(sock: socket.socket) -> None:
    """Read until the server ends the connection."""
    with suppress(ConnectionError):
        while sock.recv(1 << 16):
            pass
    sock.close()


def assert_serves(path: Path) -> None:
    assert call(path, METHOD, b"still here", timeout_s=GENEROUS_S) == b"still here"


def error_of(path: Path, method: str) -> StatusError:
    with pytest.raises(StatusError) as found:
        call(path, method, timeout_s=GENEROUS_S)
    return found.value


def test_replies_may_be_large(path: Path) -> None:
    assert call(path, "/test.Echo/Big", timeout_s=GENEROUS_S) == bytes(BIG)


def test_errors_of_handlers_reach_the_client(path: Path) -> None:
    error = error_of(path, "/test.Echo/Refuse")
    assert (error.code, error.message) == (Code.NOT_FOUND, "no pod")
    error = error_of(path, "/test.Echo/Fail")
    assert (error.code, error.message) == (Code.UNKNOWN, "KeyError('a bug')")
    ((method, bug),) = BUGS
    assert (method, str(bug)) == ("/test.Echo/Fail", "'a bug'")
    assert bug.__traceback__ is not None
    assert_serves(path)


def test_unknown_methods_are_unimplemented(path: Path) -> None:
    error = error_of(path, "/test.Echo/Missing")
    assert error.code is Code.UNIMPLEMENTED
    assert error.message == "unknown method /test.Echo/Missing"


def test_many_clients_at_a_time_are_served(path: Path) -> None:
    replies: list[bytes] = []

    def ask() -> None:
        replies.extend(call(path, METHOD, b"x", timeout_s=GENEROUS_S) for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(MAX_CONNECTIONS // 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == [b"x"] * 5 * len(threads)


def test_calls_on_one_connection_are_all_served(path: Path) -> None:
    client = ClientCall(METHOD, b"first", timeout_s=5, limit_bytes=BIG)
    data = client.data_to_send()
    # The second call repeats the frames of the first one on stream 3: the table of headers that
    # the first one left makes them valid, because indexed headers are only added.
    begin = data.index(b"\x00\x00\x00\x01", len(PREFACE) + 30) - 5
    second = data[begin:].replace(b"\x00\x00\x00\x01", b"\x00\x00\x00\x03")
    with connect(path, data + second) as sock:
        received = b""
        while received.count(b"\x00\x00\x00\x00\x05first") < 2:
            received += sock.recv(1 << 16)


@pytest.mark.parametrize("data", [b"", PREFACE[:10], PREFACE, CALL[:-1], CALL[:60]])
def test_a_client_that_sends_half_a_call_is_left(impatient: Path, data: bytes) -> None:
    wait_for_end(connect(impatient, data))


def test_a_client_that_sends_garbage_is_left(path: Path) -> None:
    wait_for_end(connect(path, b"GET / HTTP/1.1\r\n\r\n"))
    wait_for_end(connect(path, PREFACE + SETTINGS + b"\xff" * 1000))
    assert_serves(path)


def test_a_client_that_closes_in_the_middle_does_no_harm(path: Path) -> None:
    for end in range(0, len(CALL), 7):
        connect(path, CALL[:end]).close()
    connect(path, CALL).close()
    assert_serves(path)


def test_a_client_that_does_not_read_is_left(impatient: Path) -> None:
    # It allows any amount of bytes, reads none, and asks again and again.
    call_of_big = ClientCall("/test.Echo/Big", b"", timeout_s=GENEROUS_S, limit_bytes=BIG)
    open_window = b"".join(frame(8, 0, n, (1 << 30).to_bytes(4, "big")) for n in (0, 1))
    sock = connect(impatient, call_of_big.data_to_send() + open_window)
    poll = select.poll()
    poll.register(sock, 0)  # reports only that the server has closed its side
    assert poll.poll(GENEROUS_S * 1000)
    received = 0
    with suppress(ConnectionError):
        while data := sock.recv(1 << 16):
            received += len(data)
    sock.close()
    assert received < BIG


def test_a_client_that_opens_no_window_is_left(impatient: Path) -> None:
    call_of_big = ClientCall("/test.Echo/Big", b"", timeout_s=GENEROUS_S, limit_bytes=BIG)
    wait_for_end(connect(impatient, call_of_big.data_to_send()))


def begun(path: Path) -> socket.socket:
    """Return a connection whose settings the server has confirmed."""
    while True:  # a server that is impatient ends a client that is slow
        sock = connect(path, PREFACE + SETTINGS)
        received = b""
        with suppress(ConnectionError):
            while data := sock.recv(1 << 16):
                received += data
                if received.endswith(frame(4, 1, 0)):
                    return sock
        sock.close()


def test_an_idle_client_stays(impatient: Path) -> None:
    with begun(impatient) as sock:
        wait_for_end(connect(impatient, b""))  # as long as a client may stall
        sock.sendall(frame(6, 0, 0, b"are you "))
        assert sock.recv(1 << 16) == frame(6, 1, 0, b"are you ")


def test_one_idle_client_ends_when_there_are_too_many(path: Path) -> None:
    clients = [begun(path) for _ in range(MAX_CONNECTIONS)]
    assert_serves(path)
    replies = []
    for sock in clients:
        with sock, suppress(ConnectionError):
            sock.sendall(frame(6, 0, 0, b"are you "))
            replies.append(sock.recv(1 << 16))
    assert replies.count(frame(6, 1, 0, b"are you ")) == MAX_CONNECTIONS - 1


def test_a_client_waits_while_all_others_are_busy(tmp_path: Path) -> None:
    release, path = threading.Event(), tmp_path / "s"

    def wait(_payload: bytes, _timeout_s: float | None) -> bytes:
        release.wait(GENEROUS_S)
        return b"done"

    replies: list[bytes] = []
    with Server(path, {METHOD: wait}, no_bug):
        threads = [
            threading.Thread(
                target=lambda: replies.append(call(path, METHOD, timeout_s=GENEROUS_S))
            )
            for _ in range(MAX_CONNECTIONS + 4)
        ]
        for thread in threads:
            thread.start()
        release.set()
        for thread in threads:
            thread.join()
    assert replies == [b"done"] * (MAX_CONNECTIONS + 4)


def test_a_server_that_is_full_can_be_closed(tmp_path: Path) -> None:
    server = Server(tmp_path / "s", METHODS, no_bug)
    # Half a call each: none is idle, and all have time.
    clients = [connect(tmp_path / "s", CALL[:-1]) for _ in range(MAX_CONNECTIONS)]
    for sock in clients:
        sock.recv(1 << 16)
    server.close()
    for sock in clients:
        wait_for_end(sock)


def test_a_flood_of_connections_is_survived(path: Path) -> None:
    for _ in range(20 * MAX_CONNECTIONS):
        connect(path, b"").close()
    assert_serves(path)


def test_a_limit_of_threads_ends_only_new_connections(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", refuse)
        wait_for_end(connect(path, CALL))
    assert_serves(path)


def test_close_ends_connections_and_removes_the_file(tmp_path: Path) -> None:
    server = Server(tmp_path / "s", METHODS, no_bug)
    sock = connect(tmp_path / "s", PREFACE + SETTINGS)
    sock.recv(1 << 16)
    server.close()
    wait_for_end(sock)
    assert not (tmp_path / "s").exists()


def test_a_path_that_is_served_is_refused(path: Path) -> None:
    with pytest.raises(ListenError, match="another process serves"):
        Server(path, METHODS, no_bug)
    assert_serves(path)
