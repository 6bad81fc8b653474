"""HTTP server of the metrics: the standard library's WSGI server with a thread per connection.

Each connection has a timeout, and their number is limited. If all CONNECTIONS threads are occupied,
a new connection replaces the oldest one that has not sent its request yet, so that silent peers,
however many, do not keep a scraper out. Importing this module takes some 40 ms.

A Unix socket is bound in place of one on which nothing listens, and removed at the end.

/metrics is the application's; /healthz has the status 200 if all is well, and 503 otherwise.
"""

import contextlib
import errno
import io
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from nri_numamem.observe.threads import no_thread_error

PATH = "/metrics"
HEALTH_PATH = "/healthz"

# Scrapers wait 10 s by default.
TIMEOUT_S = 5.0

CONNECTIONS = 8

# How long a new connection waits for the end of the one that it replaces.
_REPLACE_S = 1.0

# Without free file descriptors accept() fails immediately until another descriptor is closed.
_ACCEPT_RETRY_S = 1.0


Health: TypeAlias = Callable[[], tuple[bool, str]]
"""Returns whether all is well, and the text of /healthz."""


class _Handler(WSGIRequestHandler):
    """One connection with one request (HTTP/1.0)."""

    server: "MetricsHTTPServer"

    def parse_request(self) -> bool:
        """Parse the request, after which the connection is not replaced any more."""
        is_valid = super().parse_request()
        self.server.request_received(self.request)
        return is_valid

    def get_stderr(self) -> io.StringIO:
        """Return a stream for wsgiref's messages that nothing reads."""
        return io.StringIO()

    def log_message(self, *_args: object) -> None:
        """Log nothing: scrapes are frequent."""


