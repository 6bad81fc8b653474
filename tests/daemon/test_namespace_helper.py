"""The helper process: requests and replies on sockets, capabilities, and children that fail."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_numamem.daemon import namespace_helper
from nri_numamem.daemon.namespace_helper import NAME, READY, start
from nri_numamem.host.capabilities import CAP_SYS_ADMIN
from nri_numamem.host.network import PodInterface
from nri_numamem.numa import NodeSet
from tests.processes import children
from tests.simulated_host import wait_for

NET1 = PodInterface("net1", NodeSet([1]), is_primary=True)
# Never reached, unless the helper of a test hangs.
LONG_S = 600.0


def read(path: Path, sysfs: Path) -> list[PodInterface]:
    """Return an interface, except for paths that stand for errors."""
    assert sysfs == Path("/sys")
    match path.name:
        case "gone":
            raise FileNotFoundError(2, "No such file or directory")
        case "bug":
            raise ValueError("x" * 9000)
        case "crash":
            os._exit(3)
        case "hang":
            time.sleep(60)
    return [NET1]


@contextmanager
def helper(read_s: float = LONG_S) -> Iterator[socket.socket]:
    """Run a helper; yield the plugin's end of its socket."""
    with start(Path("/sys"), read, read_s) as sock:
        assert sock.recv(100) == READY
        yield sock


@pytest.fixture(autouse=True)
def _no_helper_is_left() -> Iterator[None]:
    before = set(children(os.getpid()))
    yield
    for pid in set(children(os.getpid())) - before:
        os.waitpid(pid, 0)  # it ends with its socket


def ask(sock: socket.socket, path: bytes) -> object:
    """Return the reply."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            socket.send_fds(sock, [path], [theirs.fileno()])
        return json.loads(ours.recv(9000))


def test_a_namespace() -> None:
    with helper() as sock:
        for _ in range(3):
            found = ask(sock, b"/run/netns/\xff")
            assert found == {"interfaces": [["net1", "1", True]]}


def test_every_error_is_a_reply() -> None:
    with helper() as sock:
        assert ask(sock, b"/run/netns/gone") == {"error": "No such file or directory"}
        found = ask(sock, b"/run/netns/bug")
        assert isinstance(found, dict)
        assert found["error"].startswith("ValueError: xxx")
        assert len(found["error"]) == 500


def test_a_child_that_crashes_or_hangs_is_replaced_for_the_next_namespace() -> None:
    with helper(read_s=0.1) as sock:
        assert ask(sock, b"/run/netns/hang") == {"error": "it took more than 100 ms"}
    with helper() as sock:
        text = "the process that read it ended with status 3"
        assert ask(sock, b"/run/netns/crash") == {"error": text}
        assert ask(sock, b"/run/netns/a") == {"interfaces": [["net1", "1", True]]}


def test_a_plugin_that_does_not_wait_for_the_reply_ends_nothing() -> None:
    with helper() as sock:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.close()
        with theirs:
            socket.send_fds(sock, [b"/run/netns/a"], [theirs.fileno()])
        assert ask(sock, b"/run/netns/a") == {"interfaces": [["net1", "1", True]]}


def test_without_free_process_ids_there_is_an_error_and_the_next_request_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork, forks = os.fork, 0

    def fail_once() -> int:
        """Fail in the helper, which is the second fork's caller."""
        nonlocal forks
        forks += 1
        if forks == 2:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    monkeypatch.setattr(os, "fork", fail_once)
    with helper() as sock:
        text = "the helper cannot start a process: Resource temporarily unavailable"
        assert ask(sock, b"/run/netns/a") == {"error": text}
        assert ask(sock, b"/run/netns/a") == {"interfaces": [["net1", "1", True]]}


def test_a_helper_that_cannot_be_forked_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(BlockingIOError):
        start(Path("/sys"))


def test_it_has_a_name_of_its_own_one_capability_and_no_terminal() -> None:
    before = set(children(os.getpid()))
    with helper():
        (pid,) = set(children(os.getpid())) - before
        assert Path(f"/proc/{pid}/comm").read_text() == f"{NAME}\n"
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = dict(line.split(":\t", 1) for line in status)
        for name in ("CapEff", "CapPrm"):
            expected = 0 if os.geteuid() else 1 << CAP_SYS_ADMIN
            assert int(fields[name], 16) & ~expected == 0
        assert os.getsid(pid) == pid
        files = {str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in range(3)}
        assert files == {"/dev/null"}


def test_it_ends_with_the_plugins_end_of_the_socket() -> None:
    before = set(children(os.getpid()))
    with helper():
        (pid,) = set(children(os.getpid())) - before
    wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z", "its end")


def test_a_helper_that_is_closed_while_it_starts_ends() -> None:
    before = set(children(os.getpid()))
    start(Path("/sys"), read).close()
    (pid,) = set(children(os.getpid())) - before
    assert os.waitpid(pid, 0) == (pid, 0)


def test_a_reply_has_room_for_the_most_interfaces() -> None:
    most = [PodInterface("x" * 15, NodeSet([1023]), is_primary=True)] * 32
    reply = namespace_helper._reply(Path("/sys"), lambda *_: most, "/run/netns/a")
    assert len(reply) < namespace_helper.REPLY_BYTES
