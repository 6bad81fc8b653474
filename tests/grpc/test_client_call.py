from collections.abc import Sequence

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.grpc.client import ClientCall
from nri_numamem.grpc.server_connection import ServerConnection
from nri_numamem.grpc.wire import encode_message
from nri_numamem.ttrpc.status import Code, StatusError
from tests.grpc.pair import METHOD, SETTINGS, exchange, frame, pieces

Headers = Sequence[tuple[str, str]]
OK: Headers = [(":status", "200"), ("content-type", "application/grpc")]


def started(payload: bytes = b"hello", limit_bytes: int = 1 << 20) -> ClientCall:
    return ClientCall(METHOD, payload, timeout_s=5, limit_bytes=limit_bytes)


class Peer:
    """A server that sends what a test says, well-formed as HTTP/2."""

    def __init__(self, client: ClientCall) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.events = self.h2.receive_data(client.data_to_send())
        self.client = client

    def send(self) -> None:
        self.client.receive_data(self.h2.data_to_send())


def outcome_of(
    head: Headers, body: bytes = b"", trailers: Headers | None = None
) -> bytes | StatusError | None:
    client = started()
    peer = Peer(client)
    is_last = not body and trailers is None
    peer.h2.send_headers(1, head, end_stream=is_last)
    if body:
        peer.h2.send_data(1, body, end_stream=trailers is None)
    if trailers is not None:
        peer.h2.send_headers(1, trailers, end_stream=True)
    peer.send()
    return client.outcome


def error_of(head: Headers, body: bytes = b"", trailers: Headers | None = None) -> tuple[Code, str]:
    outcome = outcome_of(head, body, trailers)
    assert isinstance(outcome, StatusError)
    return outcome.code, outcome.message


@pytest.mark.parametrize("step", [0, 1, 7])
@pytest.mark.parametrize("size", [0, 1, 100, 70_000, 3_000_000])
def test_a_reply_of_any_size_arrives_whole_and_in_pieces(size: int, step: int) -> None:
    if step and size > 100_000:
        size = 100_000  # enough for two windows
    client = started(limit_bytes=4 << 20)
    exchange(client, ServerConnection(), lambda _request: bytes(size), step=step)
    assert client.outcome == bytes(size)


def test_the_server_receives_method_payload_and_timeout() -> None:
    client = ClientCall(METHOD, b"ask", timeout_s=2.5, limit_bytes=100)
    exchange(client, ServerConnection(), lambda request: repr(request[1:]).encode())
    assert client.outcome == repr((METHOD, b"ask", 2.5)).encode()


def test_a_call_has_the_headers_of_grpc() -> None:
    peer = Peer(started())
    head = next(event for event in peer.events if hasattr(event, "headers"))
    assert dict(head.headers) == {
        ":method": "POST",
        ":scheme": "http",
        ":path": METHOD,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "nri-numamem",
        "grpc-timeout": "5000m",
    }


def test_a_reply_with_trailers_is_a_payload() -> None:
    trailers = [("grpc-status", "0")]
    assert outcome_of(OK, encode_message(b"hello"), trailers) == b"hello"


def test_an_error_has_code_and_text() -> None:
    trailers = [("grpc-status", "5"), ("grpc-message", "no pod%0Aof%20it")]
    assert error_of(OK, b"", trailers) == (Code.NOT_FOUND, "no pod\nof it")
    assert error_of([*OK, *trailers]) == (Code.NOT_FOUND, "no pod\nof it")
    assert error_of([*OK, ("grpc-status", "5")]) == (Code.NOT_FOUND, "")


@pytest.mark.parametrize("number", ["99", "-1", "", "abc", "1" * 1000, "00", "²"])
def test_an_unknown_status_is_code_unknown(number: str) -> None:
    assert error_of([*OK, ("grpc-status", number)])[0] is Code.UNKNOWN


@pytest.mark.parametrize(
    ("status", "code"),
    [("503", Code.UNAVAILABLE), ("404", Code.UNIMPLEMENTED), ("200", Code.UNKNOWN),
     ("418", Code.UNKNOWN)],
)  # fmt: skip
def test_a_reply_without_grpc_status_has_the_code_of_its_http_status(
    status: str, code: Code
) -> None:
    text = f"reply without grpc-status, HTTP status {status}"
    page = b"" if status == "200" else b"<html>"
    assert error_of([(":status", status)], page, None) == (code, text)


def test_ok_without_a_complete_message_is_an_error() -> None:
    trailers = [("grpc-status", "0")]
    assert error_of(OK, b"", trailers) == (Code.INTERNAL, "the message ends after 0 bytes")
    assert error_of(OK, encode_message(b"abc")[:6], trailers)[0] is Code.INTERNAL


def test_a_reply_over_the_limit_is_refused_before_it_has_arrived() -> None:
    client = started(limit_bytes=100)
    peer = Peer(client)
    peer.h2.send_headers(1, OK)
    peer.h2.send_data(1, encode_message(bytes(101))[:50])
    peer.send()
    assert isinstance(client.outcome, StatusError)
    assert client.outcome.code is Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("error", "code"),
    [(ErrorCodes.REFUSED_STREAM, Code.UNAVAILABLE), (ErrorCodes.CANCEL, Code.CANCELLED),
     (ErrorCodes.PROTOCOL_ERROR, Code.INTERNAL), (0xBAD, Code.INTERNAL)],
)  # fmt: skip
def test_a_reset_ends_the_call(error: int, code: Code) -> None:
    client = started()
    client.data_to_send()
    client.receive_data(SETTINGS + frame(3, 0, 1, error.to_bytes(4, "big")))
    assert isinstance(client.outcome, StatusError)
    assert client.outcome.code is code


def test_the_end_of_the_connection_ends_the_call() -> None:
    client = started()
    peer = Peer(client)
    peer.h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
    peer.send()
    assert isinstance(client.outcome, StatusError)
    assert client.outcome.code is Code.UNAVAILABLE
    client = started()
    client.receive_eof()
    assert isinstance(client.outcome, StatusError)
    assert client.outcome.code is Code.UNAVAILABLE


def test_what_follows_the_reply_changes_nothing() -> None:
    client = started()
    exchange(client, ServerConnection(), lambda _request: b"first")
    client.receive_data(b"garbage" * 100)
    client.receive_eof()
    assert client.outcome == b"first"


def test_an_informational_response_and_a_ping_are_no_reply() -> None:
    client = started()
    peer = Peer(client)
    peer.h2.send_headers(1, [(":status", "103")])
    peer.h2.ping(b"12345678")
    peer.send()
    assert client.outcome is None
    assert b"12345678" in client.data_to_send()


def test_a_peer_that_speaks_another_protocol_ends_the_call() -> None:
    client = started()
    client.receive_data(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(client.outcome, StatusError)
    assert client.outcome.code is Code.INTERNAL
    assert client.outcome.message.startswith("the peer breaks HTTP/2")


FRAMES = st.builds(
    frame,
    st.integers(0, 12),
    st.sampled_from([0, 1, 4, 5, 8, 0x2D, 255]),
    st.sampled_from([0, 1, 2, 3, 2**31 - 1]),
    st.binary(max_size=40),
)


@given(st.lists(st.one_of(FRAMES, st.binary(max_size=30)), max_size=8), st.integers(0, 20))
def test_no_bytes_of_a_server_raise_an_error(parts: list[bytes], step: int) -> None:
    client = started()
    client.data_to_send()
    for piece in pieces(SETTINGS + b"".join(parts), step):
        if client.outcome is None:
            client.receive_data(piece)
            client.data_to_send()
    client.receive_eof()
    assert client.outcome is not None
