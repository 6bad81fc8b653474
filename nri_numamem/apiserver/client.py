"""One request to the API server, and its answer.

Each request has a connection of its own: a host writes rarely, and a new connection notices a
rotated authority, and an API server that has gone.
"""

import http.client
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nri_numamem.apiserver.access import Access, tls_context
from nri_numamem.version import VERSION

TIMEOUT_S = 10.0
"""For each step of a request: connecting, and each wait for bytes."""

# etcd keeps objects of up to 1.5 MiB, which are larger in JSON.
_ANSWER_LIMIT_BYTES = 4 << 20
# A Node with fifty images has some 1,000. A value of two bytes takes up to 250 when it is parsed.
_VALUES_LIMIT = 100_000


class RequestError(Exception):
    """A request failed without an answer; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request."""

    method: str
    path: str
    """With the query."""
    body: bytes = field(default=b"", repr=False)
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered."""

    status: int
    """The HTTP status."""
    document: dict[str, Any]
    """The JSON object in the body; empty for any other body, and for one that is too large."""
    retry_after_s: float = 0.0
    """The least time before the next attempt (Retry-After); 0 without one."""
    is_too_large: bool = False
    """Whether the body was not parsed, because it takes too much memory."""


class Client:
    """Sends requests; `access` is read for each one. One request at a time."""

    def __init__(self, access: Callable[[], Access], timeout_s: float = TIMEOUT_S) -> None:
        self._access = access
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def send(self, request: Request) -> Answer:
        """Return the answer; raise AccessError or RequestError."""
        access = self._access()
        connection = self._connection = _connection(access, self._timeout_s)
        try:
            connection.request(
                request.method,
                f"{access.server.prefix}{request.path}",
                request.body or None,
                _headers(access, request),
            )
            return _answer(connection.getresponse())
        except TimeoutError as error:
            raise RequestError(f"{access.server}: no answer in time") from error
        except http.client.HTTPException as error:
            problem = "the server closed the connection" if _is_closed(error) else "not HTTP"
            raise RequestError(f"{access.server}: {problem}: {type(error).__name__}") from error
        except OSError as error:
            raise RequestError(f"{access.server}: {_reason(error)}") from error
        except ValueError as error:  # a host name that cannot be encoded
            raise RequestError(f"{access.server}: {error}") from error
        finally:
            connection.close()

    def abort(self) -> None:
        """End the request that another thread has sent, which then raises RequestError."""
        connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it has ended itself


class _TlsConnection(http.client.HTTPConnection):
    """HTTPS to a server whose certificate may have another name than its address."""

    def __init__(self, access: Access, timeout_s: float) -> None:
        server = access.server
        super().__init__(server.host, server.port, timeout=timeout_s)
        self._tls = tls_context(access)
        self._tls_name = server.tls_name or server.host

    def connect(self) -> None:
        """Connect, and verify the server."""
        super().connect()
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._tls_name)


def _connection(access: Access, timeout_s: float) -> http.client.HTTPConnection:
    if access.server.is_tls:
        return _TlsConnection(access, timeout_s)
    return http.client.HTTPConnection(access.server.host, access.server.port, timeout=timeout_s)


def _headers(access: Access, request: Request) -> dict[str, str]:
    found = {
        "Accept": "application/json",
        "User-Agent": f"nri-numamem/{VERSION}",
        "Connection": "close",
    }
    if access.token:
        found["Authorization"] = f"Bearer {access.token}"
    if request.content_type:
        found["Content-Type"] = request.content_type
    return found


def _answer(response: http.client.HTTPResponse) -> Answer:
    body = response.read(_ANSWER_LIMIT_BYTES + 1)
    is_too_large = len(body) > _ANSWER_LIMIT_BYTES or _values(body) > _VALUES_LIMIT
    if response.length and not is_too_large:  # of the bytes that were announced
        raise http.client.IncompleteRead(body, response.length)
    try:
        document = {} if is_too_large else json.loads(body)
    except (ValueError, RecursionError):
        document = {}
    after = response.headers.get("Retry-After", "")
    is_number = after.isascii() and after.isdecimal() and len(after) < 6
    return Answer(
        response.status,
        document if isinstance(document, dict) else {},
        float(after) if is_number else 0.0,
        is_too_large,
    )


def _values(body: bytes) -> int:
    """Return an upper bound of the values in a JSON text; marks inside strings count too."""
    return sum(body.count(mark) for mark in (b"[", b"{", b","))


def _is_closed(error: http.client.HTTPException) -> bool:
    return isinstance(error, http.client.IncompleteRead | http.client.RemoteDisconnected)


def _reason(error: OSError) -> str:
    """Return the reason without OpenSSL's file and line."""
    verification = getattr(error, "verify_message", "")
    if verification:
        return f"its certificate is not trusted: {verification}"
    return error.strerror or str(error) or type(error).__name__
