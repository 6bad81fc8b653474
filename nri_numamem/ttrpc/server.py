"""The server side of a ttrpc connection, without I/O.

    receive_data(bytes)              -> [RequestReceived | RequestRefused]
    handle_request(..., services)    -> bytes of one message, from the handler of the request
    reply(...), reply_error(...)     -> bytes of one message

Each reply is exactly one ttrpc message, because a transport may need the boundaries of messages, as
NRI's multiplexer does. No method blocks, reads a clock or locks: one thread at a time uses a
connection, and its caller enforces deadlines.

Only unary calls are supported: one Request, one Response, in any order. An invalid message gets an
error reply, and the connection continues; only the end of the byte stream ends it. Source of the
rules for stream ids and codes: ttrpc PROTOCOL.md and server.go.

    Services: service name -> method name -> Handler(request, deadline in ns) -> reply payload

A handler receives and returns payloads and does not use the connection. Its deadline is the time at
which the client stops waiting, on the clock of `now_ns`; None without a timeout.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from nri_numamem.ttrpc.envelope import (
    Request,
    Response,
    decode_request,
    encode_response,
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
from nri_numamem.ttrpc.status import Code, LocalProtocolError, RemoteProtocolError, StatusError

# With this limit the whole error reply fits the 4,096-byte read buffer of the Go implementation.
MAX_ERROR_TEXT_BYTES = 4000

Handler = Callable[[Request, int | None], bytes]
Services = Mapping[str, Mapping[str, Handler]]


class RequestReceived(NamedTuple):
    """A call; it requires one ``reply`` or ``reply_error`` with its stream id."""

    stream_id: int
    request: Request


class RequestRefused(NamedTuple):
    """An invalid call; `message` is the error reply to send."""

    stream_id: int
    code: Code
    text: str
    message: bytes


class ServerConnection:
    """The server side of one connection.

    `max_body_bytes` is the limit for requests, `max_send_bytes` the limit for replies: an error
    with code 8 replaces a larger reply. Messages other than requests are ignored, and so are the
    flags of a request.
    """

    def __init__(
        self, *, max_body_bytes: int = MAX_BODY_BYTES, max_send_bytes: int = MAX_SEND_BYTES
    ) -> None:
        self.max_send_bytes = max_send_bytes
        self._parser = FrameParser(max_body_bytes)
        self._last_stream_id = 0
        self._waiting: set[int] = set()

    def receive_data(self, data: BytesLike) -> list[RequestReceived | RequestRefused]:
        """Process bytes from the client; return an event, which requires a reply, per call."""
        return [
            self._request(frame)
            for frame in self._parser.feed(data)
            if frame.message_type == MessageType.REQUEST
        ]

    def reply(self, stream_id: int, payload: bytes) -> bytes:
        """Return the message of a successful reply.

        Raise LocalProtocolError when no call with this stream id waits for a reply.
        """
        self._check_waiting(stream_id)
        body = encode_response(Response(payload))
        if len(body) > self.max_send_bytes:
            text = f"reply of {len(body)} bytes is over the limit of {self.max_send_bytes}"
            return self.reply_error(stream_id, Code.RESOURCE_EXHAUSTED, text)
        self._waiting.remove(stream_id)
        return encode_frame(stream_id, MessageType.RESPONSE, body)

    def reply_error(self, stream_id: int, code: Code, text: str) -> bytes:
        """Return the message of an error reply.

        The text is truncated to MAX_ERROR_TEXT_BYTES; characters that UTF-8 cannot encode become
        "?". Raise LocalProtocolError for the code OK, and when no call with this stream id waits
        for a reply.
        """
        if code == Code.OK:
            raise LocalProtocolError("an error reply needs a code other than OK")
        self._check_waiting(stream_id)
        self._waiting.remove(stream_id)
        return _encode_error(stream_id, code, text)

    def _check_waiting(self, stream_id: int) -> None:
        if stream_id not in self._waiting:
            raise LocalProtocolError(f"no request waits for a reply on stream {stream_id}")

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


def handle_request(
    connection: ServerConnection, services: Services, event: RequestReceived, now_ns: int
) -> bytes:
    """Run the handler of a request; return the bytes of its reply.

    `now_ns` is the time of arrival, on the clock with which handlers compare their deadlines. A
    handler's StatusError becomes the status of the reply, a TimeoutError code 4. A service or
    method that is not in `services` gets code 12 and the text of Go servers. Any other exception
    becomes code 2 with its text, and is logged with its traceback.
    """
    request = event.request
    deadline_ns = now_ns + request.timeout_ns if request.timeout_ns else None
    methods = services.get(request.service)
    if methods is None:
        text = f"service {request.service}"
        return connection.reply_error(event.stream_id, Code.UNIMPLEMENTED, text)
    handler = methods.get(request.method)
    if handler is None:
        text = f"method {request.method}"
        return connection.reply_error(event.stream_id, Code.UNIMPLEMENTED, text)
    try:
        return connection.reply(event.stream_id, handler(request, deadline_ns))
    except StatusError as error:
        return connection.reply_error(event.stream_id, error.code, error.message)
    except TimeoutError as error:
        return connection.reply_error(event.stream_id, Code.DEADLINE_EXCEEDED, str(error))
    except Exception as error:  # a bug in a handler ends only its call
        import logging  # noqa: PLC0415 - loaded only for a bug; 2 ms of a plugin's start

        log = logging.getLogger(__name__)
        log.exception("the handler of %s/%s failed", request.service, request.method)
        return connection.reply_error(event.stream_id, Code.UNKNOWN, str(error) or repr(error))


def _refuse(stream_id: int, code: Code, text: str) -> RequestRefused:
    message = _encode_error(stream_id, code, text)
    return RequestRefused(stream_id=stream_id, code=code, text=text, message=message)


def _encode_error(stream_id: int, code: Code, text: str) -> bytes:
    # Go refuses the whole reply when its text is not UTF-8.
    truncated = text.encode("utf-8", "replace")[:MAX_ERROR_TEXT_BYTES].decode("utf-8", "ignore")
    body = encode_response(Response(code=code, message=truncated))
    return encode_frame(stream_id, MessageType.RESPONSE, body)
