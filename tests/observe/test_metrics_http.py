"""Requests for metrics as bytes, and what they are answered."""

import pytest

from nri_numamem.observe.metrics_http import reply_to
from nri_numamem.version import VERSION


class Render:
    """Makes a body of what it was asked for."""

    def __init__(self) -> None:
        self.accepted: list[str] = []

    def __call__(self, accept: str) -> tuple[str, bytes]:
        self.accepted.append(accept)
        return "text/plain; version=0.0.4", b"up 1\n"


def ask(request: str) -> tuple[str, dict[str, str], str]:
    """Return status line, headers and body."""
    head, _, body = reply_to(request.encode(), Render()).decode().partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


@pytest.mark.parametrize("path", ["/metrics", "/metrics?name[]=up"])
def test_the_metrics_are_served(path: str) -> None:
    status, headers, body = ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == "HTTP/1.0 200 OK"
    assert headers["Content-Type"] == "text/plain; version=0.0.4"
    assert headers["Content-Length"] == "5"
    assert headers["Server"].strip() == f"nri-numamem/{VERSION}"
    assert body == "up 1\n"


def test_a_head_has_no_body() -> None:
    status, headers, body = ask("HEAD /metrics HTTP/1.1\r\n\r\n")
    assert status == "HTTP/1.0 200 OK"
    assert headers["Content-Length"] == "5"
    assert body == ""


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("", ""),
        ("Accept: text/plain\r\n", "text/plain"),
        ("accept: a/b;q=0.5\r\nX: y\r\nACCEPT: c/d\r\n", "a/b;q=0.5, c/d"),
    ],
)
def test_what_the_scraper_accepts_is_passed_on(headers: str, expected: str) -> None:
    render = Render()
    reply_to(f"GET /metrics HTTP/1.1\r\n{headers}\r\n".encode(), render)
    assert render.accepted == [expected]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.0 404 There is only /metrics"),
        ("GET /metrics/x HTTP/1.1\r\n\r\n", "HTTP/1.0 404 There is only /metrics"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.0 501 Unsupported method ('POST')"),
        ("GET /metrics HTTP/1.1\r\n" + "A: b\r\n" * 101 + "\r\n", "HTTP/1.0 431 Too many headers"),
    ],
)
def test_anything_else_is_refused(request_: str, expected: str) -> None:
    render = Render()
    reply = reply_to(request_.encode(), render)
    assert reply.decode().startswith(expected)
    assert render.accepted == []


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9\r\n\r\n",
        b"GET /metrics HTTP/2.0\r\n\r\n",
        b"\x16\x03\x01 a TLS handshake\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
    ],
)
def test_garbage_gets_no_metrics_and_raises_nothing(request_: bytes) -> None:
    render = Render()
    reply_to(request_, render)
    assert render.accepted == []
