"""A plugin's whole session: bytes from a runtime in, bytes to the runtime out.

The runtime draws valid calls and replies, messages with invalid headers, invalid frames, and
arbitrary bytes, in any pieces. The session raises only MuxError, and a Go runtime can read every
frame that it sends.
"""

import struct

from nri_numamem.nri.multiplexer import MuxError
from nri_numamem.nri.session import PLUGIN_SERVICE, PluginSession
from nri_numamem.ttrpc.envelope import Request, Response, encode_request, encode_response
from tests.fuzz.checks import check_one_line
from tests.fuzz.choices import Choices
from tests.fuzz.fuzz_requests import CALLS_MOST, NAMES, EngineHandler, draw_payload, new_decoder
from tests.fuzz.hosts import check_records, draw_engine
from tests.laboratory.frames import FrameRecorder

_CALLS, _ANSWERS = 1, 2


def one_input(data: bytes) -> None:
    """Run one session."""
    choices = Choices(data)
    session = PluginSession(
        EngineHandler(draw_engine(choices)),
        new_decoder(choices),
        plugin_name="nri-numamem",
        plugin_idx="10",
    )
    recorder = FrameRecorder()
    recorder.feed(session.start())
    stream_id = 1
    for _ in range(CALLS_MOST):
        if not choices:
            break
        sent, stream_id = _draw_bytes(choices, stream_id)
        cut = choices.byte() or len(sent) or 1
        for at in range(0, len(sent), cut):
            try:
                recorder.feed(session.receive_data(sent[at : at + cut]))
            except MuxError as error:
                check_one_line(error)
                return
            assert recorder.violations == []
            assert not recorder.incomplete()
            check_records(session.take_records())
            assert session.finished == (session.refused is not None)


def _draw_bytes(choices: Choices, stream_id: int) -> tuple[bytes, int]:
    """Return the runtime's next bytes and the next stream id."""
    kind = choices.below(8)
    if kind == 7:
        return choices.block(), stream_id
    if kind == 6:
        return struct.pack(">II", choices.below(4), choices.below(200)) + choices.block(), stream_id
    if kind == 5:
        header = struct.pack(">IIBB", choices.below(64), choices.byte(), choices.below(5), 0)
        return _frame(_CALLS, header + choices.block()), stream_id
    if kind == 4:
        status = choices.pick((0, 0, 2, 12, 99, -1))
        body = encode_response(Response(choices.block(), status, choices.text()))
        return _frame(_ANSWERS, _message(choices.pick((1, 1, 3)), 2, body)), stream_id
    name = choices.pick(NAMES)
    service = choices.text() if choices.below(16) == 15 else PLUGIN_SERVICE
    payload = draw_payload(choices, name)
    timeout_ns = choices.pick((0, 2_000_000_000, -1))
    body = encode_request(Request(service, name, payload, timeout_ns))
    return _frame(_CALLS, _message(stream_id, 1, body)), stream_id + 2


def _message(stream_id: int, kind: int, body: bytes) -> bytes:
    return struct.pack(">IIBB", len(body), stream_id, kind, 0) + body


def _frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload
