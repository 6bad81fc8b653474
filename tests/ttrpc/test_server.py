"""The answering end: stream ids, exactly one answer, limits, whatever a client may send."""

import random

import pytest

from nri_numamem.ttrpc.envelope import (
    Request,
    Response,
    decode_response,
    encode_request,
)
from nri_numamem.ttrpc.frames import (
    MAX_BODY_BYTES,
    MAX_SEND_BYTES,
    MAX_STREAM_ID,
    Frame,
    FrameParser,
    encode_frame,
)
from nri_numamem.ttrpc.server import (
    MAX_ERROR_TEXT_BYTES,
    RequestReceived,
    RequestRefused,
    ServerConnection,
)
from nri_numamem.ttrpc.status import Code, LocalProtocolError

REQUEST, RESPONSE, DATA = 1, 2, 3
BODY = encode_request(Request("s", "m", b"p"))


def response_in(message: bytes) -> tuple[int, Response]:
    """Take apart exactly one response."""
    [frame] = FrameParser().feed(message)
    assert isinstance(frame, Frame)
    assert (frame.message_type, frame.flags) == (RESPONSE, 0)
    return frame.stream_id, decode_response(frame.body)


def request(stream_id: int) -> bytes:
    return encode_frame(stream_id, REQUEST, BODY)


def started(server: ServerConnection, stream_id: int = 1) -> ServerConnection:
    assert server.receive_data(request(stream_id)) == [
        RequestReceived(stream_id, Request("s", "m", b"p"))
    ]
    return server


def check_refused(event: object, stream_id: int, code: Code) -> str:
    assert isinstance(event, RequestRefused)
    assert (event.stream_id, event.code) == (stream_id, code)
    assert response_in(event.message) == (stream_id, Response(b"", code, event.text))
    return event.text


def test_golden_replies() -> None:
    server = started(ServerConnection())
    assert server.reply(1, b"") == bytes.fromhex("00000000 00000001 02 00")
    started(server, 3)
    assert server.reply(3, b"ok") == bytes.fromhex("00000004 00000003 02 00 1202 6f6b")
    started(server, 5)
    assert server.reply_error(5, Code.UNIMPLEMENTED, "method x") == bytes.fromhex(
        "0000000e 00000005 02 00 0a0c 080c 1208 6d6574686f642078"
    )


def test_requests_back_to_back_are_answered_in_any_order() -> None:
    server = ServerConnection()
    events = server.receive_data(request(1) + request(3) + request(4_000_000_001))
    assert [event.stream_id for event in events] == [1, 3, 4_000_000_001]
    for stream_id in (3, 4_000_000_001, 1):
        reply = server.reply(stream_id, b"x")
        assert response_in(reply) == (stream_id, Response(b"x"))


def test_flags_are_ignored() -> None:
    message = bytearray(request(1))
    message[9] = 0x57
    assert len(ServerConnection().receive_data(message)) == 1


@pytest.mark.parametrize("message_type", [0, RESPONSE, DATA, 9, 255])
def test_other_messages_are_ignored_by_a_server(message_type: int) -> None:
    server = ServerConnection(max_body_bytes=100)
    for body in (BODY, bytes(101)):
        assert server.receive_data(encode_frame(1, message_type, body)) == []
    started(server, 1)


@pytest.mark.parametrize("stream_id", [0, 2, MAX_STREAM_ID - 1])
def test_even_stream_ids_are_refused(stream_id: int) -> None:
    server = ServerConnection()
    [event] = server.receive_data(request(stream_id))
    assert "not odd" in check_refused(event, stream_id, Code.INVALID_ARGUMENT)
    started(server, 1)


@pytest.mark.parametrize("stream_id", [5, 3, 1])
def test_stream_ids_must_increase(stream_id: int) -> None:
    server = started(ServerConnection(), 5)
    [event] = server.receive_data(request(stream_id))
    assert "not above" in check_refused(event, stream_id, Code.INVALID_ARGUMENT)
    assert response_in(server.reply(5, b"late"))[1].payload == b"late"
    started(server, 7)


def test_garbage_in_an_envelope_is_answered_and_the_next_request_served() -> None:
    server = ServerConnection()
    [event] = server.receive_data(encode_frame(1, REQUEST, b"\xff\xff"))
    check_refused(event, 1, Code.INVALID_ARGUMENT)
    with pytest.raises(LocalProtocolError):
        server.reply(1, b"")
    started(server, 3)


