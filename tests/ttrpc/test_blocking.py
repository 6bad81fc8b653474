"""The blocking shells over real sockets: threads, time, peers that vanish or do not read."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from nri_numamem.ttrpc.blocking import Client, serve
from nri_numamem.ttrpc.client import ClientConnection
from nri_numamem.ttrpc.envelope import Request, decode_response, encode_request
from nri_numamem.ttrpc.frames import Frame, FrameParser, encode_frame
from nri_numamem.ttrpc.server import RequestReceived, ServerConnection
from nri_numamem.ttrpc.status import Code, ConnectionClosed, RemoteProtocolError, StatusError


def echo(request: Request, deadline_ns: int | None) -> bytes:
    return request.payload


def fail(request: Request, deadline_ns: int | None) -> bytes:
    raise StatusError(Code.ABORTED, request.payload.decode())


def describe(request: Request, deadline_ns: int | None) -> bytes:
    return f"{deadline_ns is not None} {request.metadata}".encode()


SERVICES = {"demo.Echo": {"Echo": echo, "Fail": fail, "Describe": describe}}


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


@pytest.fixture
def client(sockets: tuple[socket.socket, socket.socket]) -> Iterator[Client]:
    """Return a client of a server that runs in a thread and answers with SERVICES."""
    here, there = sockets
    server = threading.Thread(target=serve, args=(there, SERVICES))
    server.start()
    with Client(here) as client:
        yield client
    server.join()


def in_thread(stack: ExitStack, work: Callable[[], object]) -> list[object]:
    """Run `work` in a thread that `stack` joins; return where its result or error will be."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    stack.callback(thread.join)
    return outcome


def read_request(server: ServerConnection, sock: socket.socket) -> RequestReceived:
    while True:
        for event in server.receive_data(sock.recv(65_536)):
            assert isinstance(event, RequestReceived)
            return event


def test_calls(client: Client) -> None:
    assert client.call("demo.Echo", "Echo", b"hello") == b"hello"
    assert client.call("demo.Echo", "Echo") == b""
    assert client.call("demo.Echo", "Echo", bytes(300_000), timeout_s=60) == bytes(300_000)
    with pytest.raises(StatusError, match=r"why not \(ABORTED\)"):
        client.call("demo.Echo", "Fail", b"why not")
    with pytest.raises(StatusError, match="service demo"):
        client.call("demo.Other", "Echo")
    assert client.call("demo.Echo", "Describe") == b"False ()"
    found = client.call("demo.Echo", "Describe", timeout_s=60, metadata=[("k", "v")])
    assert found == b"True (('k', 'v'),)"


def test_many_threads_call_at_once(client: Client) -> None:
    def work(number: int) -> Callable[[], bool]:
        payloads = [bytes((number,)) * (size * 5000) for size in range(20)]
        return lambda: all(client.call("demo.Echo", "Echo", p, timeout_s=60) == p for p in payloads)

    with ExitStack() as stack:
        outcomes = [in_thread(stack, work(number)) for number in range(6)]
    assert outcomes == [[True]] * 6


def test_what_could_not_be_called_has_not_happened(client: Client) -> None:
    with pytest.raises(StatusError, match="over the limit"):
        client.call("demo.Echo", "Echo", bytes(5 << 20))
    assert client.call("demo.Echo", "Echo", b"next") == b"next"


