"""The socket's side: a peer that reads late, closes in the middle, or never reads at all."""

import socket
import threading
from collections.abc import Iterator

import pytest

from nri_numamem.nri import event_loop
from nri_numamem.nri.event_loop import Ended, EventLoop
from nri_numamem.nri.poller import HostClock, SelectorPoller


class Upper:
    """A session that answers with what it got, and ends on a full stop."""

    finished = False

    def __init__(self, factor: int = 1) -> None:
        self.got = b""
        self.factor = factor

    def receive_data(self, view: memoryview) -> bytes:
        data = bytes(view)
        self.got += data
        self.finished = data.endswith(b".")
        if data == b"!":
            raise ValueError("garbage")
        return data.upper() * self.factor


class Served:
    """A stream served on a thread of its own."""

    def __init__(self, session: Upper) -> None:
        self.session = session
        self.peer, self._sock = socket.socketpair()
        self.peer.settimeout(10)
        self._sock.setblocking(False)  # noqa: FBT003 - its only argument
        self.waker, wake = socket.socketpair()
        self.stop_on_wake = True
        self.woken = threading.Event()
        self.ticked = threading.Event()
        self.after_calls = 0
        self.ended: Ended | None = None
        self.error: Exception | None = None
        self.loop = EventLoop(
            self._sock,
            session,
            poller=SelectorPoller(),
            clock=HostClock(),
            after_replies=self._after,
            wake=wake,
            on_wake=self._on_wake,
            on_tick=self.ticked.set,
        )
        self._wake = wake
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _after(self) -> None:
        self.after_calls += 1

    def _on_wake(self) -> bool:
        self._wake.recv(1)
        self.woken.set()
        return self.stop_on_wake

    def _serve(self) -> None:
        try:
            self.ended = self.loop.run(b"hello ")
        except ValueError as error:
            self.error = error

    def join(self) -> Ended | None:
        self._thread.join(10)
        assert not self._thread.is_alive()
        for sock in (self.peer, self._sock, self.waker, self._wake):
            sock.close()
        return self.ended


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    found = Served(Upper(getattr(request, "param", 1)))
    yield found
    found.peer.close()
    found.join()


def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += sock.recv(size - len(data))
    return data


def test_sends_first_then_answers_until_the_peer_closes(served: Served) -> None:
    served.peer.sendall(b"world")
    assert receive(served.peer, 11) == b"hello WORLD"
    served.peer.close()
    assert served.join() is Ended.EOF
    assert served.after_calls == 1


def test_the_session_can_end_it(served: Served) -> None:
    served.peer.sendall(b"over.")
    assert receive(served.peer, 11) == b"hello OVER."
    assert served.join() is Ended.FINISHED


def test_a_wake_up_stops_it_or_not(served: Served) -> None:
    served.stop_on_wake = False
    served.waker.send(b"x")
    assert served.woken.wait(10)
    served.peer.sendall(b"still here")
    assert receive(served.peer, 16) == b"hello STILL HERE"
    served.stop_on_wake = True
    served.waker.send(b"x")
    assert served.join() is Ended.STOPPED


def test_ticks_come_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "TICK_S", 0.01)
    served = Served(Upper())
    assert served.ticked.wait(10)
    served.peer.close()
    assert served.join() is Ended.EOF


@pytest.mark.parametrize("served", [1000], indirect=True)
def test_goes_on_reading_while_the_peer_does_not_read(served: Served) -> None:
    """5 MB of answers wait, far more than the socket holds; nothing of them is lost."""
    for number in range(50):
        served.peer.sendall(b"%04d" % number * 25)
    served.peer.sendall(b"," * 100)
    expected = len(b"hello ") + 51 * 100 * 1000
    data = receive(served.peer, expected)
    assert data.startswith(b"hello 0000")
    assert data.endswith(b",,,")
    served.peer.sendall(b".")
    assert served.join() is Ended.FINISHED


@pytest.mark.parametrize("served", [100_000], indirect=True)
def test_the_connection_ends_if_the_peer_never_reads(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "MAX_UNSENT_BYTES", 1 << 20)
    for _ in range(20):
        try:
            served.peer.sendall(b"more")
        except OSError:
            break
    assert served.join() is Ended.UNREAD


def test_a_peer_that_vanishes_with_unread_answers_is_an_end_of_file() -> None:
    served = Served(Upper(100_000))
    served.peer.sendall(b"much")
    served.peer.recv(1)
    served.peer.close()
    assert served.join() is Ended.EOF


def test_what_the_session_raises_reaches_the_caller(served: Served) -> None:
    served.peer.sendall(b"!")
    served.join()
    assert isinstance(served.error, ValueError)
    assert served.after_calls == 1
