"""The socket of the metrics: scrapers that hang, addresses that are taken, and an orderly end."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from nri_numamem.engine.plan import Record
from nri_numamem.observe import metrics_server
from nri_numamem.observe.metrics_server import HEAD_BYTES, Answer, MetricsServer

WAIT_S = 30
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Told:
    """Takes the records, and lets a test wait for one."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._more = threading.Condition()

    def __call__(self, record: Record) -> None:
        with self._more:
            self.records.append(record)
            self._more.notify_all()

    def wait_for(self, event: str) -> Record:
        with self._more:
            assert self._more.wait_for(lambda: event in self.events, WAIT_S), self.records
        return next(record for record in self.records if record.event == event)

    @property
    def events(self) -> list[str]:
        return [record.event for record in self.records]


class Site:
    """A server on a port of its own; `answer` echoes unless it is given."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.told = Told()
        self.host = host
        with socket.create_server((host.strip("[]"), 0), family=family_of(host)) as sock:
            self.port = int(sock.getsockname()[1])
        self.answered: list[bytes] = []
        self.masks: list[set[int]] = []
        self._servers: list[MetricsServer] = []

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def load(self) -> Answer:
        self.masks.append({int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())})
        return self.answer

    def answer(self, head: bytes) -> bytes:
        self.answered.append(head)
        return b"answer to " + head

    def start(self, *, retry_s: float = 0.05, request_s: float = 20) -> MetricsServer:
        server = MetricsServer(
            self.address, self.load, self.told, retry_s=retry_s, request_s=request_s
        )
        self._servers.append(server)
        server.start()
        return server

    def connect(self) -> socket.socket:
        address = (self.host.strip("[]"), self.port)
        return socket.create_connection(address, timeout=WAIT_S)

    def ask(self, request: bytes = REQUEST) -> bytes:
        with self.connect() as sock:
            sock.sendall(request)
            return read_all(sock)

    def close(self) -> None:
        for server in self._servers:
            server.close()


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def read_all(sock: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):  # it may close before it has read everything
        while piece := sock.recv(65536):
            data += piece
    return data


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def test_requests_are_answered_one_after_the_other(site: Site) -> None:
    site.start()
    record = site.told.wait_for("metrics served")
    assert (record.level, record.fields) == ("info", {"address": site.address})
    assert [site.ask() for _ in range(3)] == [b"answer to " + REQUEST] * 3


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this host has no IPv6")
@pytest.mark.parametrize("host", ["[::1]", "[::]"])
def test_version_6_addresses_are_served(host: str) -> None:
    site = Site(host)
    try:
        site.start()
        site.told.wait_for("metrics served")
        assert site.ask() == b"answer to " + REQUEST
        if host == "[::]":
            with socket.create_connection(("127.0.0.1", site.port), timeout=WAIT_S) as sock:
                sock.sendall(REQUEST)
                assert read_all(sock) == b"answer to " + REQUEST
    finally:
        site.close()


def test_signals_stay_with_the_main_thread(site: Site) -> None:
    site.start()
    site.told.wait_for("metrics served")
    assert {signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGUSR1} <= site.masks[0]


def test_a_request_may_come_in_pieces(site: Site) -> None:
    site.start()
    site.told.wait_for("metrics served")
    with site.connect() as sock:
        for at in range(len(REQUEST)):
            sock.sendall(REQUEST[at : at + 1])
        assert read_all(sock) == b"answer to " + REQUEST


def test_a_scraper_that_says_nothing_is_left(site: Site) -> None:
    site.start(request_s=0.2)
    site.told.wait_for("metrics served")
    with site.connect() as silent, site.connect() as next_one:
        next_one.sendall(REQUEST)
        assert read_all(silent) == b""
        assert read_all(next_one) == b"answer to " + REQUEST


def test_the_time_is_that_of_the_whole_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One who sends a byte now and then gets no more time than others."""
    now_s = [0.0]
    monkeypatch.setattr(metrics_server, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    site.start(request_s=10)
    site.told.wait_for("metrics served")
    with site.connect() as slow:
        with contextlib.suppress(OSError):  # when it is left
            for _ in range(1000):
                now_s[0] += 1
                slow.sendall(b"G")
                slow.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if not slow.recv(1):
                        break
        assert now_s[0] < 1000
    assert site.answered == []


def test_a_scraper_that_does_not_read_is_left(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "answer", lambda _head: b"x" * (64 << 20))
    site.start(request_s=0.3)
    site.told.wait_for("metrics served")
    with site.connect() as lazy, site.connect() as next_one:
        lazy.sendall(REQUEST)
        next_one.sendall(b"\r\n\r\n")
        assert next_one.recv(1) == b"x"


def test_a_request_that_is_too_large_is_left(site: Site) -> None:
    site.start()
    site.told.wait_for("metrics served")
    with site.connect() as sock, contextlib.suppress(OSError):
        sock.sendall(b"x" * (HEAD_BYTES + 1))
        assert read_all(sock) == b""
    with site.connect() as sock:
        sock.shutdown(socket.SHUT_WR)
        assert read_all(sock) == b""
    assert site.answered == []
    assert site.ask() == b"answer to " + REQUEST


def test_a_port_in_use_is_told_once_and_served_when_it_is_free(site: Site) -> None:
    with socket.create_server(("127.0.0.1", site.port)):
        site.start(retry_s=0.01)
        record = site.told.wait_for("metrics not served, trying again")
        threading.Event().wait(0.1)  # some more attempts
        assert site.told.events == ["metrics not served, trying again"]
    assert record.level == "warning"
    assert record.fields["address"] == site.address
    assert str(record.fields["why"]).startswith("Address already in use")
    site.told.wait_for("metrics served")
    assert site.ask() == b"answer to " + REQUEST


@pytest.mark.parametrize("host", ["no..host", "x" * 99])
def test_an_unknown_host_is_told(host: str) -> None:
    site = Site()
    site.host = host
    try:
        site.start()
        record = site.told.wait_for("metrics not served, trying again")
        assert record.fields["why"]
    finally:
        site.close()


def test_a_bug_is_told_with_its_traceback_and_ends_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(head: bytes) -> bytes:
        if b"broken" in head:
            raise ValueError("what a bug")
        return b"fine"

    monkeypatch.setattr(site, "answer", broken)
    site.start()
    site.told.wait_for("metrics served")
    assert [site.ask(b"broken\r\n\r\n") for _ in range(2)] == [b"", b""]
    assert site.ask() == b"fine"
    assert site.told.events == ["metrics served", "metrics not served, a bug"]
    assert site.told.records[1].level == "error"
    assert "ValueError: what a bug" in str(site.told.records[1].fields["exception"])


def test_what_cannot_be_loaded_is_told_and_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([ImportError("no module named so")])

    def load() -> Answer:
        error = next(failures, None)
        if error is not None:
            raise error
        return site.answer

    monkeypatch.setattr(site, "load", load)
    site.start()
    record = site.told.wait_for("metrics not served, a bug")
    assert "no module named so" in str(record.fields["exception"])
    site.told.wait_for("metrics served")
    assert site.ask() == b"answer to " + REQUEST


def test_without_descriptors_it_waits_and_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "_ACCEPT_AGAIN_S", 0.01)
    failures = iter([OSError(24, "Too many open files")] * 3)
    accept = socket.socket.accept

    def failing(self: socket.socket) -> tuple[socket.socket, object]:
        error = next(failures, None)
        if error is not None:
            raise error
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", failing)
    site.start()
    site.told.wait_for("metrics served")
    assert site.ask() == b"answer to " + REQUEST
    assert next(failures, None) is None


def test_close_ends_the_thread_and_frees_the_port(site: Site) -> None:
    server = site.start()
    site.told.wait_for("metrics served")
    site.ask()
    server.close()
    assert not server._thread.is_alive()
    with pytest.raises(ConnectionRefusedError):
        site.connect()
    server.close()  # a second time is one time too many, and no harm
    site.told.records.clear()
    site.start()
    site.told.wait_for("metrics served")  # it got the port at once


def test_close_ends_one_that_waits_for_its_port(site: Site) -> None:
    with socket.create_server(("127.0.0.1", site.port)):
        server = site.start(retry_s=600)
        site.told.wait_for("metrics not served, trying again")
        server.close()
        assert not server._thread.is_alive()


def test_close_before_start_does_nothing(site: Site) -> None:
    MetricsServer(site.address, site.load, site.told).close()
