"""The helper process as a function: requests and replies on a socket."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from nri_numamem.daemon.namespace_helper import READY, main
from nri_numamem.host.network_namespace import PodInterface
from nri_numamem.numa import NodeSet

NET1 = PodInterface("net1", NodeSet([1]), is_primary=True)


def read(path: Path, sysfs: Path) -> list[PodInterface]:
    """Return an interface, except for paths that stand for errors."""
    assert sysfs == Path("/sys")
    match path.name:
        case "gone":
            raise FileNotFoundError(2, "No such file or directory")
        case "bug":
            raise ValueError("x" * 9000)
    return [NET1]


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    thread = Thread(target=main, args=([str(theirs.detach()), "/sys"], read))
    thread.start()
    with ours:
        assert ours.recv(100) == READY
        yield ours
    thread.join()


def ask(sock: socket.socket, path: bytes) -> object:
    sock.send(path)
    return json.loads(sock.recv(9000))


def test_a_namespace(sock: socket.socket) -> None:
    assert ask(sock, b"/run/netns/a") == {"interfaces": [["net1", "1", True]]}


def test_every_error_is_a_reply(sock: socket.socket) -> None:
    assert ask(sock, b"/run/netns/gone") == {"error": "No such file or directory"}
    found = ask(sock, b"/run/netns/bug")
    assert isinstance(found, dict)
    assert found["error"].startswith("ValueError: xxx")
    assert len(found["error"]) == 500
    assert ask(sock, b"/run/netns/\xff") == {"interfaces": [["net1", "1", True]]}


def test_it_ends_when_the_plugin_does_not_wait_for_the_reply() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(b"/run/netns/a")
    ours.close()
    assert main([str(theirs.detach()), "/sys"], read) == 0