class MetricsHTTPServer(ThreadingMixIn, WSGIServer):
    """Serves `app` at "HOST:PORT" or "unix://PATH". OSError if the address is not available.

    `report` is called with exceptions that are not the peer's fault, from any thread.
    """

    daemon_threads = True
    # If the kernel's queue is full, a peer tries again only after a second.
    request_queue_size = 128

    def __init__(
        self,
        address: str,
        app: WSGIApplication,
        health: Health,
        report: Callable[[Exception], None],
        *,
        timeout_s: float = TIMEOUT_S,
        connections: int = CONNECTIONS,
    ) -> None:
        self._path = path_of(address)
        self._bound: os.stat_result | None = None
        """The file of the Unix socket."""
        self.address_family, socket_address = _resolve(address)
        self._free_slots = threading.BoundedSemaphore(connections)
        self._silent: dict[socket.socket, None] = {}
        """Connections that have not sent their request, oldest first."""
        self._silent_lock = threading.Lock()
        self._report = report
        self._closing = threading.Event()
        handler = type("Handler", (_Handler,), {"timeout": timeout_s})
        super().__init__(socket_address, handler)
        self.set_app(routed(app, health, report))

    def server_bind(self) -> None:
        """Bind the socket; unlike HTTPServer without a DNS query for the host's name."""
        if self.address_family is socket.AF_INET6 and socket.has_dualstack_ipv6():
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if self._path is not None:
            self._bound = bind(self.socket, self._path)
            self.server_name, self.server_port = "localhost", 0
        else:
            TCPServer.server_bind(self)
            self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; after an error wait a moment, so that the loop does not spin."""
        try:
            request, peer = super().get_request()
        except OSError:
            self._closing.wait(_ACCEPT_RETRY_S)
            raise
        return request, peer or ("unix", 0)  # a client of a Unix socket has no address

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - see base
        """Serve the connection in a thread; close it if too many are being served."""
        if not self._free_slots.acquire(blocking=False) and not self._replace_silent():
            self.shutdown_request(request)
            return
        with self._silent_lock:
            self._silent[request] = None
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread: see observe.metrics.threads
            self._release(request)
            self._report(no_thread_error())
            self.shutdown_request(request)
        except BaseException:
            self._release(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Serve the connection in this thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._release(request)

    def request_received(self, request: socket.socket) -> None:
        """Take note that a connection has sent its request."""
        with self._silent_lock:
            self._silent.pop(request, None)

    def _replace_silent(self) -> bool:
        """End the oldest connection without a request; return whether its slot was taken over."""
        with self._silent_lock:
            oldest = next(iter(self._silent), None)
            if oldest is None:
                return False
            del self._silent[oldest]
            with contextlib.suppress(OSError):  # the peer may have closed it
                oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end of the stream
        return self._free_slots.acquire(timeout=_REPLACE_S)

    def _release(self, request: socket.socket) -> None:
        self.request_received(request)
        self._free_slots.release()

    def handle_error(self, _request: Any, _client_address: Any) -> None:  # noqa: ANN401 - see base
        """Report the exception that is being handled, unless the peer caused it."""
        error = sys.exc_info()[1]
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self._report(error)

    def serve(self) -> None:
        """Serve until close(); unlike serve_forever() without waking up periodically."""
        while not self._closing.is_set():
            self.handle_request()
        self.server_close()

    def server_close(self) -> None:
        """Close the socket, and remove the file of a Unix socket."""
        super().server_close()
        if self._path is not None and self._bound is not None:
            remove(self._path, self._bound)
            self._bound = None

    def close(self) -> None:
        """End serve(), from another thread."""
        self._closing.set()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)  # accept() returns with an error
        except OSError:
            self.server_close()


def _resolve(address: str) -> tuple[socket.AddressFamily, Any]:
    """Return family and socket address of "HOST:PORT" or "unix://PATH"; OSError if unknown."""
    path = path_of(address)
    if path is not None:
        return socket.AF_UNIX, str(path)
    host, _, port = address.rpartition(":")
    # As bytes: an invalid host name is unknown then (OSError), and no UnicodeError.
    infos = socket.getaddrinfo(host.strip("[]").encode(), int(port), type=socket.SOCK_STREAM)
    family, _, _, _, found = infos[0]
    return family, (str(found[0]), int(found[1]))


def routed(
    app: WSGIApplication, health: Health, report: Callable[[Exception], None]
) -> WSGIApplication:
    """Return an application that passes GET of PATH to `app`, and reports bugs."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def reply(status: HTTPStatus, text: str = "") -> Iterable[bytes]:
            body = f"{text or status.phrase}\n".encode()
            headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
            start_response(f"{status.value} {status.phrase}", headers)
            return [body]

        path = environ["PATH_INFO"]
        if path not in (PATH, HEALTH_PATH):
            return reply(HTTPStatus.NOT_FOUND, f"There are only {PATH} and {HEALTH_PATH}")
        if environ["REQUEST_METHOD"] != "GET":
            return reply(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            if path == PATH:
                return app(environ, start_response)
            is_well, text = health()
        except Exception as error:  # noqa: BLE001 - a bug must not end more than this request
            report(error)
            return reply(HTTPStatus.INTERNAL_SERVER_ERROR)
        return reply(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, text)

    return serve


PREFIX = "unix://"

# Who may write to a socket may connect to it. A directory with the set-group-id bit chooses the
# group.
_MODE = 0o660
_DIRECTORY_MODE = 0o755


def path_of(address: str) -> Path | None:
    """Return the path of an address unix://PATH; None for any other address."""
    return Path(address.removeprefix(PREFIX)) if address.startswith(PREFIX) else None


def bind(sock: socket.socket, path: Path) -> os.stat_result:
    """Bind to the path, in place of a socket on which nothing listens; return the new file.

    Raises OSError if another process listens there, or if it is another kind of file.
    """
    path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    _remove_stale(path)
    sock.bind(str(path))
    path.chmod(_MODE)  # before listen(), so nothing has connected
    return path.lstat()


def remove(path: Path, bound: os.stat_result) -> None:
    """Remove the file that bind() made, if it is still there."""
    with contextlib.suppress(OSError):
        if os.path.samestat(path.lstat(), bound):
            path.unlink()


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "the path is a file that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # noqa: FBT003 - its only argument
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # its queue is full
    raise OSError(errno.EADDRINUSE, "another process listens on the socket")
