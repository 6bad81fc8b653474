"""The calling end of a ttrpc connection, without I/O: calls in, bytes out; bytes in, events out.

    call(...)               -> (stream id, bytes of one message)
    receive_data(bytes)     -> [ReplyReceived | CallFailed]
    receive_eof()           -> [CallFailed]

The bytes of calls are to be written in the order in which they were returned, because stream
ids must increase on the wire. Replies come in any order. Nothing here blocks, takes time or
locks: a connection belongs to one thread at a time, and who stops waiting says so with
``abandon``. A reply that cannot be read ends its own call only.
Rules about stream ids and codes: ttrpc PROTOCOL.md and client.go.
"""

from typing import NamedTuple

from nri_numamem.ttrpc.envelope import Metadata, Request, decode_response, encode_request
from nri_numamem.ttrpc.frames import (
    MAX_BODY_BYTES,
    MAX_SEND_BYTES,
    MAX_STREAM_ID,
    BytesLike,
    Frame,
    FrameParser,
    MessageType,
    OversizeFrame,
    encode_frame,
)
from nri_numamem.ttrpc.status import (
    Code,
    ConnectionClosed,
    RemoteProtocolError,
    StatusError,
    TtrpcError,
)


class ReplyReceived(NamedTuple):
    """The call with this stream id succeeded."""

    stream_id: int
    payload: bytes


class CallFailed(NamedTuple):
    """The call with this stream id is over: StatusError, RemoteProtocolError, ConnectionClosed."""

    stream_id: int
    error: TtrpcError


class ClientConnection:
    """The end that calls.

    `max_body_bytes` bounds the replies that are taken, `max_send_bytes` the requests.
    """

    def __init__(
        self, *, max_body_bytes: int = MAX_BODY_BYTES, max_send_bytes: int = MAX_SEND_BYTES
    ) -> None:
        self.max_send_bytes = max_send_bytes
        self.dropped_messages = 0
        """How many messages answered no call that was waiting, and were ignored."""
        self._parser = FrameParser(max_body_bytes)
        self._next_stream_id = 1
        self._pending: dict[int, None] = {}  # a set that keeps the order of the calls
        self._closed = False

    def call(
        self,
        service: str,
        method: str,
        payload: bytes = b"",
        *,
        timeout_ns: int = 0,
        metadata: Metadata = (),
    ) -> tuple[int, bytes]:
        """Return the call's stream id and the message to be sent.

        `timeout_ns` only tells the server how much time there is, 0 for no limit. Raises
        StatusError (code 8) for a request over `max_send_bytes`; ConnectionClosed after
        ``receive_eof``, and when all stream ids are used up; ValueError for a string that
        cannot be UTF-8. A call that raised has not happened.
        """
        if self._closed:
            raise ConnectionClosed("the connection is closed")
        stream_id = self._next_stream_id
        if stream_id > MAX_STREAM_ID:
            raise ConnectionClosed("all stream ids are used up: open a new connection")
        body = encode_request(Request(service, method, payload, timeout_ns, metadata))
        if len(body) > self.max_send_bytes:
            raise StatusError(
                Code.RESOURCE_EXHAUSTED,
                f"request of {len(body)} bytes is over the limit of {self.max_send_bytes}",
            )
        message = encode_frame(stream_id, MessageType.REQUEST, body)
        self._next_stream_id += 2
        self._pending[stream_id] = None
        return stream_id, message

    def abandon(self, stream_id: int) -> None:
        """Stop waiting for a call; its reply, should it come, is dropped. Harmless if it came."""
        self._pending.pop(stream_id, None)

    def receive_data(self, data: BytesLike) -> list[ReplyReceived | CallFailed]:
        """Take bytes from the server; return the outcome of the calls that they end."""
        events: list[ReplyReceived | CallFailed] = []
        for frame in self._parser.feed(data):
            known = frame.message_type in (MessageType.RESPONSE, MessageType.DATA)
            if not known or frame.stream_id not in self._pending:
                self.dropped_messages += 1
                continue
            del self._pending[frame.stream_id]
            events.append(self._outcome(frame))
        return events

    def receive_eof(self) -> list[CallFailed]:
        """Note that the byte stream ended, wherever; return the end of all waiting calls."""
        self._closed = True
        failed = [
            CallFailed(stream_id, ConnectionClosed("the connection was closed before the reply"))
            for stream_id in self._pending
        ]
        self._pending.clear()
        return failed

    def _outcome(self, frame: Frame | OversizeFrame) -> ReplyReceived | CallFailed:
        stream_id = frame.stream_id
        if isinstance(frame, OversizeFrame):
            limit = self._parser.max_body_bytes
            text = f"reply of {frame.body_bytes} bytes is over the limit of {limit}"
            return CallFailed(stream_id, StatusError(Code.RESOURCE_EXHAUSTED, text))
        if frame.message_type == MessageType.DATA:
            error = RemoteProtocolError("the server streams data as the answer to a unary call")
            return CallFailed(stream_id, error)
        try:
            response = decode_response(frame.body)
        except RemoteProtocolError as error:
            return CallFailed(stream_id, error)
        if response.code != Code.OK:
            status = StatusError(Code.of(response.code), response.message)
            return CallFailed(stream_id, status)
        return ReplyReceived(stream_id, response.payload)
