"""The HTTP server: requests, peers that hang, too many connections, and an orderly end."""

import contextlib
import socket
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from nri_numamem.observe.metrics import wsgi_server
from nri_numamem.observe.metrics.wsgi_server import MetricsHTTPServer, bind, path_of, remove
from nri_numamem.observe.threads import NO_THREAD
from tests.observe.collected import refuse_threads
from tests.simulated_host import wait_for

WAIT_S = 30
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Site:
    """A server on a free port of `host`."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.accepted: list[str] = []
        self.errors: list[Exception] = []
        self.body = b"up 1\n"
        self.failure: Exception | None = None
        self.problems: list[str] | None = []
        self.summary = "ok"
        self.address = f"{host}:0"
        self.servers: list[MetricsHTTPServer] = []
        self.threads: list[threading.Thread] = []

    def app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        self.accepted.append(environ.get("HTTP_ACCEPT", ""))
        if self.failure is not None:
            raise self.failure
        start_response("200 OK", [("Content-Type", "text/plain; version=0.0.4")])
        return [self.body]

    def health(self) -> tuple[bool, str]:
        if self.problems is None:
            raise TypeError("a bug")
        return not self.problems, "\n".join(self.problems) or self.summary

    def start(self, *, timeout_s: float = 20, connections: int = 8) -> MetricsHTTPServer:
        server = MetricsHTTPServer(
            self.address,
            self.app,
            self.health,
            self.errors.append,
            timeout_s=timeout_s,
            connections=connections,
        )
        self.servers.append(server)
        self.threads.append(threading.Thread(target=server.serve))
        self.threads[-1].start()
        return server

    def connect(self, host: str = "") -> socket.socket:
        address = (host or self.host.strip("[]"), self.servers[-1].server_port)
        return socket.create_connection(address, timeout=WAIT_S)

    def request(self, request: bytes = REQUEST, host: str = "") -> bytes:
        with self.connect(host) as sock:
            sock.sendall(request)
            return read_all(sock)

    def close(self) -> None:
        for server, thread in zip(self.servers, self.threads, strict=True):
            server.close()
            thread.join(WAIT_S)
            assert not thread.is_alive()


def read_all(sock: socket.socket) -> bytes:
    pieces: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):  # it may close before it has read everything
        while piece := sock.recv(1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.mark.parametrize("path", ["/metrics", "/metrics?name[]=up"])
def test_the_metrics_are_served(site: Site, path: str) -> None:
    site.start()
    reply = site.request(f"GET {path} HTTP/1.1\r\nAccept: a/b\r\n\r\n".encode())
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"Content-Type: text/plain; version=0.0.4" in head
    assert b"Content-Length: 5" in head
    assert body == b"up 1\n"
    assert site.accepted == ["a/b"]


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        ("GET / HTTP/1.1", "HTTP/1.0 404 Not Found"),
        ("GET /metrics/x HTTP/1.1", "HTTP/1.0 404 Not Found"),
        ("POST /metrics HTTP/1.1", "HTTP/1.0 405 Method Not Allowed"),
    ],
)
def test_anything_else_is_refused(site: Site, request_line: str, expected: str) -> None:
    site.start()
    assert site.request(f"{request_line}\r\n\r\n".encode()).decode().startswith(expected)
    assert site.accepted == []


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n",
        b"GET /metrics HTTP/9\r\n\r\n",
        b"\x16\x03\x01 a TLS handshake\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"GET /" + b"x" * 70_000,
        b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n",
    ],
)
def test_garbage_gets_no_metrics(site: Site, request_: bytes) -> None:
    site.start()
    with contextlib.suppress(OSError):
        site.request(request_)
    assert site.request().endswith(b"up 1\n")
    assert len(site.accepted) == 1
    assert site.errors == []


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this host has no IPv6")
def test_version_6_addresses_are_served() -> None:
    site = Site("[::]")
    try:
        site.start()
        assert site.request(host="::1").endswith(b"up 1\n")
        assert site.request(host="127.0.0.1").endswith(b"up 1\n")
    finally:
        site.close()


def test_a_peer_that_sends_nothing_is_closed(site: Site) -> None:
    site.start(timeout_s=0.2)
    with site.connect() as silent:
        assert read_all(silent) == b""
    assert site.errors == []


def test_a_peer_that_hangs_does_not_hold_up_others(site: Site) -> None:
    site.start()
    with site.connect():
        assert site.request().endswith(b"up 1\n")


def test_a_peer_that_does_not_read_is_closed(site: Site) -> None:
    site.start(timeout_s=2, connections=1)
    site.body = b"x" * (64 << 20)
    with site.connect() as lazy:
        lazy.sendall(REQUEST)
        assert lazy.recv(1) == b"H"
        released = site.servers[0]._free_slots.acquire(timeout=WAIT_S)
    assert released
    assert site.errors == []


def test_silent_peers_do_not_keep_a_scraper_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 connections that send nothing, or the beginning of a request."""
    monkeypatch.setattr(wsgi_server, "_REPLACE_S", WAIT_S)
    site.start()
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(site.connect()) for _ in range(200)]
        for sock in silent[-5:]:
            sock.sendall(b"GET ")
        assert site.request().endswith(b"up 1\n")
        more = [stack.enter_context(site.connect()) for _ in range(100)]
        assert site.request().endswith(b"up 1\n")
        assert read_all(silent[0]) == b""  # the oldest were closed
        with contextlib.suppress(OSError):
            more[-1].sendall(REQUEST)
        assert read_all(more[-1]).endswith(b"up 1\n")
    assert site.errors == []
    server = site.servers[0]
    wait_for(lambda: server._free_slots._value == 8)
    assert server._silent == {}


