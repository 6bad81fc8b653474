"""The in-memory pair: a client and a server without sockets."""

import random

import pytest

from nri_numamem.ttrpc.client import ClientConnection
from nri_numamem.ttrpc.envelope import Request, decode_response
from nri_numamem.ttrpc.frames import encode_frame
from nri_numamem.ttrpc.server import ServerConnection
from nri_numamem.ttrpc.status import Code, ConnectionClosed, StatusError
from nri_numamem.ttrpc.testing import ConnectionPair


def echo(request: Request, deadline_ns: int | None) -> bytes:
    return request.payload


def describe(request: Request, deadline_ns: int | None) -> bytes:
    return f"{deadline_ns} {request.metadata}".encode()


SERVICES = {"demo.Echo": {"Echo": echo, "Describe": describe}}


@pytest.mark.parametrize("piece_bytes", [0, 1, 3, 4096])
def test_calls_of_all_sizes_in_pieces_of_all_sizes(piece_bytes: int) -> None:
    rng = random.Random(6)
    pair = ConnectionPair(SERVICES, piece_bytes=piece_bytes)
    sizes = [0, 1, 117, 128, 4086, 9000]
    for size in sizes:
        payload = rng.randbytes(size)
        assert pair.call("demo.Echo", "Echo", payload) == payload
    assert (len(pair.requests), len(pair.replies)) == (len(sizes), len(sizes))
    assert pair.client.dropped_messages == 0


def test_deadline_and_metadata_arrive() -> None:
    pair = ConnectionPair(SERVICES)
    pair.now_ns = 40
    found = pair.call("demo.Echo", "Describe", timeout_ns=2, metadata=[("k", "v")])
    assert found == b"42 (('k', 'v'),)"


def test_errors_are_raised() -> None:
    pair = ConnectionPair(SERVICES)
    with pytest.raises(StatusError, match="method Nope"):
        pair.call("demo.Echo", "Nope")
    pair.client.receive_eof()
    with pytest.raises(ConnectionClosed):
        pair.call("demo.Echo", "Echo")


def test_limits_of_both_ends_can_be_chosen() -> None:
    pair = ConnectionPair(
        SERVICES,
        client=ClientConnection(max_body_bytes=300),
        server=ServerConnection(max_body_bytes=400),
    )
    assert pair.call("demo.Echo", "Echo", bytes(200)) == bytes(200)
    with pytest.raises(StatusError, match="reply of 353 bytes is over the limit of 300"):
        pair.call("demo.Echo", "Echo", bytes(350))
    with pytest.raises(StatusError, match="over the limit of 400"):
        pair.call("demo.Echo", "Echo", bytes(450))
    assert pair.call("demo.Echo", "Echo", b"x") == b"x"


def test_raw_bytes_reach_the_server() -> None:
    pair = ConnectionPair(SERVICES)
    assert pair.to_server(b"") == []
    [reply] = pair.to_server(encode_frame(2, 1, b""))
    assert decode_response(reply[10:]).code == Code.INVALID_ARGUMENT
