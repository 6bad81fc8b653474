"""ttrpc: frames, envelope, client and server, with any bytes in any pieces.

Every input is accepted or raises RemoteProtocolError. The memory between two calls is bounded, and
the results do not depend on the pieces.
"""

import struct
from contextlib import suppress

from nri_numamem.ttrpc import (
    HEADER_BYTES,
    CallFailed,
    ClientConnection,
    Code,
    RemoteProtocolError,
    Request,
    RequestReceived,
    ServerConnection,
    handle_request,
)
from nri_numamem.ttrpc.envelope import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from nri_numamem.ttrpc.frames import FrameParser
from tests.fuzz.choices import Choices

# Small, so that inputs can exceed it.
_BODY_LIMIT = 64


def one_input(data: bytes) -> None:
    """Check one stream; its first byte selects the size of the pieces and the checked part."""
    choices = Choices(data)
    cut = choices.below(16) or len(data) or 1
    part = choices.below(3)
    stream = choices.take(len(data))
    pieces = [stream[at : at + cut] for at in range(0, len(stream), cut)]
    if part == 0:
        _check_envelope(stream)
    elif part == 1:
        _check_server(stream, pieces)
    else:
        _check_client(stream, pieces)
    _check_frames(stream, pieces)


def _check_frames(stream: bytes, pieces: list[bytes]) -> None:
    parser = FrameParser(_BODY_LIMIT)
    found = []
    for piece in pieces:
        found.extend(parser.feed(piece))
        assert len(parser._buffer) < HEADER_BYTES + _BODY_LIMIT
    assert found == FrameParser(_BODY_LIMIT).feed(stream)


def _check_envelope(body: bytes) -> None:
    with suppress(RemoteProtocolError):
        request = decode_request(body)
        assert decode_request(encode_request(request)) == request
    with suppress(RemoteProtocolError):
        response = decode_response(body)
        assert decode_response(encode_response(response)) == response


def _check_server(stream: bytes, pieces: list[bytes]) -> None:
    expected = ServerConnection(max_body_bytes=_BODY_LIMIT).receive_data(stream)
    cut = ServerConnection(max_body_bytes=_BODY_LIMIT)
    found = [event for piece in pieces for event in cut.receive_data(piece)]
    assert found == expected
    for event in found:
        if isinstance(event, RequestReceived):
            services = {event.request.service: {event.request.method: _echo}}
            reply = handle_request(cut, services, event, now_ns=0)
        else:
            reply = event.message
        length, stream_id, kind, _ = struct.unpack_from(">IIBB", reply)
        assert (length, stream_id, kind) == (len(reply) - HEADER_BYTES, event.stream_id, 2)
        assert decode_response(reply[HEADER_BYTES:]).code in list(Code)
    assert not cut._waiting


def _echo(request: Request, _deadline_ns: int | None) -> bytes:
    return request.payload


def _check_client(stream: bytes, pieces: list[bytes]) -> None:
    ends = []
    for fed in ([stream], pieces):
        client = ClientConnection(max_body_bytes=_BODY_LIMIT)
        for _ in range(4):
            client.call("service", "method")
        outcomes = [outcome for piece in fed for outcome in client.receive_data(piece)]
        outcomes += client.receive_eof()
        # Every call ends exactly once.
        assert sorted(outcome.stream_id for outcome in outcomes) == [1, 3, 5, 7]
        ends.append(
            [
                (o.stream_id, str(o.error) if isinstance(o, CallFailed) else o.payload)
                for o in outcomes
            ]
        )
    assert ends[0] == ends[1]
