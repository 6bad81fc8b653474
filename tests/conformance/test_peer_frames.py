"""Bytes that no Go runtime sends: unusual frames, incomplete messages, long pauses."""

import itertools
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from nri_numamem.nri.multiplexer import frame_message
from nri_numamem.ttrpc import Code
from nri_numamem.ttrpc.envelope import Request, encode_request
from nri_numamem.ttrpc.frames import encode_frame
from tests.conformance.bench import MI, resident_bytes
from tests.conformance.raw_peer import RawPeer
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.plugin import PLUGIN_SERVICE
from tests.simulated_host import WAIT_S, SimulatedHost

_MUX_HEADER = struct.Struct(">II")


def _frame(conn_id: int, payload: bytes) -> bytes:
    return _MUX_HEADER.pack(conn_id, len(payload)) + payload


@pytest.fixture
def raw(host: SimulatedHost) -> Iterator[RawPeer]:
    """Yield a peer with a registered and configured plugin."""
    with RawPeer.listen(host.socket) as listener:
        process = host.start()
        peer = RawPeer.accept(listener)
        with peer:
            peer.accept_registration()
            peer.configure()
            yield peer
        assert process.poll() is None
    assert host.stop(process) == 0
    assert not any("exception" in record for record in host.records())


def _create_request(name: str, limit_bytes: int = MI) -> bytes:
    pod = objects.pod(name)
    container = objects.container(pod, "c", memory_limit_bytes=limit_bytes)
    return api.CreateContainerRequest(pod=pod, container=container).SerializeToString()


def _works(peer: RawPeer) -> None:
    reply = peer.call("CreateContainer", _create_request(f"pod-{time.monotonic_ns()}"))
    response = api.CreateContainerResponse.FromString(reply.payload)
    assert (reply.code, response.adjust.linux.resources.cpu.mems) == (0, "0")


@pytest.mark.scenario(2)
def test_configure_before_the_reply_to_the_registration(host: SimulatedHost) -> None:
    with RawPeer.listen(host.socket) as listener:
        process = host.start()
        with RawPeer.accept(listener) as peer:
            registration = peer.next_request()
            assert isinstance(registration.content, Request)
            assert registration.content.method == "RegisterPlugin"
            peer.configure()
            peer.send(2, encode_frame(registration.stream_id, 2, b""))
            _works(peer)
        assert host.stop(process) == 0


@pytest.mark.scenario(25)
def test_a_late_reply_to_the_registration(host: SimulatedHost) -> None:
    """Six seconds are longer than every timer of a runtime."""
    with RawPeer.listen(host.socket) as listener:
        process = host.start()
        with RawPeer.accept(listener) as peer:
            registration = peer.next_request()
            with pytest.raises(TimeoutError):
                peer.receive(6.0)
            peer.send(2, encode_frame(registration.stream_id, 2, b""))
            peer.configure()
            _works(peer)
        assert host.stop(process) == 0


@pytest.mark.scenario(6)
def test_messages_do_not_depend_on_the_layout_of_frames(raw: RawPeer) -> None:
    def bytewise(conn_id: int, message: bytes) -> bytes:
        return b"".join(_frame(conn_id, bytes((byte,))) for byte in message)

    def with_empty_frames(conn_id: int, message: bytes) -> bytes:
        cuts = [message[:5], b"", message[5:10], b"", b"", message[10:]]
        return b"".join(_frame(conn_id, cut) for cut in cuts)

    for framer in (bytewise, _frame, with_empty_frames):
        raw.framer = framer
        _works(raw)


@pytest.mark.scenario(7, 11)
def test_unknown_connections_and_message_types_are_ignored(raw: RawPeer) -> None:
    raw.send_bytes(_frame(7, b"whatever" * 1000))
    for message_type in (3, 9):
        raw.send(1, encode_frame(raw.next_stream(), message_type, b"abc"))
    _works(raw)


@pytest.mark.scenario(8, 9)
def test_unknown_names_and_invalid_payloads(raw: RawPeer) -> None:
    codes = [
        raw.call("CreateContainer", b"", service="no.such.Service").code,
        raw.call("NoSuchMethod", b"").code,
        raw.call("CreateContainer", b"\xff\xff\xff").code,
        raw.call("StopContainer", b"\x0a\x05ab").code,
    ]
    assert codes == [Code.UNIMPLEMENTED, Code.UNIMPLEMENTED, Code.INTERNAL, Code.INTERNAL]
    stream = raw.next_stream()
    raw.send(1, encode_frame(stream, 1, b"\xff\xff\xff"))
    assert raw.reply_to(stream).code == Code.INVALID_ARGUMENT
    _works(raw)


