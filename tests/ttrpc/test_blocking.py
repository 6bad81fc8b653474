"""The blocking client and server on sockets: threads, timeouts, closed and blocked peers."""

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
    client_socket, server_socket = socket.socketpair()
    with client_socket, server_socket:
        yield client_socket, server_socket


@pytest.fixture
def client(sockets: tuple[socket.socket, socket.socket]) -> Iterator[Client]:
    """Return a client of a server that runs in a thread and serves SERVICES."""
    client_socket, server_socket = sockets
    server = threading.Thread(target=serve, args=(server_socket, SERVICES))
    server.start()
    with Client(client_socket) as client:
        yield client
    server.join()


def in_thread(stack: ExitStack, work: Callable[[], object]) -> list[object]:
    """Run `work` in a thread that `stack` joins; return the list for its result or error."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # noqa: BLE001 - the test checks it
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


def test_many_threads_call_at_the_same_time(client: Client) -> None:
    def work(number: int) -> Callable[[], bool]:
        payloads = [bytes((number,)) * (size * 5000) for size in range(20)]
        return lambda: all(client.call("demo.Echo", "Echo", p, timeout_s=60) == p for p in payloads)

    with ExitStack() as stack:
        outcomes = [in_thread(stack, work(number)) for number in range(6)]
    assert outcomes == [[True]] * 6


def test_a_call_that_raises_leaves_the_connection_unchanged(client: Client) -> None:
    with pytest.raises(StatusError, match="over the limit"):
        client.call("demo.Echo", "Echo", bytes(5 << 20))
    assert client.call("demo.Echo", "Echo", b"next") == b"next"


def test_a_call_times_out(sockets: tuple[socket.socket, socket.socket]) -> None:
    client_socket, server_socket = sockets
    server = ServerConnection()
    with Client(client_socket) as client:
        with pytest.raises(TimeoutError, match="s/slow got no reply in 0 s"):
            client.call("s", "slow", timeout_s=0)
        slow = read_request(server, server_socket)
        assert slow.request.timeout_ns == 1  # 0 would be read as "no limit"
        server_socket.sendall(server.reply(slow.stream_id, b"too late"))
        with ExitStack() as stack:
            outcome = in_thread(stack, lambda: client.call("s", "next", timeout_s=60))
            event = read_request(server, server_socket)
            assert 0 < event.request.timeout_ns <= 60_000_000_000
            server_socket.sendall(server.reply(event.stream_id, b"in time"))
        assert outcome == [b"in time"]
        assert client._connection.dropped_messages == 1


def test_replies_in_any_order(sockets: tuple[socket.socket, socket.socket]) -> None:
    client_socket, server_socket = sockets
    server = ServerConnection()
    with Client(client_socket) as client, ExitStack() as stack:
        first = in_thread(stack, lambda: client.call("s", "first"))
        first_event = read_request(server, server_socket)
        second = in_thread(stack, lambda: client.call("s", "second"))
        second_event = read_request(server, server_socket)
        server_socket.sendall(server.reply(second_event.stream_id, b"2"))
        server_socket.sendall(server.reply(first_event.stream_id, b"1"))
        stack.close()
        assert (first, second) == ([b"1"], [b"2"])


def test_an_invalid_reply_fails_its_call(sockets: tuple[socket.socket, socket.socket]) -> None:
    client_socket, server_socket = sockets
    with Client(client_socket) as client, ExitStack() as stack:
        outcome = in_thread(stack, lambda: client.call("s", "m"))
        read_request(ServerConnection(), server_socket)
        server_socket.sendall(encode_frame(1, 2, b"\xff"))
        stack.close()
        assert [type(error) for error in outcome] == [RemoteProtocolError]


def test_a_write_to_a_peer_that_does_not_read_times_out(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    client_socket, _ = sockets
    with Client(client_socket, ClientConnection(max_send_bytes=64 << 20)) as client:
        with pytest.raises(TimeoutError, match="does not read"):
            client.call("s", "m", bytes(32 << 20), timeout_s=0.01)
        with pytest.raises(ConnectionClosed):
            client.call("s", "m")


def test_the_wait_for_another_write_times_out(sockets: tuple[socket.socket, socket.socket]) -> None:
    client_socket, server_socket = sockets
    with (
        Client(client_socket, ClientConnection(max_send_bytes=64 << 20)) as client,
        ExitStack() as stack,
    ):
        outcome = in_thread(stack, lambda: client.call("s", "m", bytes(32 << 20)))
        server_socket.recv(1)  # its write has begun, and cannot end
        with pytest.raises(TimeoutError, match="other writes took too long"):
            client.call("s", "m", timeout_s=0)
        client.close()
        stack.close()
        assert [type(error) for error in outcome] == [ConnectionClosed]


def test_a_waiting_call_fails_when_the_server_closes(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    client_socket, server_socket = sockets
    with Client(client_socket) as client, ExitStack() as stack:
        outcome = in_thread(stack, lambda: client.call("s", "m"))
        read_request(ServerConnection(), server_socket)
        server_socket.sendall(encode_frame(1, 2, b"some body")[:-1])
        server_socket.close()
        stack.close()
        assert [type(error) for error in outcome] == [ConnectionClosed]
        with pytest.raises(ConnectionClosed):
            client.call("s", "m")


def test_a_reset_ends_the_connection(sockets: tuple[socket.socket, socket.socket]) -> None:
    client_socket, server_socket = sockets
    with Client(client_socket) as client, ExitStack() as stack:
        outcome = in_thread(stack, lambda: client.call("s", "m"))
        server_socket.recv(1)  # the rest stays unread, so that close() resets the connection
        server_socket.close()
        stack.close()
        assert [type(error) for error in outcome] == [ConnectionClosed]


def test_a_failed_write_closes_the_connection(sockets: tuple[socket.socket, socket.socket]) -> None:
    client_socket, _ = sockets
    with Client(client_socket) as client:
        client_socket.shutdown(socket.SHUT_WR)  # while the reader still sees an open connection
        with pytest.raises(ConnectionClosed, match="Broken pipe"):
            client.call("s", "m")
        with pytest.raises(ConnectionClosed):
            client.call("s", "m")


def test_close_may_be_repeated(sockets: tuple[socket.socket, socket.socket]) -> None:
    client_socket, server_socket = sockets
    client = Client(client_socket)
    client.close()
    client.close()
    assert client_socket.fileno() == -1
    assert server_socket.recv(1) == b""
    with pytest.raises(ConnectionClosed):
        client.call("s", "m")


def test_an_invalid_call_gets_an_error_reply(sockets: tuple[socket.socket, socket.socket]) -> None:
    client_socket, server_socket = sockets
    good = encode_request(Request("demo.Echo", "Echo", b"fine"))
    client_socket.sendall(
        encode_frame(2, 1, good)
        + encode_frame(1, 1, b"\xff")
        + encode_frame(3, 1, bytes(101))
        + encode_frame(5, 9, b"")
        + encode_frame(7, 1, good)
    )
    client_socket.shutdown(socket.SHUT_WR)
    serve(server_socket, SERVICES, ServerConnection(max_body_bytes=100))
    server_socket.shutdown(socket.SHUT_WR)
    replies = []
    for frame in FrameParser().feed(client_socket.recv(65_536)):
        assert isinstance(frame, Frame)
        replies.append((frame.stream_id, decode_response(frame.body).code))
    assert replies == [(2, 3), (1, 3), (3, 8), (7, 0)]


def test_serve_returns_when_the_client_closes(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    client_socket, server_socket = sockets
    client_socket.sendall(encode_frame(1, 1, encode_request(Request("demo.Echo", "Echo", b"x"))))
    client_socket.close()
    serve(server_socket, SERVICES)  # the reply has no reader: no exception
