"""The answering end of a ttrpc connection, without I/O: bytes in, events out, replies as bytes.

    receive_data(bytes)              -> [RequestReceived | RequestRefused]
    reply(...), reply_error(...)     -> bytes of one message

Each call returns the bytes of exactly one ttrpc message, because a carrier may have to know
where a message ends (NRI's multiplexer does). Nothing here blocks, takes time or locks: a
connection belongs to one thread at a time, and deadlines belong to the shell around it.

Only unary calls exist: one Request, one Response, in any order. A bad message is answered and
the connection goes on; ttrpc has no message that would end it, only the end of the byte stream.
Rules about stream ids and codes: ttrpc PROTOCOL.md and server.go.
"""

from typing import NamedTuple

from nri_numamem.ttrpc.envelope import (
    Request,
    Response,
    decode_request,
    encode_response,
    encode_success,
)
from nri_numamem.ttrpc.frames import (
    MAX_BODY_BYTES,
    MAX_SEND_BYTES,
    BytesLike,
    Frame,
    FrameParser,
    MessageType,
    OversizeFrame,
    encode_frame,
)
from nri_numamem.ttrpc.status import Code, LocalProtocolError, RemoteProtocolError

# Looking up a member of an enumeration takes longer than the rest of an expression around it.
_REQUEST, _RESPONSE = MessageType.REQUEST, MessageType.RESPONSE

# An error text is for people. With this limit the whole reply fits the 4,096-byte read buffer
# of the Go implementation.
MAX_ERROR_TEXT_BYTES = 4000


class RequestReceived(NamedTuple):
    """A call that waits for ``reply`` or ``reply_error`` with its stream id."""

    stream_id: int
    request: Request


class RequestRefused(NamedTuple):
    """A message that is no valid call; `message` is the finished answer, ready to be sent."""

    stream_id: int
    code: Code
    text: str
    message: bytes


class ServerConnection:
    """The end that answers calls.

    `max_body_bytes` bounds the requests that are taken, `max_send_bytes` the replies: a larger
    one is replaced by an error with code 8. Messages that are no requests are ignored, and so
    are the flags of a request.
    """

    def __init__(
        self, *, max_body_bytes: int = MAX_BODY_BYTES, max_send_bytes: int = MAX_SEND_BYTES
    ) -> None:
        self.max_send_bytes = max_send_bytes
        self._parser = FrameParser(max_body_bytes)
        self._last_stream_id = 0
        self._waiting: set[int] = set()

    def receive_data(self, data: BytesLike) -> list[RequestReceived | RequestRefused]:
        """Take bytes from the client; every event returned needs an answer to be sent."""
        return [
            self._request(frame)
            for frame in self._parser.feed(data)
            if frame.message_type == _REQUEST
        ]

    def reply(self, stream_id: int, payload: bytes) -> bytes:
        """Return the message that answers a call with success.

        LocalProtocolError when the call does not wait for an answer (any more).
        """
        body = encode_success(payload)
        if len(body) > self.max_send_bytes:
            return self.reply_error(
                stream_id,
                Code.RESOURCE_EXHAUSTED,
                f"reply of {len(body)} bytes is over the limit of {self.max_send_bytes}",
            )
        self._end(stream_id)
        return encode_frame(stream_id, _RESPONSE, body)

    def reply_error(self, stream_id: int, code: Code, text: str) -> bytes:
        """Return the message that answers a call with a status other than OK.

        The text is cut to MAX_ERROR_TEXT_BYTES, and what cannot be UTF-8 becomes "?".
        LocalProtocolError for OK, or when the call does not wait for an answer (any more).
        """
        if code == Code.OK:
            raise LocalProtocolError("an error reply needs a code other than OK")
        self._end(stream_id)
        return _encode_error(stream_id, code, text)

    def _end(self, stream_id: int) -> None:
        if stream_id not in self._waiting:
            raise LocalProtocolError(f"no request waits for a reply on stream {stream_id}")
        self._waiting.remove(stream_id)

    def _request(self, frame: Frame | OversizeFrame) -> RequestReceived | RequestRefused:
        stream_id = frame.stream_id
        if stream_id % 2 == 0:
            return _refuse(stream_id, Code.INVALID_ARGUMENT, f"stream id {stream_id} is not odd")
        if stream_id <= self._last_stream_id:
            return _refuse(
                stream_id,
                Code.INVALID_ARGUMENT,
                f"stream id {stream_id} is not above the last one, {self._last_stream_id}",
            )
        self._last_stream_id = stream_id
        if isinstance(frame, OversizeFrame):
            return _refuse(stream_id, Code.RESOURCE_EXHAUSTED, self._oversize_text(frame))
        try:
            request = decode_request(frame.body)
        except RemoteProtocolError as error:
            return _refuse(stream_id, Code.INVALID_ARGUMENT, str(error))
        self._waiting.add(stream_id)
        return RequestReceived(stream_id, request)

    def _oversize_text(self, frame: OversizeFrame) -> str:
        limit = self._parser.max_body_bytes
        return f"request of {frame.body_bytes} bytes is over the limit of {limit}"


def _refuse(stream_id: int, code: Code, text: str) -> RequestRefused:
    return RequestRefused(stream_id, code, text, _encode_error(stream_id, code, text))


def _encode_error(stream_id: int, code: Code, text: str) -> bytes:
    # Go refuses the whole reply when its text is not UTF-8, and the reason would be lost.
    cut = text.encode("utf-8", "replace")[:MAX_ERROR_TEXT_BYTES].decode("utf-8", "ignore")
    body = encode_response(Response(code=code, message=cut))
    return encode_frame(stream_id, _RESPONSE, body)