def test_no_reply_in_time(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, there = sockets
    server = ServerConnection()
    with Client(here) as client:
        with pytest.raises(TimeoutError, match="s/slow got no reply in 0 s"):
            client.call("s", "slow", timeout_s=0)
        slow = read_request(server, there)
        assert slow.request.timeout_ns == 1  # 0 would be read as "no limit"
        there.sendall(server.reply(slow.stream_id, b"too late"))
        with ExitStack() as stack:
            outcome = in_thread(stack, lambda: client.call("s", "next", timeout_s=60))
            event = read_request(server, there)
            assert 0 < event.request.timeout_ns <= 60_000_000_000
            there.sendall(server.reply(event.stream_id, b"in time"))
        assert outcome == [b"in time"]
        assert client._connection.dropped_messages == 1


def test_replies_in_any_order(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, there = sockets
    server = ServerConnection()
    with Client(here) as client, ExitStack() as stack:
        first = in_thread(stack, lambda: client.call("s", "first"))
        first_event = read_request(server, there)
        second = in_thread(stack, lambda: client.call("s", "second"))
        second_event = read_request(server, there)
        there.sendall(server.reply(second_event.stream_id, b"2"))
        there.sendall(server.reply(first_event.stream_id, b"1"))
        stack.close()
        assert (first, second) == ([b"1"], [b"2"])


def test_a_reply_that_cannot_be_read(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, there = sockets
    with Client(here) as client, ExitStack() as stack:
        outcome = in_thread(stack, lambda: client.call("s", "m"))
        read_request(ServerConnection(), there)
        there.sendall(encode_frame(1, 2, b"\xff"))
        stack.close()
        assert [type(error) for error in outcome] == [RemoteProtocolError]


def test_a_peer_that_does_not_read(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, _ = sockets
    with Client(here, ClientConnection(max_send_bytes=64 << 20)) as client:
        with pytest.raises(TimeoutError, match="does not read"):
            client.call("s", "m", bytes(32 << 20), timeout_s=0.01)
        with pytest.raises(ConnectionClosed):
            client.call("s", "m")


def test_waiting_for_another_callers_write(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, there = sockets
    with Client(here, ClientConnection(max_send_bytes=64 << 20)) as client, ExitStack() as stack:
        outcome = in_thread(stack, lambda: client.call("s", "m", bytes(32 << 20)))
        there.recv(1)  # its write has begun, and cannot end
        with pytest.raises(TimeoutError, match="other calls are being written"):
            client.call("s", "m", timeout_s=0)
        client.close()
        stack.close()
        assert [type(error) for error in outcome] == [ConnectionClosed]


def test_the_server_goes_while_a_call_waits(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    here, there = sockets
    with Client(here) as client, ExitStack() as stack:
        outcome = in_thread(stack, lambda: client.call("s", "m"))
        read_request(ServerConnection(), there)
        there.sendall(encode_frame(1, 2, b"some body")[:-1])
        there.close()
        stack.close()
        assert [type(error) for error in outcome] == [ConnectionClosed]
        with pytest.raises(ConnectionClosed):
            client.call("s", "m")


def test_a_reset_is_an_end_like_any_other(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, there = sockets
    with Client(here) as client, ExitStack() as stack:
        outcome = in_thread(stack, lambda: client.call("s", "m"))
        there.recv(1)  # the rest stays unread, so that close() resets the connection
        there.close()
        stack.close()
        assert [type(error) for error in outcome] == [ConnectionClosed]


def test_a_failed_write_closes(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, _ = sockets
    with Client(here) as client:
        here.shutdown(socket.SHUT_WR)  # while the reader still sees an open connection
        with pytest.raises(ConnectionClosed, match="Broken pipe"):
            client.call("s", "m")
        with pytest.raises(ConnectionClosed):
            client.call("s", "m")


def test_close_may_be_repeated(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, there = sockets
    client = Client(here)
    client.close()
    client.close()
    assert here.fileno() == -1
    assert there.recv(1) == b""
    with pytest.raises(ConnectionClosed):
        client.call("s", "m")


def test_a_server_answers_what_it_refuses(sockets: tuple[socket.socket, socket.socket]) -> None:
    here, there = sockets
    good = encode_request(Request("demo.Echo", "Echo", b"fine"))
    here.sendall(
        encode_frame(2, 1, good)
        + encode_frame(1, 1, b"\xff")
        + encode_frame(3, 1, bytes(101))
        + encode_frame(5, 9, b"")
        + encode_frame(7, 1, good)
    )
    here.shutdown(socket.SHUT_WR)
    serve(there, SERVICES, ServerConnection(max_body_bytes=100))
    there.shutdown(socket.SHUT_WR)
    answers = []
    for frame in FrameParser().feed(here.recv(65_536)):
        assert isinstance(frame, Frame)
        answers.append((frame.stream_id, decode_response(frame.body).code))
    assert answers == [(2, 3), (1, 3), (3, 8), (7, 0)]


def test_a_client_that_vanished_ends_the_server(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    here, there = sockets
    here.sendall(encode_frame(1, 1, encode_request(Request("demo.Echo", "Echo", b"x"))))
    here.close()
    serve(there, SERVICES)  # the reply has no reader: no exception
