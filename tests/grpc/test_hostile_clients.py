"""Clients that speak HTTP/2 and try to take memory, calls or all connections of a server."""

import os
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import pytest
from hpack import Encoder

from nri_numamem.grpc.client import call
from nri_numamem.grpc.server import MAX_CONNECTIONS, Handler, Server
from nri_numamem.grpc.server_connection import (
    MAX_CANCELLED,
    MAX_STREAMS,
    ServerConnection,
)
from nri_numamem.grpc.wire import encode_message
from tests.grpc.pair import METHOD, PREFACE, SETTINGS, frame, no_bug

GENEROUS_S = 60.0
# Less than the server's limit for half a request.
HONEST_S = 20.0
WAIT = "/test.Echo/Wait"
HELLO = PREFACE + SETTINGS
DATA, HEADERS, PRIORITY, RESET, SETTING, PING, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
ENHANCE_YOUR_CALM = (11).to_bytes(4, "big")


def half(stream_id: int, method: str = METHOD) -> bytes:
    """Return a call without its message."""
    head = [
        (":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"),
        ("content-type", "application/grpc"), ("te", "trailers"),
    ]  # fmt: skip
    return frame(HEADERS, END_HEADERS, stream_id, Encoder().encode(head))


def whole(stream_id: int, payload: bytes = b"", method: str = METHOD) -> bytes:
    """Return a call."""
    return half(stream_id, method) + frame(DATA, END_STREAM, stream_id, encode_message(payload))


def reset(stream_id: int) -> bytes:
    """Return the frame that cancels a call."""
    return frame(RESET, 0, stream_id, (8).to_bytes(4, "big"))


def streams() -> Iterator[int]:
    """Return the numbers of a client's streams."""
    return count(1, 2)


