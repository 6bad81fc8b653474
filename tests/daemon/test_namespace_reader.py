"""Network namespaces are read in the background, by a helper that may fail or hang."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from nri_numamem.daemon import namespace_helper
from nri_numamem.daemon.namespace_helper import READY
from nri_numamem.daemon.namespace_reader import (
    NOT_READ_YET,
    Found,
    HelperEndedError,
    HelperProcess,
    NamespaceError,
    NamespaceReader,
    read_found,
)
from nri_numamem.engine.core.facts import NetworkInterface
from nri_numamem.numa import NodeSet
from tests.daemon.fake_namespace_helper import FakeHelper

NET1, NET2 = NetworkInterface("net1", NodeSet([1])), NetworkInterface("net2", NodeSet())
REPLY = {"interfaces": [["net1", "1", True], ["net2", "", False]]}
# Never reached, unless the helper of a test hangs.
LONG_S = 600.0


class UnstartableHelper(FakeHelper):
    """A helper that does not start."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait(self) -> None:
        self.waits += 1
        raise NamespaceError("it does not start")


def test_a_namespace_is_unknown_until_the_reply() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    assert reader._found.get("s") is None
    reader.begin("s", "/run/netns/a")
    assert helper.requests.get() == "/run/netns/a"
    assert reader._found.get("s") is NOT_READ_YET
    reader.begin("s", "/run/netns/a")  # it is being read
    helper.replies.put(REPLY)
    reader.close()
    assert reader._found.get("s") == Found((NET1, NET2), frozenset({"net1"}))
    assert helper.requests.empty()
    assert helper.is_closed


def test_the_helper_is_awaited_ahead_and_a_failure_shows_at_the_first_request() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    reader.start()
    helper.replies.put(NamespaceError("it does not start"))
    reader.begin("s", "/run/netns/a")
    reader.close()
    found = reader._found.get("s")
    assert found is not None
    assert found.obstacle.endswith("/run/netns/a cannot be read: it does not start")
    assert helper.waits == 1
    assert helper.requests.qsize() == 1


def test_only_a_failed_read_is_repeated() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    replies: tuple[Mapping[str, object] | NamespaceError, ...] = NamespaceError("late"), REPLY
    for reply in replies:
        helper.replies.put(reply)
        reader.begin("s", "/run/netns/a")
        reader.close()
    found = reader._found.get("s")
    assert found is not None
    assert found.interfaces == (NET1, NET2)
    reader.begin("s", "/run/netns/a")
    reader.close()
    assert helper.requests.qsize() == 2


def test_a_sandbox_that_ended_is_forgotten_and_not_read() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    for name in ("a", "b"):
        reader.begin(name, f"/run/netns/{name}")
    assert helper.requests.get() == "/run/netns/a"
    reader.forget("a")  # while it is being read
    reader.forget("b")
    helper.replies.put(REPLY)
    reader.close()
    assert (reader._found.get("a"), reader._found.get("b")) == (None, None)
    assert helper.requests.empty()


def test_old_sandboxes_are_dropped_beyond_the_limit() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    for number in range(4097):
        helper.replies.put(REPLY)
        reader.begin(str(number), "/run/netns/a")
    reader.close()
    assert reader._found.get("0") is None
    assert reader._found.get("4096") == Found((NET1, NET2), frozenset({"net1"}))


@pytest.mark.parametrize(
    ("reply", "obstacle"),
    [
        ({"error": "No such file"}, "No such file"),
        ({}, "the helper process sent no interfaces"),
        ({"interfaces": "x"}, "the helper process sent no interfaces"),
        ({"interfaces": [["net1", "x", True]]}, "the helper process sent no interfaces"),
        ({"interfaces": [["net1"]]}, "the helper process sent no interfaces"),
    ],
)
def test_a_reply_without_interfaces_is_an_obstacle(
    reply: Mapping[str, object], obstacle: str
) -> None:
    found = read_found(lambda _path: reply, "/run/netns/a")
    text = f"the pod's network namespace /run/netns/a cannot be read: {obstacle}"
    assert found == Found(obstacle=text)


