"""The table of services, and what becomes of a handler's errors."""

import logging
from typing import NoReturn

import pytest

from nri_numamem.ttrpc.dispatch import Handler, Services, answer, find_handler
from nri_numamem.ttrpc.envelope import Request, Response, decode_response, encode_request
from nri_numamem.ttrpc.frames import encode_frame
from nri_numamem.ttrpc.server import RequestReceived, ServerConnection
from nri_numamem.ttrpc.status import Code, LocalProtocolError, StatusError


def echo(request: Request, deadline_ns: int | None) -> bytes:
    return request.payload


def raiser(error: BaseException) -> Handler:
    def handler(request: Request, deadline_ns: int | None) -> NoReturn:
        raise error

    return handler


def ask(services: Services, request: Request, now_ns: int = 0) -> Response:
    server = ServerConnection(max_send_bytes=1000)
    [event] = server.receive_data(encode_frame(1, 1, encode_request(request)))
    assert isinstance(event, RequestReceived)
    message = answer(server, services, event, now_ns)
    with pytest.raises(LocalProtocolError):
        server.reply(1, b"")  # it has been answered
    return decode_response(message[10:])


def test_find_handler() -> None:
    services = {"demo.A": {"Echo": echo}}
    assert find_handler(services, "demo.A", "Echo") is echo
    with pytest.raises(StatusError, match=r"^method Eco \(UNIMPLEMENTED\)$"):
        find_handler(services, "demo.A", "Eco")
    with pytest.raises(StatusError, match=r"^service demo.B \(UNIMPLEMENTED\)$"):
        find_handler(services, "demo.B", "Echo")


def test_a_handler_gets_the_request_and_answers() -> None:
    seen: list[tuple[Request, int | None]] = []

    def handler(request: Request, deadline_ns: int | None) -> bytes:
        seen.append((request, deadline_ns))
        return request.payload * 2

    request = Request("s", "m", b"p", 300, (("k", "v"),))
    assert ask({"s": {"m": handler}}, request, now_ns=1000) == Response(b"pp")
    assert seen == [(request, 1300)]


@pytest.mark.parametrize(("timeout_ns", "deadline_ns"), [(0, None), (1, 8), (-3, 4)])
def test_deadline(timeout_ns: int, deadline_ns: int | None) -> None:
    def handler(request: Request, deadline_ns: int | None) -> bytes:
        return repr(deadline_ns).encode()

    response = ask({"s": {"m": handler}}, Request("s", "m", b"", timeout_ns), now_ns=7)
    assert response.payload == repr(deadline_ns).encode()


def test_unknown_names_are_unimplemented() -> None:
    services = {"s": {"m": echo}}
    assert ask(services, Request("x", "m")) == Response(b"", 12, "service x")
    assert ask(services, Request("s", "x")) == Response(b"", 12, "method x")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (StatusError(Code.NOT_FOUND, "no pod"), Code.NOT_FOUND, "no pod"),
        (TimeoutError("too slow"), Code.DEADLINE_EXCEEDED, "too slow"),
    ],
)
def test_errors_that_a_handler_means(
    error: Exception, code: Code, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask({"s": {"m": raiser(error)}}, Request("s", "m")) == Response(b"", code, text)
    assert not caplog.records


@pytest.mark.parametrize(
    ("error", "text"),
    [(ZeroDivisionError("division"), "division"), (RuntimeError(), "RuntimeError()")],
)
def test_a_bug_in_a_handler_is_answered_and_logged(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = ask({"s": {"m": raiser(error)}}, Request("s", "m"))
    assert response == Response(b"", Code.UNKNOWN, text)
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "the handler of s/m failed")
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_handler_that_returns_no_bytes_is_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    def handler(request: Request, deadline_ns: int | None) -> bytes:
        return "text"  # type: ignore[return-value]

    assert ask({"s": {"m": handler}}, Request("s", "m")).code == Code.UNKNOWN
    assert len(caplog.records) == 1


def test_a_reply_over_the_limit_is_an_error_for_the_caller_only() -> None:
    response = ask({"s": {"m": lambda *_: bytes(2000)}}, Request("s", "m"))
    assert response.code == Code.RESOURCE_EXHAUSTED


def test_leaving_the_program_is_not_an_answer() -> None:
    with pytest.raises(KeyboardInterrupt):
        ask({"s": {"m": raiser(KeyboardInterrupt())}}, Request("s", "m"))
