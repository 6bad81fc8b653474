"""Network namespaces are read in the background, by a helper that may fail or hang."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

import pytest

from nri_numamem.daemon.namespace_helper import READY
from nri_numamem.daemon.namespace_reader import (
    NOT_READ_YET,
    Found,
    HelperProcess,
    NamespaceError,
    NamespaceReader,
    read_found,
)
from nri_numamem.daemon.program import READ_NAMESPACES, program
from nri_numamem.engine.events import NetworkInterface
from nri_numamem.numa import NodeSet
from tests.daemon.fake_namespace_helper import FakeHelper

NET1, NET2 = NetworkInterface("net1", NodeSet([1])), NetworkInterface("net2", NodeSet())
REPLY = {"interfaces": [["net1", "1", True], ["net2", "", False]]}
# Never reached, unless the helper of a test hangs.
LONG_S = 600.0


class UnstartableHelper(FakeHelper):
    """A helper whose program does not exist."""

    def __init__(self) -> None:
        super().__init__()
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        raise NamespaceError("there is no such program")


def test_a_namespace_is_unknown_until_the_reply() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    assert reader.found("s") is None
    reader.begin("s", "/run/netns/a")
    assert helper.requests.get() == "/run/netns/a"
    assert reader.found("s") is NOT_READ_YET
    reader.begin("s", "/run/netns/a")  # it is being read
    helper.replies.put(REPLY)
    reader.close()
    assert reader.found("s") == Found((NET1, NET2), frozenset({"net1"}))
    assert helper.requests.empty()
    assert helper.is_closed


def test_the_helper_is_started_ahead_and_a_failure_shows_at_the_first_request() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    reader.start()
    helper.replies.put(NamespaceError("there is no such program"))
    reader.begin("s", "/run/netns/a")
    reader.close()
    found = reader.found("s")
    assert found is not None
    assert found.obstacle.endswith("/run/netns/a cannot be read: there is no such program")
    assert helper.starts == 1
    assert helper.requests.qsize() == 1


def test_only_a_failed_read_is_repeated() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    replies: tuple[Mapping[str, object] | NamespaceError, ...] = NamespaceError("late"), REPLY
    for reply in replies:
        helper.replies.put(reply)
        reader.begin("s", "/run/netns/a")
        reader.close()
    found = reader.found("s")
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
    assert (reader.found("a"), reader.found("b")) == (None, None)
    assert helper.requests.empty()


def test_old_sandboxes_are_dropped_beyond_the_limit() -> None:
    helper = UnstartableHelper()
    reader = NamespaceReader(helper)
    for number in range(4097):
        helper.replies.put(REPLY)
        reader.begin(str(number), "/run/netns/a")
    reader.close()
    assert reader.found("0") is None
    assert reader.found("4096") == Found((NET1, NET2), frozenset({"net1"}))


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


def helper_running(code: str, reply_s: float = LONG_S, start_s: float = LONG_S) -> HelperProcess:
    """Return a helper of which `code` is the program; `sock` is its socket."""
    head = "import os, socket, sys, time; sock = socket.socket(fileno=int(sys.argv[1]))"
    command = (sys.executable, "-c", f"{head}\n{code}")
    return HelperProcess(lambda descriptor: (*command, str(descriptor)), reply_s, start_s)


ECHO = f"""
sock.send({READY!r})
while path := sock.recv(100):
    sock.send(b'{{"path": "%s", "pid": %d}}' % (path, os.getpid()))
"""


def test_one_process_serves_many_requests_and_ends_with_the_plugin() -> None:
    helper = helper_running(ECHO)
    helper.start()
    first, second = helper.request("/a"), helper.request("/b")
    assert (first["path"], second["path"]) == ("/a", "/b")
    pid = first["pid"]
    assert second["pid"] == pid
    assert isinstance(pid, int)
    helper.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    helper.close()


def test_a_late_reply_ends_the_process_and_the_next_request_starts_another(tmp_path: Path) -> None:
    """The first process hangs, because the mark is missing."""
    mark = tmp_path / "mark"
    code = f"""
sock.send({READY!r})
sock.recv(100)
while not os.path.exists({str(mark)!r}):
    time.sleep(0.1)
sock.send(b"{{}}")
"""
    late = helper_running(code, reply_s=0.0)
    with pytest.raises(NamespaceError, match="did not reply within 0 ms"):
        late.request("/a")
    mark.touch()
    helper = helper_running(code)
    assert helper.request("/a") == {}
    helper.close()


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("", "the helper process ended"),
        ("sock.send(b'x')", "the helper process does not start"),
        (f"sock.send({READY!r}); sock.recv(100); sock.send(b'[]')", "sent no object"),
        (f"sock.send({READY!r}); sock.recv(100); sock.send(b'x')", "the helper process failed: "),
        (f"sock.send({READY!r}); sock.recv(100)", "the helper process ended"),
    ],
)
def test_a_process_that_fails_is_an_error(code: str, cause: str) -> None:
    helper = helper_running(code)
    with pytest.raises(NamespaceError, match=cause):
        helper.request("/a")
    helper.close()


def test_a_program_that_does_not_exist_is_an_error() -> None:
    helper = HelperProcess(lambda _descriptor: ["/nonexistent"])
    with pytest.raises(NamespaceError, match=r"the helper process failed: .*nonexistent"):
        helper.request("/a")


def test_the_programs_own_helper_reads_this_hosts_namespaces() -> None:
    def command(descriptor: int) -> tuple[str, ...]:
        return (*program(), READ_NAMESPACES, str(descriptor), "/sys")

    helper = HelperProcess(command, LONG_S, LONG_S)
    try:
        assert helper.request("/proc/self/ns/net") == {"interfaces": []}
        assert helper.request("/nonexistent") == {"error": "No such file or directory"}
        assert helper._process is not None
        name = Path(f"/proc/{helper._process.pid}/comm").read_text()
        assert name == "numamem-network\n"  # not that of the plugin
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
    assert reader.found("s") == Found((NET1, NET2), frozenset({"net1"}))
