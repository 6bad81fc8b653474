from collections.abc import Sequence

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.grpc.client import ClientCall
from nri_numamem.grpc.server_connection import (
    MAX_REQUEST_BYTES,
    MAX_STREAMS,
    Request,
    ServerConnection,
)
from nri_numamem.grpc.wire import encode_message
from nri_numamem.ttrpc.status import Code, StatusError
from tests.grpc.pair import METHOD, PREFACE, SETTINGS, frame, pieces, received

Headers = Sequence[tuple[str, str]]
HEAD: Headers = [
    (":method", "POST"), (":scheme", "http"), (":path", METHOD), (":authority", "localhost"),
    ("content-type", "application/grpc+proto"), ("te", "trailers"),
]  # fmt: skip


def replaced(name: str, value: str) -> Headers:
    return [*[(key, old) for key, old in HEAD if key != name], (name, value)]


class Peer:
    """A client that sends what a test says, well-formed as HTTP/2."""

    def __init__(self) -> None:
        self.server = ServerConnection()
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.transfer()

    def transfer(self) -> tuple[list[Request], list[Event]]:
        """Send what is ready in both directions; return what each side received."""
        requests = received(self.server, self.h2.data_to_send())
        return requests, self.h2.receive_data(self.server.data_to_send())

    def ask(self, stream_id: int, head: Headers, body: bytes | None) -> list[Request]:
        self.h2.send_headers(stream_id, head, end_stream=body is None)
        if body is not None:
            self.h2.send_data(stream_id, body, end_stream=True)
        return received(self.server, self.h2.data_to_send())


def headers_of(events: list[Event], kind: type[Event] = ResponseReceived) -> dict[str, str]:
    return dict(next(event.headers for event in events if isinstance(event, kind)))  # type: ignore[attr-defined]


def refused(head: Headers, body: bytes | None) -> dict[str, str]:
    """Send a request that makes no call; return the headers of its response."""
    peer = Peer()
    assert peer.ask(1, head, body) == []
    response = headers_of(peer.transfer()[1])
    assert peer.server.is_idle
    # The connection continues.
    (request,) = peer.ask(3, HEAD, encode_message(b"next"))
    assert request.payload == b"next"
    return response


@pytest.mark.parametrize("step", [0, 1, 9])
def test_a_request_is_read_whole_and_in_pieces(step: int) -> None:
    client = ClientCall(METHOD, b"hello", timeout_s=5, limit_bytes=100)
    server = ServerConnection()
    found = [r for piece in pieces(client.data_to_send(), step) for r in received(server, piece)]
    assert found == [Request(1, METHOD, b"hello", 5.0)]
    assert not server.is_idle


def test_a_request_without_timeout_has_none() -> None:
    (request,) = Peer().ask(1, HEAD, encode_message(b""))
    assert request.timeout_s is None


def test_a_reply_has_head_message_and_trailers() -> None:
    peer = Peer()
    (request,) = peer.ask(1, HEAD, encode_message(b""))
    peer.server.reply(request, b"hello")
    events = peer.transfer()[1]
    assert headers_of(events) == {":status": "200", "content-type": "application/grpc"}
    assert headers_of(events, TrailersReceived) == {"grpc-status": "0"}
    assert [event.data for event in events if hasattr(event, "data")] == [encode_message(b"hello")]
    assert peer.server.is_idle


def test_an_error_has_code_and_text_in_its_head() -> None:
    peer = Peer()
    (request,) = peer.ask(1, HEAD, encode_message(b""))
    peer.server.reply_error(request, StatusError(Code.NOT_FOUND, "no pod\n"))
    events = peer.transfer()[1]
    response = headers_of(events)
    assert (response["grpc-status"], response["grpc-message"]) == ("5", "no pod%0A")
    assert any(isinstance(event, StreamEnded) for event in events)


def test_other_methods_of_http_and_other_contents_are_refused() -> None:
    get = [(k, v) for k, v in replaced(":method", "GET") if k == ":method"] + list(HEAD[1:])
    response = refused(get, None)
    assert (response[":status"], response["allow"]) == ("405", "POST")
    assert refused(replaced("content-type", "text/html"), b"x")[":status"] == "415"
    assert refused([pair for pair in HEAD if pair[0] != "content-type"], b"")[":status"] == "415"


def test_an_invalid_timeout_is_refused() -> None:
    response = refused([*HEAD, ("grpc-timeout", "soon")], encode_message(b""))
    assert response["grpc-status"] == str(int(Code.INTERNAL))


def test_requests_without_one_complete_message_are_refused() -> None:
    internal = str(int(Code.INTERNAL))
    assert refused(HEAD, None)["grpc-status"] == internal
    assert refused(HEAD, b"\0\0\0")["grpc-status"] == internal
    assert refused(HEAD, encode_message(b"") * 2)["grpc-status"] == internal


