"""The client side of a ttrpc connection, without I/O.

    call(...)               -> (stream id, bytes of one message)
    receive_data(bytes)     -> [ReplyReceived | CallFailed]
    receive_eof()           -> [CallFailed]

The caller writes the messages in the order of the calls, because stream ids must increase on the
wire. Replies arrive in any order. No method blocks, reads a clock or locks: one thread at a time
uses a connection. ``abandon`` ends the wait for a reply. An invalid reply ends only its own call.
Source of the rules for stream ids and codes: ttrpc PROTOCOL.md and client.go.
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
    """The call with this stream id failed: StatusError, RemoteProtocolError, ConnectionClosed."""

    stream_id: int
    error: TtrpcError


class ClientConnection:
    """The client side of one connection.

    `max_body_bytes` is the limit for replies, `max_send_bytes` the limit for requests.
    """

    def __init__(
        self, *, max_body_bytes: int = MAX_BODY_BYTES, max_send_bytes: int = MAX_SEND_BYTES
    ) -> None:
        self.max_send_bytes = max_send_bytes
        self.dropped_messages = 0
        """The number of ignored messages, which are not replies to waiting calls."""
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
        """Return the call's stream id and the message to send.

        The request carries `timeout_ns` for the server, 0 for no limit; the connection does not
        enforce it. Raise StatusError (code 8) for a request over `max_send_bytes`, ConnectionClosed
        after ``receive_eof`` and when all stream ids are used, ValueError for a string that UTF-8
        cannot encode. After an error the connection is unchanged.
        """
        if self._closed:
            raise ConnectionClosed("the connection is closed")
        stream_id = self._next_stream_id
        if stream_id > MAX_STREAM_ID:
            raise ConnectionClosed("all stream ids are used up: open a new connection")
        request = Request(
            service=service,
            method=method,
            payload=payload,
            timeout_ns=timeout_ns,
            metadata=metadata,
        )
        body = encode_request(request)
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
        """Stop waiting for a call; a later reply is ignored. No effect after the reply."""
        self._pending.pop(stream_id, None)

    def receive_data(self, data: BytesLike) -> list[ReplyReceived | CallFailed]:
        """Process bytes from the server; return the outcomes of the calls that they complete."""
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
        """Process the end of the byte stream; return the failures of all waiting calls."""
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
            error = RemoteProtocolError("the server streams data in reply to a unary call")
            return CallFailed(stream_id, error)
        try:
            response = decode_response(frame.body)
        except RemoteProtocolError as error:
            return CallFailed(stream_id, error)
        if response.code != Code.OK:
            status = StatusError(Code.of(response.code), response.message)
            return CallFailed(stream_id, status)
        return ReplyReceived(stream_id, response.payload)
