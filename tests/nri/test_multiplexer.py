"""The multiplexer: sends the only layout that Go can read, and reads every layout."""

import random
import struct
import subprocess
import sys

import pytest

from nri_numamem.nri import multiplexer
from nri_numamem.nri.multiplexer import Demultiplexer, MuxError, frame_message
from nri_numamem.ttrpc.testing import ConnectionPair

BOTH = (multiplexer.PLUGIN_SERVICE_CONN, multiplexer.RUNTIME_SERVICE_CONN)


def message(body_bytes: int, fill: bytes = b"x") -> bytes:
    return body_bytes.to_bytes(4) + bytes.fromhex("00000001 01 00") + fill * body_bytes


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def frames_of(data: bytes) -> list[tuple[int, bytes]]:
    """Return the frames in `data`, by a minimal parser."""
    frames = []
    while data:
        conn_id, size = struct.unpack(">II", data[:8])
        frames.append((conn_id, data[8 : 8 + size]))
        data = data[8 + size :]
    return frames


def streams_of(pieces: list[tuple[int, bytes | memoryview]]) -> dict[int, bytes]:
    streams: dict[int, bytes] = {}
    for conn_id, piece in pieces:
        streams[conn_id] = streams.get(conn_id, b"") + bytes(piece)
    return streams


def cut(rng: random.Random, data: bytes, largest: int) -> list[bytes]:
    pieces = []
    while data:
        size = rng.randrange(1, largest + 1)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def test_golden_frame() -> None:
    empty_response = bytes.fromhex("00000000 00000001 02 00")
    assert frame_message(2, empty_response) == bytes.fromhex("00000002 0000000a") + empty_response
    assert (multiplexer.PLUGIN_SERVICE_CONN, multiplexer.RUNTIME_SERVICE_CONN) == (1, 2)


@pytest.mark.parametrize("body_bytes", [0, 1, 4085, 4086])
def test_a_small_message_is_one_frame(body_bytes: int) -> None:
    sent = message(body_bytes)
    assert frames_of(frame_message(1, sent)) == [(1, sent)]


@pytest.mark.parametrize("body_bytes", [4087, 4096, 4200, 70_000, 4 << 20])
def test_a_larger_message_is_two_frames(body_bytes: int) -> None:
    sent = message(body_bytes)
    assert frames_of(frame_message(1, sent)) == [(1, sent[:4096]), (1, sent[4096:])]


def test_bytes_that_could_harm_a_go_receiver_are_refused() -> None:
    with pytest.raises(ValueError, match="over the limit of 4194314"):
        frame_message(1, message((4 << 20) + 1))
    for conn_id in (0, 3, -1, 1 << 32):
        with pytest.raises(ValueError, match="no connection id"):
            frame_message(conn_id, message(3))
    for damaged in (b"", b"\0" * 9, message(3) + b"x", message(3)[:-1], message(0) * 2):
        with pytest.raises(ValueError, match="not exactly one ttrpc message"):
            frame_message(1, damaged)


def test_the_demultiplexer_reads_own_frames() -> None:
    small, large = message(20), message(70_000)
    data = frame_message(1, small) + frame_message(2, large) + frame_message(1, large)
    pieces = Demultiplexer(BOTH).receive_data(data)
    assert [conn_id for conn_id, _ in pieces] == [1, 2, 1]
    assert streams_of(pieces) == {1: small + large, 2: large}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_type_of_buffer(kind: type[bytes] | type[memoryview]) -> None:
    pieces = Demultiplexer([1]).receive_data(kind(frame(1, b"abc")))
    assert streams_of(pieces) == {1: b"abc"}
    assert Demultiplexer([1]).receive_data(kind(b"")) == []