@pytest.mark.scenario(10)
def test_metadata_unknown_fields_and_flags(raw: RawPeer) -> None:
    metadata = (("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),)
    request = Request(PLUGIN_SERVICE, "CreateContainer", _create_request("a"), 10**9, metadata)
    body = encode_request(request) + bytes.fromhex("f23e03616263 f83e07")
    stream = raw.next_stream()
    message = bytearray(encode_frame(stream, 1, body))
    message[9] = 0x55
    raw.send(1, bytes(message))
    assert raw.reply_to(stream).code == 0


@pytest.mark.scenario(12)
def test_two_requests_in_one_write(raw: RawPeer) -> None:
    streams = [raw.next_stream(), raw.next_stream()]
    requests = [
        encode_request(Request(PLUGIN_SERVICE, "CreateContainer", _create_request(name)))
        for name in ("first", "second")
    ]
    raw.send_bytes(
        b"".join(
            frame_message(1, encode_frame(stream, 1, body))
            for stream, body in zip(streams, requests, strict=True)
        )
    )
    assert [raw.reply_to(stream).code for stream in streams] == [0, 0]


@pytest.mark.scenario(13, 14)
@pytest.mark.parametrize(
    "data",
    [
        _MUX_HEADER.pack(1, (64 << 20) + 1),
        _MUX_HEADER.pack(1, 0xFFFFFFFF) + b"x" * 4096,
        b"\x00\x00\x00",
        _frame(1, b"\x00\x00"),
        _frame(1, encode_frame(3, 1, b"x" * 100)[:50]),
        _MUX_HEADER.pack(1, 5000) + b"\x00" * 2000,
    ],
    ids=["above 64 MiB", "4 GiB", "mux header", "ttrpc header", "ttrpc body", "mux payload"],
)
def test_incomplete_or_oversize_frames(host: SimulatedHost, data: bytes) -> None:
    with RawPeer.listen(host.socket) as listener:
        process = host.start()
        with RawPeer.accept(listener) as peer:
            peer.accept_registration()
            peer.configure()
            before = resident_bytes(process.pid)
            peer.send_bytes(data)
            if len(data) >= 8 and struct.unpack_from(">I", data, 4)[0] > 64 << 20:
                assert peer.wait_closed(WAIT_S)
        with RawPeer.accept(listener) as peer:
            peer.accept_registration()
            peer.configure()
            _works(peer)
            assert resident_bytes(process.pid) < before + 8 * MI
        assert host.stop(process) == 0
    assert len(host.records("disconnected")) >= 1
    assert not any("exception" in record for record in host.records())


@pytest.mark.scenario(15)
def test_a_runtime_that_does_not_read(raw: RawPeer) -> None:
    """The plugin reads a megabyte of requests although the runtime reads no reply."""
    text = "x" * 500_000
    streams = [raw.next_stream() for _ in range(300)]
    begin = time.monotonic()
    for stream in streams:
        request = Request(PLUGIN_SERVICE, "No" + text[:4000], b"")
        raw.send(1, encode_frame(stream, 1, encode_request(request)))
    assert time.monotonic() - begin < WAIT_S
    time.sleep(2)
    assert {raw.reply_to(stream).code for stream in streams} == {Code.UNIMPLEMENTED}
    _works(raw)


@pytest.mark.scenario(53, 54, 55)
def test_no_call_of_the_protocol_is_unimplemented(raw: RawPeer) -> None:
    dedicated = ("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PostUpdatePodSandbox")
    of_containers = ("PostCreateContainer", "StartContainer", "PostStartContainer")
    more = ("PostUpdateContainer", "RemoveContainer", "UpdatePodSandbox", "Shutdown")
    for method in (*dedicated, *of_containers, *more, "ValidateContainerAdjustment"):
        reply = raw.call(method, b"")
        assert (reply.code, reply.payload) == (0, b""), method
    for kind in range(16):
        event = api.StateChangeEvent(event=kind, pod=objects.pod("a"))  # type: ignore[arg-type]
        assert raw.call("StateChange", event.SerializeToString()).code == 0
    unknown = b"\x08\x63"  # kind 99
    assert raw.call("StateChange", unknown).code == 0
    _works(raw)


@pytest.mark.scenario(70)
def test_invalid_utf_8_in_strings(raw: RawPeer) -> None:
    """Invalid UTF-8 is an error of the call; the text of the reply is valid UTF-8."""
    payload = _create_request("pod-0").replace(b"pod-0", b"po\xff\xfe0")
    reply = raw.call("CreateContainer", payload)
    assert reply.code in (0, Code.INTERNAL)
    assert reply.message.encode().decode() == reply.message
    _works(raw)


@pytest.mark.scenario(66)
def test_a_runtime_that_closes_after_configure(host: SimulatedHost) -> None:
    """The plugin pauses before each connection, each time longer."""
    arrivals = []
    with RawPeer.listen(host.socket) as listener:
        process = host.start()
        for _ in range(3):
            with RawPeer.accept(listener) as peer:
                arrivals.append(time.monotonic())
                peer.accept_registration()
                peer.configure()
        assert host.stop(process) == 0
    pauses = [later - earlier for earlier, later in itertools.pairwise(arrivals)]
    assert pauses[0] >= 0.2
    assert pauses[1] >= 0.4


@pytest.mark.scenario(22)
@pytest.mark.parametrize("why", ["missing", "refused", "no socket"])
def test_without_a_runtime(host: SimulatedHost, why: str) -> None:
    """Root never gets EACCES, which the plugin handles like the other errors."""
    if why == "refused":
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(str(host.socket))
    elif why == "no socket":
        host.socket.write_text("")
    process = host.start("--log-level", "debug")
    host.wait_record("connect_failed")
    time.sleep(1.5)  # past the second attempt
    assert process.poll() is None
    assert len(host.records("connect_failed")) == 1
    host.socket.unlink(missing_ok=True)
    with RawPeer.listen(host.socket) as listener, RawPeer.accept(listener) as peer:
        peer.accept_registration()
        peer.configure()
        _works(peer)
    assert host.stop(process) == 0