class Waiting:
    """A handler that waits until it is released; has the payloads of its calls."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.has_begun = threading.Event()
        self.release = threading.Event()

    def __call__(self, payload: bytes, _timeout_s: float | None) -> bytes:
        self.payloads.append(payload)
        self.has_begun.set()
        self.release.wait(GENEROUS_S)
        return payload


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


@pytest.fixture
def path(tmp_path: Path, waiting: Waiting) -> Iterator[Path]:
    methods: dict[str, Handler] = {METHOD: lambda payload, _timeout_s: payload, WAIT: waiting}
    with Server(tmp_path / "s", methods, no_bug):
        yield tmp_path / "s"
        waiting.release.set()


def connect(path: Path, data: bytes = HELLO) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.fspath(path))
    sock.settimeout(GENEROUS_S)
    sock.sendall(data)
    return sock


def assert_serves_soon(path: Path) -> None:
    assert call(path, METHOD, b"honest", timeout_s=HONEST_S) == b"honest"


def read_until(sock: socket.socket, end: bytes) -> None:
    """Read until bytes that contain `end`, or the end of the connection."""
    received = b""
    with suppress(ConnectionError):
        while end not in received and (data := sock.recv(1 << 16)):
            received += data


# --- Cancelled calls.


def test_a_call_that_the_client_cancels_leaves_the_queue() -> None:
    server = ServerConnection()
    server.receive_data(HELLO + whole(1, b"cancelled") + whole(3, b"kept") + reset(1))
    assert server.take_request().payload == b"kept"
    assert not server.has_request


def test_calls_that_are_cancelled_reach_no_handler(path: Path, waiting: Waiting) -> None:
    with connect(path) as sock:
        sock.sendall(whole(1, b"first", WAIT))
        assert waiting.has_begun.wait(GENEROUS_S)
        for stream_id in range(3, 3 + MAX_CANCELLED, 2):
            sock.sendall(whole(stream_id, b"cancelled", WAIT) + reset(stream_id))
        sock.sendall(whole(3 + MAX_CANCELLED | 1, b"last"))
        waiting.release.set()
        read_until(sock, encode_message(b"last"))
    assert waiting.payloads == [b"first"]


def test_calls_of_a_client_that_is_gone_reach_no_handler(path: Path, waiting: Waiting) -> None:
    calls = b"".join(whole(2 * n + 1, b"%d" % n, WAIT) for n in range(MAX_STREAMS))
    with connect(path, HELLO + calls):
        assert waiting.has_begun.wait(GENEROUS_S)
    waiting.release.set()
    assert_serves_soon(path)
    assert waiting.payloads == [b"0"]


def calmed(server: ServerConnection) -> bool:
    """Return whether a server has ended a connection with the error of HTTP/2 for a flood."""
    return server.has_ended and ENHANCE_YOUR_CALM in server.data_to_send()


def test_a_connection_that_cancels_many_calls_ends() -> None:
    server = ServerConnection()
    server.receive_data(HELLO)
    for stream_id in range(1, 2 * MAX_CANCELLED, 2):
        server.receive_data(whole(stream_id) + reset(stream_id))
    assert not calmed(server)
    server.receive_data(half(2 * MAX_CANCELLED + 1) + reset(2 * MAX_CANCELLED + 1))
    assert calmed(server)


def test_a_client_may_cancel_as_many_calls_as_it_lets_complete() -> None:
    server = ServerConnection()
    server.receive_data(HELLO)
    for stream_id in range(1, 12 * MAX_CANCELLED, 4):
        server.receive_data(whole(stream_id) + reset(stream_id) + whole(stream_id + 2))
        server.reply(server.take_request(), b"")
        server.data_to_send()
    assert not server.has_ended


# --- Memory.


def _calls(*parts: Callable[[int], bytes]) -> Callable[[], bytes]:
    numbers = streams()
    return lambda: b"".join(part(next(numbers)) for part in parts)


def _after(first: bytes, rest: bytes) -> Callable[[], bytes]:
    found = iter([first])
    return lambda: next(found, rest)


FLOODS: dict[str, Callable[[], Callable[[], bytes]]] = {
    "cancelled calls": lambda: _calls(lambda n: whole(n, bytes(1000)) + reset(n)),
    "one cancelled call for each other one": lambda: _calls(
        lambda n: whole(n, bytes(1000)) + reset(n), whole
    ),
    "settings": lambda: lambda: SETTINGS,
    "pings": lambda: lambda: frame(PING, 0, 0, bytes(8)),
    "priorities": lambda: lambda: frame(PRIORITY, 0, 1, bytes(5)),
    "windows": lambda: _after(half(1), frame(WINDOW, 0, 1, b"\0\0\0\1")),
    "empty data": lambda: _after(half(1), frame(DATA, 0, 1)),
    "padded data": lambda: _after(half(1), frame(DATA, PADDED, 1, b"\x09" + bytes(9))),
    "data after the end": lambda: _after(whole(1) + reset(1), frame(DATA, 0, 1, bytes(9))),
    "other frames": lambda: lambda: frame(99, 0, 0, bytes(30)),
    "headers without an end": lambda: _after(
        frame(HEADERS, 0, 1, b"\x82"), frame(CONTINUATION, 0, 1, bytes(1000))
    ),
}


def traced_bytes(server: ServerConnection, flood: Callable[[], bytes], frames: int) -> int:
    """Return the memory that a connection allocates at most for a flood."""
    tracemalloc.start()
    try:
        for _ in range(frames):
            server.receive_data(flood())
            if server.has_request:
                server.reply(server.take_request(), bytes(100))
            server.data_to_send()
            if server.has_ended:
                break
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_the_memory_of_a_connection_is_bounded(name: str) -> None:
    server = ServerConnection()
    server.receive_data(HELLO)
    assert traced_bytes(server, FLOODS[name](), 10_000) < 300_000


def test_settings_that_http_2_does_not_have_end_the_connection() -> None:
    server = ServerConnection()
    server.receive_data(HELLO)
    settings = b"".join(number.to_bytes(2, "big") + bytes(4) for number in range(0x100, 0x200))
    server.receive_data(frame(SETTING, 0, 0, settings))
    assert calmed(server)


def test_a_long_head_of_a_call_ends_the_connection() -> None:
    server = ServerConnection()
    server.receive_data(HELLO + half(1, "/" + 10_000 * "x"))
    assert server.has_ended


# --- All connections.


@pytest.mark.parametrize("connections", [1, MAX_CONNECTIONS, 3 * MAX_CONNECTIONS])
def test_half_calls_keep_no_other_client_out(path: Path, connections: int) -> None:
    halves = b"".join(map(half, range(1, 2 * MAX_STREAMS, 2)))
    with ExitStack() as stack:
        for _ in range(connections):
            stack.enter_context(connect(path, HELLO + halves))
        assert_serves_soon(path)


@pytest.mark.parametrize("first", [b"", half(1)])
def test_clients_that_call_again_and_again_keep_no_other_one_out(path: Path, first: bytes) -> None:
    is_over = threading.Event()

    def call_again_and_again() -> None:
        while not is_over.is_set():
            numbers = count(3, 2)
            with suppress(ConnectionError), connect(path, HELLO + first) as sock:
                while not is_over.is_set():
                    sock.sendall(whole(next(numbers), b"again"))
                    if not sock.recv(1 << 16):
                        break

    threads = [threading.Thread(target=call_again_and_again) for _ in range(MAX_CONNECTIONS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            assert_serves_soon(path)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_clients_that_do_not_read_keep_no_other_client_out(path: Path) -> None:
    no_window = PREFACE + frame(SETTING, 0, 0, b"\0\4" + bytes(4))
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(connect(path, no_window + whole(1, b"never read")))
        assert_serves_soon(path)


def test_half_a_call_ends_in_time_though_other_frames_arrive(tmp_path: Path) -> None:
    with (
        Server(tmp_path / "s", {}, no_bug, stall_s=0.2),
        connect(tmp_path / "s", HELLO + half(1)) as sock,
        suppress(ConnectionError),
    ):
        while sock.recv(1 << 16):
            sock.sendall(frame(PING, 0, 0, bytes(8)))