def test_every_layout_in_every_division() -> None:
    rng = random.Random(7)
    for largest_read in (1, 2, 7, 8, 9, 30, 5000):
        for _ in range(20):
            expected = {1: b"", 2: b""}
            data = b""
            for _ in range(rng.randrange(1, 12)):
                conn_id = rng.choice([1, 2, 7, 0])
                payload = rng.randbytes(rng.choice([0, 0, 1, 3, 50]))
                data += frame(conn_id, payload)
                if conn_id in expected:
                    expected[conn_id] += payload
            demux = Demultiplexer(BOTH)
            pieces = [
                item for part in cut(rng, data, largest_read) for item in demux.receive_data(part)
            ]
            streams = streams_of(pieces)
            assert {conn_id: streams.get(conn_id, b"") for conn_id in expected} == expected
            assert all(len(piece) for _, piece in pieces)


def test_payload_of_an_incomplete_frame_is_returned() -> None:
    demux = Demultiplexer([1])
    assert demux.receive_data(struct.pack(">II", 1, 64 << 20)) == []
    for _ in range(10):
        assert streams_of(demux.receive_data(b"abc")) == {1: b"abc"}
    assert not demux._header


def test_frames_with_unknown_ids_are_discarded() -> None:
    demux = Demultiplexer([1])
    assert demux.receive_data(frame(7, bytes(100))[:50]) == []
    pieces = demux.receive_data(bytes(58) + frame(7, b"") + frame(1, b"ok"))
    assert streams_of(pieces) == {1: b"ok"}
    assert demux.receive_data(frame(2, b"not ours")) == []
    assert demux.discarded_frames == 3


def test_a_frame_over_the_limit_is_a_permanent_error() -> None:
    demux = Demultiplexer([1], max_payload_bytes=100)
    assert streams_of(demux.receive_data(frame(1, bytes(100)))) == {1: bytes(100)}
    with pytest.raises(MuxError, match="frame of 101 bytes for connection id 1 is over the limit"):
        demux.receive_data(struct.pack(">II", 1, 101))
    with pytest.raises(MuxError, match="over the limit of 100"):
        demux.receive_data(frame(1, b"fine"))


@pytest.mark.parametrize("conn_id", [1, 7])
def test_default_limit(conn_id: int) -> None:
    assert Demultiplexer([1]).receive_data(struct.pack(">II", conn_id, 64 << 20)) == []
    with pytest.raises(MuxError):
        Demultiplexer([1]).receive_data(struct.pack(">II", conn_id, (64 << 20) + 1))


def test_random_bytes_are_accepted_or_refused() -> None:
    rng = random.Random(8)
    refused = 0
    for _ in range(300):
        data = b"".join(
            struct.pack(">II", rng.randrange(4), rng.randrange(40)) + rng.randbytes(20)
            for _ in range(rng.randrange(6))
        ) + rng.randbytes(rng.randrange(9))
        demux = Demultiplexer(BOTH, max_payload_bytes=1 << 30)
        try:
            for part in cut(rng, data, 10):
                for conn_id, piece in demux.receive_data(part):
                    assert conn_id in BOTH
                    assert len(piece)
        except MuxError:
            refused += 1
    assert 0 < refused < 300


def test_two_ttrpc_connections_share_a_socket() -> None:
    plugin = ConnectionPair({"Plugin": {"Ping": lambda request, _: request.payload}})
    runtime = ConnectionPair({"Runtime": {"Ping": lambda request, _: request.payload}})
    pairs = {1: plugin, 2: runtime}
    demux = Demultiplexer(BOTH)
    wire = b""
    for size in (10, 5000, 70_000):
        wire += frame_message(1, plugin.client.call("Plugin", "Ping", bytes(size))[1])
        wire += frame_message(2, runtime.client.call("Runtime", "Ping", bytes(size))[1])
    for part in cut(random.Random(9), wire, 3000):
        for conn_id, piece in demux.receive_data(part):
            pairs[conn_id].to_server(bytes(piece))
    for pair in pairs.values():
        assert [len(reply) for reply in pair.replies] == [22, 5013, 70_014]


def test_standard_library_only() -> None:
    script = f"import runpy, sys; runpy.run_path({multiplexer.__file__!r}); print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], check=True, capture_output=True, text=True
    )
    names = {name.partition(".")[0] for name in found.stdout.split()}
    assert names <= set(sys.stdlib_module_names) | {"__main__", "__mp_main__"}