@contextmanager
def helper_running(
    serve: Callable[[socket.socket], object], reply_s: float = LONG_S
) -> Iterator[HelperProcess]:
    """Yield a helper at whose other end a thread serves."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def run() -> None:
        with theirs:
            serve(theirs)

    thread = Thread(target=run)
    thread.start()
    helper = HelperProcess(ours, reply_s, LONG_S)
    try:
        yield helper
    finally:
        helper.close()
        thread.join()


def receive(sock: socket.socket) -> tuple[bytes, socket.socket]:
    """Return a request and the socket for its reply."""
    path, descriptors, _, _ = socket.recv_fds(sock, 100, 1)
    return path, socket.socket(fileno=descriptors[0])


def reply_with(*replies: bytes) -> Callable[[socket.socket], object]:
    """Serve requests with these replies; "" for none."""

    def serve(sock: socket.socket) -> None:
        sock.send(READY)
        for reply in replies:
            path, answer = receive(sock)
            with answer:
                if reply:
                    answer.send(reply.replace(b"PATH", path))

    return serve


def test_each_request_has_a_reply_of_its_own() -> None:
    with helper_running(reply_with(b'{"path": "PATH"}', b"", b'{"path": "PATH"}')) as helper:
        helper.wait()
        assert helper.request("/a") == {"path": "/a"}
        with pytest.raises(NamespaceError, match="the helper process sent no reply"):
            helper.request("/b")
        assert helper.request("/c") == {"path": "/c"}


def test_a_late_reply_is_not_that_of_the_next_request() -> None:
    def serve(sock: socket.socket) -> None:
        first, second = receive(sock), receive(sock)
        for path, answer in (first, second):
            with answer, suppress(BrokenPipeError):
                answer.send(b'{"path": "%s"}' % path)

    with helper_running(serve) as helper:
        helper._reply_s = 0.0
        with pytest.raises(NamespaceError, match="did not reply within 0 ms"):
            helper.request("/a")
        helper._reply_s = LONG_S
        assert helper.request("/b") == {"path": "/b"}


def test_requests_do_not_wait_for_a_helper_that_reads_nothing() -> None:
    done = Event()
    with helper_running(lambda _sock: done.wait(), reply_s=0.0) as helper:
        for _ in range(10_000):
            with pytest.raises(NamespaceError) as caught:
                helper.request("/a")
            if "temporarily unavailable" in str(caught.value):
                break
        else:
            pytest.fail("all requests were sent")
        done.set()


@pytest.mark.parametrize(
    ("reply", "cause"), [(b"[]", "sent no object"), (b"x", "the helper process failed: ")]
)
def test_a_reply_that_is_no_object_is_an_error(reply: bytes, cause: str) -> None:
    with (
        helper_running(reply_with(reply)) as helper,
        pytest.raises(NamespaceError, match=cause),
    ):
        helper.request("/a")


def test_a_helper_that_does_not_start_is_an_error() -> None:
    with (
        helper_running(lambda sock: sock.send(b"x")) as helper,
        pytest.raises(NamespaceError, match="the helper process does not start"),
    ):
        helper.wait()


def test_a_helper_that_has_ended_stays_so() -> None:
    with helper_running(lambda _sock: None) as helper:
        with pytest.raises(NamespaceError):
            helper.wait()
        for _ in range(2):
            with pytest.raises(HelperEndedError):
                helper.request("/a")
        reader = NamespaceReader(helper)
        reader.begin("s", "/a")
        reader.close()
        assert reader.has_ended


def test_the_programs_own_helper_reads_this_hosts_namespaces() -> None:
    helper = HelperProcess(namespace_helper.start(Path("/sys"), read_s=LONG_S), LONG_S, LONG_S)
    try:
        helper.wait()
        assert helper.request("/proc/self/ns/net") == {"interfaces": []}
        assert helper.request("/nonexistent") == {"error": "No such file or directory"}
    finally:
        helper.close()


def test_at_a_limit_of_threads_the_next_request_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", fail)
        for _ in range(2):
            assert reader.begin("s", "/run/netns/a") is NOT_READ_YET
    helper.replies.put(REPLY)
    assert reader.begin("s", "/run/netns/a") is NOT_READ_YET
    reader.close()
    assert reader._found.get("s") == Found((NET1, NET2), frozenset({"net1"}))
