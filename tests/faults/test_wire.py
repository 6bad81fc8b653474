"""The wire between plugin and runtime: cut, stalled, held back."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.wire import Wire

WAIT_S = 30


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    found = Wire(tmp_path / "plugin.sock")
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


def through(wire: Wire, target: socket.socket, tmp_path: Path) -> socket.socket:
    assert wire.connect(tmp_path / "runtime.sock", WAIT_S)
    runtime, _ = target.accept()
    runtime.settimeout(WAIT_S)
    return runtime


def test_nobody_is_let_in_by_himself(wire: Wire, target: socket.socket, tmp_path: Path) -> None:
    with plugin_of(tmp_path) as gone:
        gone.sendall(b"first")
    with plugin_of(tmp_path) as plugin:
        plugin.sendall(b"hello")
        target.settimeout(0.05)
        with pytest.raises(TimeoutError):
            target.accept()
        with through(wire, target, tmp_path) as runtime:
            assert runtime.recv(100) == b"hello"
            runtime.sendall(b"request")
            assert plugin.recv(100) == b"request"


def test_a_reply_is_lost(wire: Wire, target: socket.socket, tmp_path: Path) -> None:
    with plugin_of(tmp_path) as plugin, through(wire, target, tmp_path) as runtime:
        asked: list[bytes] = []
        wire.on_request = lambda: asked.append(b"seen")
        wire.cut_at_reply()
        runtime.sendall(b"request")
        assert plugin.recv(100) == b"request"
        plugin.sendall(b"reply")
        assert runtime.recv(100) == b""
        assert plugin.recv(100) == b""
        assert asked == [b"seen"]
        assert not wire.is_connected


def test_a_stalled_side_reads_later(wire: Wire, target: socket.socket, tmp_path: Path) -> None:
    with plugin_of(tmp_path) as plugin, through(wire, target, tmp_path) as runtime:
        wire.stall()
        runtime.sendall(b"request")
        assert plugin.recv(100) == b"request"
        plugin.sendall(b"reply")
        runtime.settimeout(0.05)
        with pytest.raises(TimeoutError):
            runtime.recv(100)
        wire.flow()
        runtime.settimeout(WAIT_S)
        assert runtime.recv(100) == b"reply"


def test_without_a_runtime_or_a_plugin(wire: Wire, tmp_path: Path) -> None:
    assert not wire.connect(tmp_path / "runtime.sock", 0.01)
    with plugin_of(tmp_path) as plugin:
        assert not wire.connect(tmp_path / "runtime.sock", WAIT_S)
        assert plugin.recv(100) == b""
    wire.shut()
    assert not (tmp_path / "plugin.sock").exists()
