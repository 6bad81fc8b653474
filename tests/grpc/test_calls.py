"""Several calls of one connection at a time."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from nri_numamem.grpc import Code, Handler, Server, StatusError, call
from nri_numamem.grpc.calls import Calls, Result
from nri_numamem.grpc.server_connection import MAX_STREAMS, Request, ServerConnection
from nri_numamem.grpc.wire import encode_message
from tests.grpc.pair import METHOD, no_bug, pieces
from tests.grpc.test_hostile_clients import HELLO, WAIT, reset, whole

GENEROUS_S = 60.0
CALLS = 50
LIMIT_BYTES = 64 << 10


class Waiting:
    """A handler whose calls wait until they are released."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.release = threading.Event()

    def __call__(self, payload: bytes, _timeout_s: float | None) -> bytes:
        self.begun.release()
        assert self.release.wait(GENEROUS_S)
        return payload

    def wait_for(self, calls: int) -> None:
        """Wait until that many calls run."""
        for _ in range(calls):
            assert self.begun.acquire(timeout=GENEROUS_S)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    one = Waiting()
    yield one
    one.release.set()


@pytest.fixture
def path(tmp_path: Path, waiting: Waiting) -> Iterator[Path]:
    methods: dict[str, Handler] = {METHOD: lambda payload, _timeout_s: payload, WAIT: waiting}
    with Server(tmp_path / "s", methods, no_bug, calls=CALLS, request_bytes=LIMIT_BYTES):
        yield tmp_path / "s"
        waiting.release.set()


@pytest.fixture
def channel(path: Path) -> Iterator[grpc.Channel]:
    """Open one connection of grpcio."""
    with grpc.insecure_channel(f"unix://{path}") as one:
        yield one


def connect(path: Path, data: bytes = HELLO) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.fspath(path))
    sock.settimeout(GENEROUS_S)
    sock.sendall(data)
    return sock


def read_until(sock: socket.socket, *ends: bytes) -> bytes:
    received = b""
    while not all(end in received for end in ends):
        data = sock.recv(1 << 16)
        assert data, received
        received += data
    return received


def test_calls_that_wait_do_not_delay_others(channel: grpc.Channel, waiting: Waiting) -> None:
    slow, quick = channel.unary_unary(WAIT), channel.unary_unary(METHOD)
    calls = [slow.future(b"%d" % n, timeout=GENEROUS_S) for n in range(CALLS - 1)]
    waiting.wait_for(CALLS - 1)
    assert [quick(b"%d" % n, timeout=GENEROUS_S) for n in range(3)] == [b"0", b"1", b"2"]
    waiting.release.set()
    assert [one.result() for one in calls] == [b"%d" % n for n in range(CALLS - 1)]


def test_more_calls_than_the_limit_wait(tmp_path: Path, waiting: Waiting) -> None:
    with (
        Server(tmp_path / "s", {WAIT: waiting}, no_bug, calls=2),
        connect(
            tmp_path / "s", HELLO + b"".join(whole(n, b"%d" % n, WAIT) for n in (1, 3, 5))
        ) as s,
    ):
        waiting.wait_for(2)
        s.sendall(reset(1))  # a call that is cancelled runs on
        assert not waiting.begun.acquire(timeout=0.1)
        waiting.release.set()
        assert encode_message(b"1") not in read_until(s, encode_message(b"3"), encode_message(b"5"))


@pytest.mark.parametrize("step", [0, 1, 7])
def test_calls_arrive_in_pieces(path: Path, waiting: Waiting, step: int) -> None:
    data = whole(1, b"slow", WAIT) + whole(3, b"quick") + whole(5, b"next")
    with connect(path) as sock:
        for piece in pieces(data, step):
            sock.sendall(piece)
        waiting.wait_for(1)
        read_until(sock, encode_message(b"quick"), encode_message(b"next"))
        waiting.release.set()
        read_until(sock, encode_message(b"slow"))


def test_a_client_that_leaves_does_not_end_its_calls(path: Path, waiting: Waiting) -> None:
    with connect(path, HELLO + whole(1, b"", WAIT) + whole(3, b"", WAIT)):
        waiting.wait_for(2)
    assert call(path, METHOD, b"another", timeout_s=GENEROUS_S) == b"another"


def test_close_waits_for_running_calls(tmp_path: Path, waiting: Waiting) -> None:
    server = Server(tmp_path / "s", {WAIT: waiting}, no_bug, calls=2)
    with connect(tmp_path / "s", HELLO + whole(1, b"", WAIT)) as sock:
        waiting.wait_for(1)
        closing = threading.Thread(target=server.close)
        closing.start()
        with suppress(ConnectionError):
            while sock.recv(1 << 16):
                pass
        assert closing.is_alive()
        waiting.release.set()
        closing.join(GENEROUS_S)
        assert not closing.is_alive()


def test_the_limit_of_a_message(channel: grpc.Channel) -> None:
    echo = channel.unary_unary(METHOD)
    assert echo(bytes(LIMIT_BYTES), timeout=GENEROUS_S) == bytes(LIMIT_BYTES)
    with pytest.raises(grpc.RpcError) as found:
        echo(bytes(LIMIT_BYTES + 1), timeout=GENEROUS_S)
    text = f"message of {LIMIT_BYTES + 1} bytes is over the limit of {LIMIT_BYTES}"
    assert (found.value.code(), found.value.details()) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        text,
    )


def test_a_client_may_send_as_many_calls_as_can_run() -> None:
    for streams in (MAX_STREAMS, 100):
        server = ServerConnection(streams=streams)
        setting = b"\0\3" + streams.to_bytes(4, "big")
        assert setting in server.data_to_send()


def test_a_limit_of_threads_ends_only_the_call(
    channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo, start = channel.unary_unary(METHOD), threading.Thread.start
    assert echo(b"first", timeout=GENEROUS_S) == b"first"

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "grpc-call":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", refuse)
        with pytest.raises(grpc.RpcError) as found:
            echo(b"refused", timeout=GENEROUS_S)
    assert found.value.code() is grpc.StatusCode.UNAVAILABLE
    assert found.value.details() == "the server cannot start a thread for the call"
    assert echo(b"served", timeout=GENEROUS_S) == b"served"


def test_a_call_that_ends_without_a_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.excepthook", lambda _arguments: None)

    def stop(_request: Request) -> bytes:
        raise SystemExit

    calls = Calls()
    request = Request(1, METHOD, b"", None)
    assert list(calls.take()) == []
    calls.start(request, stop)
    assert calls.running == 1
    found: list[Result] = []
    while not found:
        found += calls.take()
    calls.close()
    ((done, outcome),) = found
    assert done == request
    assert isinstance(outcome, StatusError)
    assert (outcome.code, calls.running) == (Code.UNKNOWN, 0)