def test_a_request_over_the_limit_is_refused_before_it_has_arrived() -> None:
    peer = Peer()
    peer.h2.send_headers(1, HEAD)
    peer.h2.send_data(1, encode_message(bytes(MAX_REQUEST_BYTES + 1))[:10])
    events = peer.transfer()[1]
    assert headers_of(events)["grpc-status"] == str(int(Code.RESOURCE_EXHAUSTED))
    assert any(isinstance(event, StreamReset) for event in events)
    peer.server.receive_data(frame(0, 1, 1, bytes(100)))  # sent before the refusal arrived
    assert peer.ask(3, HEAD, encode_message(b"next"))


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_refused_request_that_arrived_with_its_end_ends_only_itself(*, is_reset: bool) -> None:
    peer = Peer()
    peer.h2.send_headers(1, HEAD)
    peer.h2.send_data(1, encode_message(bytes(MAX_REQUEST_BYTES + 1))[:10])
    if is_reset:
        peer.h2.reset_stream(1)
    else:
        peer.h2.send_data(1, b"", end_stream=True)
    assert received(peer.server, peer.h2.data_to_send()) == []
    assert peer.server.is_idle
    assert peer.ask(3, HEAD, encode_message(b"next"))


def test_a_reply_waits_for_the_windows_of_the_client() -> None:
    peer = Peer()
    (request,) = peer.ask(1, HEAD, encode_message(b""))
    peer.server.reply(request, bytes(200_000))
    received = 0
    while peer.server.unsent_replies:
        events = peer.transfer()[1]
        fresh = sum(len(event.data) for event in events if hasattr(event, "data"))
        assert 0 < fresh <= 65_535
        received += fresh
        peer.h2.acknowledge_received_data(fresh, 1)
    events = peer.transfer()[1]
    assert received + sum(len(event.data) for event in events if hasattr(event, "data")) == 200_005


def test_a_call_that_the_client_cancels_gets_no_reply() -> None:
    peer = Peer()
    (request,) = peer.ask(1, HEAD, encode_message(b""))
    peer.h2.reset_stream(1)
    peer.transfer()
    assert peer.server.is_idle
    peer.server.reply(request, b"late")
    peer.server.reply_error(request, StatusError(Code.UNKNOWN))
    assert peer.server.data_to_send() == b""


def test_a_reply_that_the_client_cancels_is_not_continued() -> None:
    peer = Peer()
    (request,) = peer.ask(1, HEAD, encode_message(b""))
    peer.server.reply(request, bytes(200_000))
    peer.transfer()
    assert peer.server.unsent_replies == 1
    peer.h2.reset_stream(1)
    peer.transfer()
    assert peer.server.unsent_replies == 0
    assert peer.server.is_idle


def test_a_client_that_says_goodbye_ends_the_connection() -> None:
    peer = Peer()
    peer.ask(1, HEAD, encode_message(b""))
    peer.h2.close_connection()
    peer.transfer()
    assert peer.server.has_ended


def test_a_client_with_too_many_calls_ends_the_connection() -> None:
    peer = Peer()
    for number in range(MAX_STREAMS):
        assert peer.ask(2 * number + 1, HEAD, encode_message(b""))
    assert not peer.server.has_ended
    # The client's h2 obeys the limit of the server's settings, so this frame is its last one again.
    again = frame(1, 4, 2 * MAX_STREAMS + 1, b"\x82\x86\x84\x41\x01a")
    assert received(peer.server, again) == []
    assert peer.server.has_ended


def test_a_client_of_another_protocol_ends_the_connection() -> None:
    server = ServerConnection()
    assert received(server, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == []
    assert server.has_ended
    assert server.data_to_send()  # with the reason, as HTTP/2 requires


def test_a_connection_has_begun_with_the_settings_of_the_client() -> None:
    server = ServerConnection()
    assert not server.is_idle
    server.receive_data(PREFACE)
    assert not server.is_idle
    server.receive_data(SETTINGS)
    assert server.is_idle


FRAMES = st.builds(
    frame,
    st.integers(0, 12),
    st.sampled_from([0, 1, 4, 5, 8, 0x2D, 255]),
    st.sampled_from([0, 1, 2, 3, 5, 2**31 - 1]),
    st.binary(max_size=40),
)
CALL = ClientCall(METHOD, b"hello", timeout_s=5, limit_bytes=100).data_to_send()


@given(
    st.sampled_from([PREFACE + SETTINGS, CALL, b""]),
    st.lists(st.one_of(FRAMES, st.binary(max_size=30)), max_size=8),
    st.integers(0, 20),
)
def test_no_bytes_of_a_client_raise_an_error(start: bytes, parts: list[bytes], step: int) -> None:
    server = ServerConnection()
    for piece in pieces(start + b"".join(parts), step):
        for request in received(server, piece):
            server.reply(request, bytes(100_000))
        server.data_to_send()
        if server.has_ended:
            return


@given(st.integers(0, len(CALL) - 1), st.integers(1, 255), st.integers(0, 20))
def test_no_changed_byte_of_a_call_raises_an_error(at: int, mask: int, step: int) -> None:
    server = ServerConnection()
    changed = CALL[:at] + bytes([CALL[at] ^ mask]) + CALL[at + 1 :]
    for piece in pieces(changed, step):
        for request in received(server, piece):
            server.reply(request, b"ok")
        server.data_to_send()
        if server.has_ended:
            return
