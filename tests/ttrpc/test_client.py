"""The client side: every call ends exactly once, for any bytes from the server."""

import random

import pytest

from nri_numamem.ttrpc.client import CallFailed, ClientConnection, ReplyReceived
from nri_numamem.ttrpc.envelope import Request, Response, decode_request, encode_response
from nri_numamem.ttrpc.frames import MAX_STREAM_ID, Frame, FrameParser, encode_frame
from nri_numamem.ttrpc.status import Code, ConnectionClosed, RemoteProtocolError, StatusError

REQUEST, RESPONSE, DATA = 1, 2, 3


def reply(stream_id: int, response: Response, message_type: int = RESPONSE) -> bytes:
    return encode_frame(stream_id, message_type, encode_response(response))


def failure(client: ClientConnection, message: bytes) -> Exception:
    [event] = client.receive_data(message)
    assert isinstance(event, CallFailed)
    return event.error


def test_golden_call() -> None:
    assert ClientConnection().call("a.B", "C") == (
        1,
        bytes.fromhex("00000008 00000001 01 00 0a03 612e42 1201 43"),
    )


def test_calls_have_increasing_ids_and_all_fields() -> None:
    client = ClientConnection()
    messages = [client.call("s", "m", b"p", timeout_ns=5, metadata=[("k", "v")]) for _ in range(3)]
    assert [stream_id for stream_id, _ in messages] == [1, 3, 5]
    for stream_id, message in messages:
        [frame] = FrameParser().feed(message)
        assert isinstance(frame, Frame)
        assert (frame.stream_id, frame.message_type, frame.flags) == (stream_id, REQUEST, 0)
        assert decode_request(frame.body) == Request("s", "m", b"p", 5, (("k", "v"),))


def test_replies_arrive_in_any_order_and_flags_are_ignored() -> None:
    client = ClientConnection()
    for _ in range(3):
        client.call("s", "m")
    flagged = bytearray(reply(1, Response(b"one")))
    flagged[9] = 0x55
    stream = reply(5, Response(b"five")) + flagged + reply(3, Response())
    events = [event for byte in stream for event in client.receive_data(bytes((byte,)))]
    assert events == [ReplyReceived(5, b"five"), ReplyReceived(1, b"one"), ReplyReceived(3, b"")]
    assert client.dropped_messages == 0


def test_a_status_ends_the_call() -> None:
    client = ClientConnection()
    client.call("s", "m")
    error = failure(client, reply(1, Response(b"", 12, "method m")))
    assert isinstance(error, StatusError)
    assert (error.code, error.message) == (Code.UNIMPLEMENTED, "method m")
    client.call("s", "m")
    error = failure(client, reply(3, Response(b"", 99, "odd")))
    assert isinstance(error, StatusError)
    assert (error.code, error.message) == (Code.UNKNOWN, "odd")


def test_messages_that_are_no_reply_are_ignored_and_counted() -> None:
    client = ClientConnection(max_body_bytes=100)
    client.call("s", "m")
    stream = (
        reply(3, Response())  # never called
        + reply(2, Response())
        + reply(1, Response(), REQUEST)
        + reply(1, Response(), 9)
        + encode_frame(3, RESPONSE, bytes(101))
        + encode_frame(3, DATA, b"")
    )
    assert client.receive_data(stream) == []
    assert client.dropped_messages == 6
    assert client.receive_data(reply(1, Response()) * 2) == [ReplyReceived(1, b"")]
    assert client.dropped_messages == 7


def test_an_invalid_reply_ends_only_its_call() -> None:
    client = ClientConnection()
    client.call("s", "m")
    client.call("s", "m")
    assert isinstance(failure(client, encode_frame(1, RESPONSE, b"\xff")), RemoteProtocolError)
    assert client.receive_data(reply(3, Response(b"fine"))) == [ReplyReceived(3, b"fine")]


def test_streamed_data_ends_the_call() -> None:
    client = ClientConnection()
    client.call("s", "m")
    error = failure(client, encode_frame(1, DATA, b""))
    assert isinstance(error, RemoteProtocolError)
    assert "unary" in str(error)


def test_an_oversize_reply_ends_the_call() -> None:
    client = ClientConnection(max_body_bytes=100)
    client.call("s", "m")
    message = encode_frame(1, RESPONSE, bytes(101))
    error = failure(client, message[:10])
    assert isinstance(error, StatusError)
    assert error.code == Code.RESOURCE_EXHAUSTED
    client.call("s", "m")
    rest = message[10:] + reply(3, Response(b"fine"))
    assert client.receive_data(rest) == [ReplyReceived(3, b"fine")]


def test_an_oversize_request_is_not_sent() -> None:
    client = ClientConnection(max_send_bytes=20)
    with pytest.raises(StatusError, match="request of 109 bytes is over the limit of 20") as caught:
        client.call("s", "m", bytes(101))
    assert caught.value.code == Code.RESOURCE_EXHAUSTED
    with pytest.raises(ValueError, match="surrogates"):
        client.call("\udcff", "m")
    assert client.call("s", "m")[0] == 1  # no id was spent
    assert len(client.receive_eof()) == 1


def test_an_abandoned_call_is_over() -> None:
    client = ClientConnection()
    client.call("s", "m")
    client.abandon(1)
    client.abandon(1)
    assert client.receive_data(reply(1, Response())) == []
    assert client.dropped_messages == 1
    assert client.receive_eof() == []


def test_eof_ends_all_calls_even_inside_a_message() -> None:
    client = ClientConnection()
    for _ in range(3):
        client.call("s", "m")
    client.receive_data(reply(3, Response()) + reply(1, Response(b"half"))[:-1])
    events = client.receive_eof()
    assert [event.stream_id for event in events] == [1, 5]
    assert all(isinstance(event.error, ConnectionClosed) for event in events)
    assert client.receive_eof() == []
    with pytest.raises(ConnectionClosed):
        client.call("s", "m")


def test_stream_ids_end() -> None:
    client = ClientConnection()
    client._next_stream_id = MAX_STREAM_ID
    assert client.call("s", "m")[0] == MAX_STREAM_ID
    with pytest.raises(ConnectionClosed, match="used up"):
        client.call("s", "m")
    last = reply(MAX_STREAM_ID, Response(b"last"))
    assert client.receive_data(last) == [ReplyReceived(MAX_STREAM_ID, b"last")]


def test_random_bytes_end_calls_or_are_ignored_by_a_client() -> None:
    rng = random.Random(4)
    for _ in range(300):
        client = ClientConnection(max_body_bytes=200)
        for _ in range(4):
            client.call("s", "m")
        stream = b"".join(
            encode_frame(
                rng.randrange(10),
                rng.choice([REQUEST, RESPONSE, RESPONSE, RESPONSE, DATA, 77]),
                rng.choice([b"", bytes(201), rng.randbytes(20), encode_response(Response(b"x"))]),
            )
            for _ in range(rng.randrange(8))
        )
        ended = [event.stream_id for event in client.receive_data(stream + rng.randbytes(15))]
        ended += [event.stream_id for event in client.receive_eof()]
        assert sorted(ended) == [1, 3, 5, 7]
