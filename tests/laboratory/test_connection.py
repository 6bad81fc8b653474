import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from nri_numamem.nri.multiplexer import Demultiplexer
from nri_numamem.ttrpc import Code, ConnectionClosed, RemoteProtocolError, StatusError
from tests.laboratory.connection import PluginConnection, go_framer
from tests.laboratory.table_plugin import TablePlugin

_SERVICE = "nri.pkg.api.v1alpha1.Plugin"


@pytest.fixture
def ends() -> Iterator[tuple[PluginConnection, socket.socket]]:
    ours, theirs = socket.socketpair()
    connection = PluginConnection(ours, go_framer(1 << 22))
    yield connection, theirs
    connection.close()
    theirs.close()


def _frame(payload: bytes, conn_id: int) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


@pytest.mark.parametrize(
    ("size", "lengths"),
    [
        (10, [10]),
        (4096, [4096]),
        (4097, [4096, 1]),
        (14_096, [4096, 10_000]),
        (14_097, [4096, 10_000, 1]),
    ],
)
def test_frames_have_the_sizes_of_go(size: int, lengths: list[int]) -> None:
    message = bytes(range(256)) * 60
    data = go_framer(10_000)(1, message[:size])
    expected = b""
    at = 0
    for length in lengths:
        expected += _frame(message[at : at + length], 1)
        at += length
    assert data == expected


def test_calls_return_replies_and_record_frames(
    ends: tuple[PluginConnection, socket.socket],
) -> None:
    connection, theirs = ends
    with TablePlugin(theirs, {"Echo": lambda payload: payload}, idx=None) as plugin:
        big = b"x" * 300_000
        assert connection.call(_SERVICE, "Echo", big, 5.0) == big
        assert connection.call(_SERVICE, "Other", b"", 5.0) == b""
        assert plugin.methods() == ["Echo", "Other"]
    assert connection.recorder.violations == []
    assert len(connection.recorder.frames) == 3


def test_a_large_call_and_a_large_reply_cross_without_blocking(
    ends: tuple[PluginConnection, socket.socket],
) -> None:
    connection, theirs = ends
    size = 3 << 20
    with TablePlugin(theirs, {"Big": lambda _payload: b"y" * size}, idx=None) as plugin:
        assert len(connection.call(_SERVICE, "Big", b"x" * size, 10.0)) == size
        plugin.call("Late", b"")
        request = connection.wait_for_request(5.0)
        assert request is not None
        assert request.request.method == "Late"


def test_frames_of_one_byte_are_valid(ends: tuple[PluginConnection, socket.socket]) -> None:
    connection, theirs = ends
    connection.framer = lambda conn_id, message: b"".join(
        _frame(b"", conn_id) + _frame(bytes([byte]), conn_id) for byte in message
    )
    with TablePlugin(theirs, {"Echo": lambda payload: payload}, idx=None):
        assert connection.call(_SERVICE, "Echo", b"abc", 5.0) == b"abc"


def test_error_replies_are_raised(ends: tuple[PluginConnection, socket.socket]) -> None:
    connection, theirs = ends

    def refuse(_payload: bytes) -> bytes:
        raise StatusError(Code.UNKNOWN, "no room")

    with TablePlugin(theirs, {"Create": refuse}, idx=None):
        with pytest.raises(StatusError, match="no room"):
            connection.call(_SERVICE, "Create", b"", 5.0)
        assert connection.call(_SERVICE, "Other", b"", 5.0) == b""


def test_a_late_reply_is_dropped(ends: tuple[PluginConnection, socket.socket]) -> None:
    connection, theirs = ends
    release = threading.Event()

    def late(_payload: bytes) -> bytes:
        release.wait(5.0)
        return b"late"

    with TablePlugin(theirs, {"Slow": late}, idx=None):
        with pytest.raises(TimeoutError, match=r"no reply to Slow within 0\.02 s"):
            connection.call(_SERVICE, "Slow", b"", 0.02)
        release.set()
        assert connection.call(_SERVICE, "Other", b"", 5.0) == b""


def test_the_end_of_the_stream_ends_a_call(ends: tuple[PluginConnection, socket.socket]) -> None:
    connection, theirs = ends
    theirs.close()
    with pytest.raises(ConnectionClosed, match="during Create"):
        connection.call(_SERVICE, "Create", b"", 5.0)
    assert connection.closed
    assert connection.wait_closed(0)
    assert not connection.flush(0.01)


def test_the_end_of_the_stream_closes_the_connection(
    ends: tuple[PluginConnection, socket.socket],
) -> None:
    connection, theirs = ends
    assert not connection.wait_closed(0.01)
    theirs.close()
    assert connection.wait_closed(5.0)
    connection.close()


def test_a_streamed_reply_is_a_protocol_error(
    ends: tuple[PluginConnection, socket.socket],
) -> None:
    connection, theirs = ends
    theirs.sendall(_frame(struct.pack(">IIBB", 0, 1, 3, 0), 1))
    with pytest.raises(RemoteProtocolError):
        connection.call(_SERVICE, "Create", b"", 5.0)


def test_a_frame_above_the_limit_closes_the_connection(
    ends: tuple[PluginConnection, socket.socket],
) -> None:
    connection, theirs = ends
    theirs.sendall(struct.pack(">II", 1, 0xFFFFFFFF))
    assert connection.wait_closed(5.0)


def test_calls_of_the_plugin_wait_in_a_queue(ends: tuple[PluginConnection, socket.socket]) -> None:
    connection, theirs = ends
    assert connection.wait_for_request(0.01) is None
    with TablePlugin(theirs, idx=None) as plugin:
        plugin.call("One", b"1")
        plugin.call("Two", b"2")
        one = connection.wait_for_request(5.0)
        two = connection.wait_for_request(5.0)
        assert one is not None
        assert two is not None
        assert (one.request.method, two.request.payload) == ("One", b"2")
        connection.reply(one.stream_id, b"first")
        connection.reply_error(two.stream_id, Code.INTERNAL, "second")
        assert connection.flush(5.0)
        connection.call(_SERVICE, "Fence", b"", 5.0)
        assert len(plugin.outcomes) == 2


def test_an_invalid_call_gets_an_error_reply_immediately(
    ends: tuple[PluginConnection, socket.socket],
) -> None:
    connection, theirs = ends
    theirs.sendall(_frame(struct.pack(">IIBB", 0, 2, 1, 0), 2))
    connection.wait_for_request(0.1)
    assert connection.flush(5.0)
    ((conn_id, message),) = Demultiplexer((1, 2)).receive_data(theirs.recv(4096))
    assert conn_id == 2
    assert bytes(message[4:9]) == struct.pack(">IB", 2, 2)
