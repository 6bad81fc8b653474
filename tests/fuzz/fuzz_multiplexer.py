"""The demultiplexer: for any pieces the streams of a minimal parser, or MuxError."""

import struct

from nri_numamem.nri.multiplexer import Demultiplexer, MuxError
from tests.fuzz.checks import check_one_line
from tests.fuzz.choices import Choices

_PAYLOAD_LIMIT = 300
_HEADER_BYTES = 8


def one_input(data: bytes) -> None:
    """Compare with a minimal parser; the first byte is the size of the pieces."""
    choices = Choices(data)
    cut = choices.below(16) or len(data) or 1
    stream = choices.take(len(data))
    mux = Demultiplexer((1, 2), _PAYLOAD_LIMIT)
    found: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
    is_refused = False
    for at in range(0, len(stream), cut):
        try:
            for conn_id, piece in mux.receive_data(stream[at : at + cut]):
                found[conn_id] += piece
        except MuxError as error:
            check_one_line(error)
            is_refused = True
        assert len(mux._header) < _HEADER_BYTES
    expected, is_to_be_refused = _read_plainly(stream)
    assert is_refused == is_to_be_refused
    # The bytes before an invalid header in the same piece are lost; the connection ends there.
    for conn_id, got in found.items():
        if is_refused:
            assert expected[conn_id].startswith(bytes(got))
        else:
            assert expected[conn_id] == bytes(got)


def _read_plainly(stream: bytes) -> tuple[dict[int, bytes], bool]:
    streams = {1: b"", 2: b""}
    while len(stream) >= _HEADER_BYTES:
        conn_id, length = struct.unpack_from(">II", stream)
        if length > _PAYLOAD_LIMIT:
            return streams, True
        payload = stream[_HEADER_BYTES : _HEADER_BYTES + length]
        if conn_id in streams:
            streams[conn_id] += payload
        stream = stream[_HEADER_BYTES + length :]
    return streams, False
