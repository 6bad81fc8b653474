"""The server side: stream ids, exactly one reply, limits, any bytes from the client, handlers."""

import logging
import random
from typing import NoReturn

import pytest

from nri_numamem.ttrpc.envelope import Request, Response, decode_response, encode_request
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
    Handler,
    RequestReceived,
    RequestRefused,
    ServerConnection,
    Services,
    handle_request,
)
from nri_numamem.ttrpc.status import Code, LocalProtocolError, StatusError

REQUEST, RESPONSE, DATA = 1, 2, 3
BODY = encode_request(Request("s", "m", b"p"))


def response_in(message: bytes) -> tuple[int, Response]:
    """Return the parts of exactly one response."""
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


def test_concurrent_requests_may_have_replies_in_any_order() -> None:
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


def test_an_invalid_envelope_gets_an_error_reply_and_the_connection_continues() -> None:
    server = ServerConnection()
    [event] = server.receive_data(encode_frame(1, REQUEST, b"\xff\xff"))
    check_refused(event, 1, Code.INVALID_ARGUMENT)
    with pytest.raises(LocalProtocolError):
        server.reply(1, b"")
    started(server, 3)


def test_an_oversize_request_gets_an_error_reply_before_its_body_has_arrived() -> None:
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


def test_a_second_reply_to_a_request_is_refused() -> None:
    server = started(ServerConnection())
    with pytest.raises(LocalProtocolError, match="stream 3"):
        server.reply(3, b"")
    server.reply(1, b"")
    with pytest.raises(LocalProtocolError, match="stream 1"):
        server.reply(1, b"")
    with pytest.raises(LocalProtocolError, match="stream 1"):
        server.reply_error(1, Code.INTERNAL, "")


def test_an_error_reply_needs_an_error_code() -> None:
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


def test_random_bytes_get_error_replies_or_are_ignored_by_a_server() -> None:
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


def echo(request: Request, deadline_ns: int | None) -> bytes:
    return request.payload


def raiser(error: BaseException) -> Handler:
    def handler(request: Request, deadline_ns: int | None) -> NoReturn:
        raise error

    return handler


def reply_of(services: Services, request: Request, now_ns: int = 0) -> Response:
    server = ServerConnection(max_send_bytes=1000)
    [event] = server.receive_data(encode_frame(1, 1, encode_request(request)))
    assert isinstance(event, RequestReceived)
    message = handle_request(server, services, event, now_ns)
    with pytest.raises(LocalProtocolError):
        server.reply(1, b"")  # the reply has been sent
    return decode_response(message[10:])


def test_a_handler_receives_the_request_and_returns_the_payload() -> None:
    seen: list[tuple[Request, int | None]] = []

    def handler(request: Request, deadline_ns: int | None) -> bytes:
        seen.append((request, deadline_ns))
        return request.payload * 2

    request = Request("s", "m", b"p", 300, (("k", "v"),))
    assert reply_of({"s": {"m": handler}}, request, now_ns=1000) == Response(b"pp")
    assert seen == [(request, 1300)]


@pytest.mark.parametrize(("timeout_ns", "deadline_ns"), [(0, None), (1, 8), (-3, 4)])
def test_deadline(timeout_ns: int, deadline_ns: int | None) -> None:
    def handler(request: Request, deadline_ns: int | None) -> bytes:
        return repr(deadline_ns).encode()

    response = reply_of({"s": {"m": handler}}, Request("s", "m", b"", timeout_ns), now_ns=7)
    assert response.payload == repr(deadline_ns).encode()


def test_unknown_names_are_unimplemented() -> None:
    services = {"s": {"m": echo}}
    assert reply_of(services, Request("x", "m")) == Response(b"", 12, "service x")
    assert reply_of(services, Request("s", "x")) == Response(b"", 12, "method x")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (StatusError(Code.NOT_FOUND, "no pod"), Code.NOT_FOUND, "no pod"),
        (TimeoutError("too slow"), Code.DEADLINE_EXCEEDED, "too slow"),
    ],
)
def test_status_and_timeout_errors_of_a_handler(
    error: Exception, code: Code, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert reply_of({"s": {"m": raiser(error)}}, Request("s", "m")) == Response(b"", code, text)
    assert not caplog.records


@pytest.mark.parametrize(
    ("error", "text"),
    [(ZeroDivisionError("division"), "division"), (RuntimeError(), "RuntimeError()")],
)
def test_a_bug_in_a_handler_is_an_error_reply_and_logged(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = reply_of({"s": {"m": raiser(error)}}, Request("s", "m"))
    assert response == Response(b"", Code.UNKNOWN, text)
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "the handler of s/m failed")
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_handler_that_returns_no_bytes_is_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    def handler(request: Request, deadline_ns: int | None) -> bytes:
        return "text"  # type: ignore[return-value]

    assert reply_of({"s": {"m": handler}}, Request("s", "m")).code == Code.UNKNOWN
    assert len(caplog.records) == 1


def test_a_reply_over_the_limit_is_an_error_reply() -> None:
    response = reply_of({"s": {"m": lambda *_: bytes(2000)}}, Request("s", "m"))
    assert response.code == Code.RESOURCE_EXHAUSTED


def test_base_exceptions_pass_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        reply_of({"s": {"m": raiser(KeyboardInterrupt())}}, Request("s", "m"))