def test_an_oversize_request_is_answered_before_its_body_has_arrived() -> None:
    server = ServerConnection(max_body_bytes=100)
    message = encode_frame(1, REQUEST, bytes(101))
    [event] = server.receive_data(message[:10])
    text = check_refused(event, 1, Code.RESOURCE_EXHAUSTED)
    assert text == "request of 101 bytes is over the limit of 100"
    assert server.receive_data(message[10:]) == []
    started(server, 3)


def test_default_limit_of_a_server_is_gos() -> None:
    message = encode_frame(1, REQUEST, bytes(MAX_BODY_BYTES + 1))
    [event] = ServerConnection().receive_data(message[:10])
    check_refused(event, 1, Code.RESOURCE_EXHAUSTED)
    [accepted] = ServerConnection(max_body_bytes=64 << 20).receive_data(
        encode_frame(1, REQUEST, encode_request(Request("s", "m", bytes(12_000_000))))
    )
    assert isinstance(accepted, RequestReceived)
    assert len(accepted.request.payload) == 12_000_000


def test_every_request_is_answered_once() -> None:
    server = started(ServerConnection())
    with pytest.raises(LocalProtocolError, match="stream 3"):
        server.reply(3, b"")
    server.reply(1, b"")
    with pytest.raises(LocalProtocolError, match="stream 1"):
        server.reply(1, b"")
    with pytest.raises(LocalProtocolError, match="stream 1"):
        server.reply_error(1, Code.INTERNAL, "")


def test_an_error_needs_a_code() -> None:
    server = started(ServerConnection())
    with pytest.raises(LocalProtocolError, match="other than OK"):
        server.reply_error(1, Code.OK, "")
    assert response_in(server.reply_error(1, Code.INTERNAL, "")) == (1, Response(b"", 13))


def test_a_reply_over_the_limit_becomes_an_error() -> None:
    server = started(ServerConnection(max_send_bytes=12))
    assert response_in(server.reply(1, bytes(10)))[1].payload == bytes(10)  # 12 with its tag
    started(server, 3)
    assert response_in(server.reply(3, bytes(11)))[1] == Response(
        b"", Code.RESOURCE_EXHAUSTED, "reply of 13 bytes is over the limit of 12"
    )
    with pytest.raises(LocalProtocolError):
        server.reply(3, b"")


def test_default_limit_of_replies_stays_below_gos() -> None:
    assert MAX_SEND_BYTES == 4 * 1024 * 1024 - 64 * 1024
    server = started(ServerConnection())
    assert response_in(server.reply(1, bytes(MAX_SEND_BYTES - 5)))[1].code == 0
    started(server, 3)
    assert response_in(server.reply(3, bytes(MAX_SEND_BYTES)))[1].code == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("no node has 4 GiB", "no node has 4 GiB"),
        ("odd \udcff byte", "odd ? byte"),
        ("x" * 5000, "x" * MAX_ERROR_TEXT_BYTES),
        ("水" * 2000, "水" * (MAX_ERROR_TEXT_BYTES // 3)),
    ],
)
def test_error_texts_are_short_and_valid(text: str, expected: str) -> None:
    message = started(ServerConnection()).reply_error(1, Code.UNKNOWN, text)
    assert response_in(message)[1].message == expected
    assert len(message) <= 4096  # one read of a Go peer


def test_any_bytes_are_answered_or_ignored_by_a_server() -> None:
    rng = random.Random(3)
    for _ in range(300):
        server = ServerConnection(max_body_bytes=200)
        stream = b"".join(
            encode_frame(
                rng.randrange(12),
                rng.choice([REQUEST, REQUEST, REQUEST, RESPONSE, DATA, 77]),
                rng.choice([BODY, b"", bytes(201), rng.randbytes(20), BODY[:-1]]),
            )
            for _ in range(rng.randrange(8))
        )
        for event in server.receive_data(stream + rng.randbytes(rng.randrange(30))):
            if isinstance(event, RequestReceived):
                assert response_in(server.reply(event.stream_id, b"ok"))[0] == event.stream_id
            else:
                check_refused(event, event.stream_id, event.code)