def test_the_number_of_requests_at_once_is_limited(site: Site) -> None:
    site.start(connections=2)
    site.body = b"x" * (64 << 20)  # a peer that does not read it keeps its thread
    with site.connect() as first, site.connect() as second:
        for sock in (first, second):
            sock.sendall(REQUEST)
            assert sock.recv(1) == b"H"
        site.body = b"up 1\n"
        assert site.request() == b""
        assert read_all(first).endswith(b"xxx")
        assert site.servers[0]._free_slots.acquire(timeout=WAIT_S)  # the slot is free again
        site.servers[0]._free_slots.release()
        assert site.request().endswith(b"up 1\n")
        assert read_all(second).endswith(b"xxx")


def test_a_connection_that_does_not_end_is_not_replaced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wsgi_server, "_REPLACE_S", 0.01)
    server = site.start(connections=1)
    with site.connect():
        wait_for(lambda: len(server._silent) == 1)
        with server._silent_lock:
            request = server._silent.popitem()[0]
            stuck, ours = socket.socketpair()
            server._silent[stuck] = None  # shutting it down has no effect on the thread
        assert site.request() == b""
        stuck.close()
        ours.close()
        with server._silent_lock:
            server._silent[request] = None
        monkeypatch.setattr(wsgi_server, "_REPLACE_S", WAIT_S)
        assert site.request().endswith(b"up 1\n")


def test_a_thread_that_cannot_start_frees_its_slot(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = site.start(connections=1)
    refuse_threads(monkeypatch, 1)
    assert site.request() == b""
    (error,) = site.errors
    assert isinstance(error, OSError)  # no bug
    assert error.strerror == NO_THREAD
    assert site.request().endswith(b"up 1\n")
    assert server.server_port > 0


def test_a_bug_is_recorded_and_the_server_continues(site: Site) -> None:
    site.start()
    site.failure = ValueError("what a bug")
    assert site.request().startswith(b"HTTP/1.0 500 Internal Server Error")
    site.failure = None
    assert site.request().endswith(b"up 1\n")
    assert [str(error) for error in site.errors] == ["what a bug"]


def test_without_descriptors_it_waits_and_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wsgi_server, "_ACCEPT_RETRY_S", 0.01)
    failures = iter([OSError(24, "Too many open files")] * 3)
    accept = socket.socket.accept

    def failing(self: socket.socket) -> tuple[socket.socket, object]:
        error = next(failures, None)
        if error is not None:
            raise error
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", failing)
    site.start()
    assert site.request().endswith(b"up 1\n")
    assert next(failures, None) is None


