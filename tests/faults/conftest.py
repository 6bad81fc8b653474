"""The proxy between plugin and runtime, with both of its ends."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.proxy import SocketProxy

WAIT_S = 30


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[SocketProxy]:
    found = SocketProxy(tmp_path / "plugin.sock")
    found.open()
    yield found
    found.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "runtime.sock"))
        listener.listen()
        yield listener


def plugin_of(tmp_path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(WAIT_S)
    sock.connect(str(tmp_path / "plugin.sock"))
    return sock


def through(proxy: SocketProxy, target: socket.socket, tmp_path: Path) -> socket.socket:
    assert proxy.connect(tmp_path / "runtime.sock", WAIT_S)
    runtime, _ = target.accept()
    runtime.settimeout(WAIT_S)
    return runtime