def test_close_frees_the_port(site: Site) -> None:
    server = site.start()
    server.close()
    site.threads[0].join(WAIT_S)
    with pytest.raises(ConnectionRefusedError):
        site.connect()
    server.close()  # a second time has no effect


@pytest.mark.parametrize("address", ["no..host:1", f"{'x' * 99}:1"])
def test_an_unknown_host_is_an_os_error(site: Site, address: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - getaddrinfo's subclass differs
        MetricsHTTPServer(address, site.app, site.health, site.errors.append)


def test_a_port_in_use_is_an_os_error(site: Site) -> None:
    server = site.start()
    with pytest.raises(OSError, match="Address already in use"):
        MetricsHTTPServer(
            f"127.0.0.1:{server.server_port}", site.app, site.health, site.errors.append
        )


def test_the_health_has_a_status_of_its_own(site: Site) -> None:
    site.start()
    assert site.request(b"GET /healthz HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\nok\n")
    site.summary = "standby: another one serves"
    reply = site.request(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert reply.startswith(b"HTTP/1.0 200 OK\r\n")
    assert reply.endswith(b"\r\n\r\nstandby: another one serves\n")
    site.problems = ["one", "two"]
    reply = site.request(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert reply.startswith(b"HTTP/1.0 503 Service Unavailable\r\n")
    assert reply.endswith(b"\r\n\r\none\ntwo\n")
    assert site.accepted == []


def test_a_bug_in_the_health_is_reported(site: Site) -> None:
    site.problems = None
    site.start()
    reply = site.request(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert reply.startswith(b"HTTP/1.0 500 Internal Server Error\r\n")
    assert [type(error) for error in site.errors] == [TypeError]


def test_a_unix_socket_is_served_and_removed(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    site.address = f"unix://{path}"
    server = site.start()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(WAIT_S)
        sock.connect(str(path))
        sock.sendall(REQUEST)
        assert read_all(sock).endswith(b"\r\n\r\nup 1\n")
    server.close()
    site.threads[0].join(WAIT_S)
    assert not path.exists()
    assert site.errors == []


def bound(path: Path) -> tuple[socket.socket, object]:
    sock = socket.socket(socket.AF_UNIX)
    try:
        return sock, bind(sock, path)
    except OSError:
        sock.close()
        raise


def test_which_addresses_are_paths() -> None:
    assert path_of("unix:///run/x.sock") == Path("/run/x.sock")
    assert path_of("[::1]:9551") is None


def test_only_owner_and_group_may_connect(tmp_path: Path) -> None:
    path = tmp_path / "new" / "metrics.sock"
    sock, _ = bound(path)
    with sock:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def test_a_socket_of_a_process_that_ended_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    first, _ = bound(path)
    first.close()
    second, made = bound(path)
    with second:
        assert path.lstat() == made


@pytest.mark.parametrize("backlog", [1, 0])
def test_a_socket_of_another_process_stays(tmp_path: Path, backlog: int) -> None:
    path = tmp_path / "metrics.sock"
    first, made = bound(path)
    with first, socket.socket(socket.AF_UNIX) as waiting:
        first.listen(backlog)
        if not backlog:
            waiting.connect(str(path))  # its queue is full
        with pytest.raises(OSError, match="another process listens"):
            bound(path)
        assert path.lstat() == made


def test_another_kind_of_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    path.write_text("mine")
    with pytest.raises(OSError, match="is not a socket"):
        bound(path)
    assert path.read_text() == "mine"


def test_only_the_own_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    sock, _ = bound(path)
    made = path.lstat()
    with sock:
        other = tmp_path / "other"
        other.write_text("")
        remove(other, made)
        assert other.exists()
        remove(path, made)
        assert not path.exists()
        remove(path, made)
