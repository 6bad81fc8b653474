"""The server side of one connection, without I/O.

    receive_data(bytes)
    has_request, take_request()              -> Request, the next complete call
    reply(...), reply_error(...)
    data_to_send()                           -> bytes for the client

The connection itself replies to a request without a valid head or message. Complete calls wait
until they are taken; a call that the client cancels before is discarded. Source of the HTTP
statuses: gRPC over HTTP2, "Responses".
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import H2Error, ProtocolError
from h2.settings import SettingCodes, Settings

from nri_numamem.grpc.wire import (
    CONTENT_TYPE,
    FrameLimit,
    Headers,
    MessageReader,
    Outgoing,
    decode_timeout,
    encode_message,
    encode_text,
    header,
)
from nri_numamem.ttrpc.status import Code, StatusError

MAX_REQUEST_BYTES: Final = 16 << 10
"""Requests of most services have a few names."""
MAX_STREAMS: Final = 32
"""Calls of one connection at a time; with the limit above they take at most 0.5 MiB."""
MAX_CANCELLED: Final = 100
"""Cancelled calls of one connection, minus calls with a reply."""
MAX_SETTINGS: Final = 32
"""Different settings of HTTP/2 that a client may send; ``h2`` stores unknown ones too."""

_PREFACE_BYTES: Final = 24


class Request(NamedTuple):
    """A call; it requires one ``reply`` or ``reply_error``."""

    stream_id: int
    method: str
    payload: bytes
    timeout_s: float | None


@dataclass(slots=True)
class _Incoming:
    """A request that is not complete."""

    method: str
    timeout_s: float | None
    reader: MessageReader


class _Connection(H2Connection):
    """HTTP/2 with less memory for each connection."""

    # Ended streams for which late frames are ignored.
    MAX_CLOSED_STREAMS = 8 * MAX_STREAMS
    # As other servers of gRPC. A call has some 300 bytes.
    DEFAULT_MAX_HEADER_LIST_SIZE = 8 << 10


class ServerConnection:
    """The server side of one connection: `streams` calls at a time, each up to `request_bytes`."""

    def __init__(self, request_bytes: int = MAX_REQUEST_BYTES, streams: int = MAX_STREAMS) -> None:
        self.has_ended = False
        """Whether the client ended the connection, broke the protocol or exceeded a limit. The
        caller sends the rest and closes it."""
        self._request_bytes = request_bytes
        self._has_begun = False
        self._limit = FrameLimit(_PREFACE_BYTES)
        self._incoming: dict[int, _Incoming] = {}
        self._waiting: dict[int, Request] = {}
        self._unanswered: set[int] = set()
        """The streams of complete calls without a reply, whether they wait or run."""
        self._cancelled = 0
        self._h2 = _Connection(H2Configuration(client_side=False, header_encoding=None))
        values = {
            SettingCodes.MAX_CONCURRENT_STREAMS: streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: self._h2.DEFAULT_MAX_HEADER_LIST_SIZE,
        }
        self._h2.local_settings = Settings(client=False, initial_values=values)
        self._outgoing = Outgoing(self._h2)
        self._h2.initiate_connection()

    @property
    def unsent_replies(self) -> int:
        """Number of replies with bytes that the client's windows do not allow yet."""
        return len(self._outgoing)

    @property
    def is_idle(self) -> bool:
        """Whether no request is incomplete, no call waits or runs, and all replies are sent."""
        is_busy = self._incoming or self._unanswered or self.unsent_replies
        return self._has_begun and self._limit.is_between_frames and not is_busy

    def data_to_send(self) -> bytes:
        """Return the bytes to send now; each byte once."""
        if not self.has_ended:
            self._outgoing.send_what_fits()
        return self._h2.data_to_send()

    @property
    def has_request(self) -> bool:
        """Whether a complete call waits."""
        return bool(self._waiting)

    def take_request(self) -> Request:
        """Remove and return the call that waits longest; there must be one."""
        return self._waiting.pop(next(iter(self._waiting)))

    def receive_data(self, data: bytes) -> None:
        """Process bytes from the client."""
        try:
            events = self._h2.receive_data(data)
            self._limit.feed(data)
            self._process(events)
        except H2Error:  # h2 has prepared a GOAWAY for most of them
            self._forget_all()
            return
        settings = self._h2.remote_settings
        if self._cancelled > MAX_CANCELLED or len(settings) > MAX_SETTINGS:
            self.end(ErrorCodes.ENHANCE_YOUR_CALM)

    def end(self, error: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """End the connection; the client has to make other calls on another one."""
        self._h2.close_connection(error)
        self._forget_all()

    def reply(self, request: Request, payload: bytes) -> None:
        """Reply; nothing is sent if the client has cancelled the call."""
        if self._is_answered(request):
            return
        headers = [(b":status", b"200"), (b"content-type", CONTENT_TYPE)]
        self._h2.send_headers(request.stream_id, headers)
        trailers = [(b"grpc-status", b"0")]
        self._outgoing.add(request.stream_id, encode_message(payload), trailers)

    def reply_error(self, request: Request, error: StatusError) -> None:
        """Reply with an error; nothing is sent if the client has cancelled the call."""
        if not self._is_answered(request):
            self._h2.send_headers(request.stream_id, _head_of(error), end_stream=True)

    def _is_answered(self, request: Request) -> bool:
        if request.stream_id not in self._unanswered:
            return True
        self._unanswered.discard(request.stream_id)
        self._cancelled = max(0, self._cancelled - 1)
        return False

    def _process(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, RequestReceived):
                self._begin(event.stream_id or 0, event.headers)
            elif isinstance(event, DataReceived):
                self._h2.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id or 0
                )
                self._feed(event.stream_id or 0, event.data)
            elif isinstance(event, StreamEnded):
                self._complete(event.stream_id or 0)
            elif isinstance(event, StreamReset):
                self._cancel(event.stream_id or 0)
            elif isinstance(event, ConnectionTerminated):
                self._forget_all()
                return
            elif isinstance(event, RemoteSettingsChanged):
                self._has_begun = True  # the first frame of each connection

    def _cancel(self, stream_id: int) -> None:
        self._cancelled += 1
        self._incoming.pop(stream_id, None)
        self._waiting.pop(stream_id, None)
        self._unanswered.discard(stream_id)
        self._outgoing.discard(stream_id)

    def _forget_all(self) -> None:
        self.has_ended = True
        self._incoming.clear()
        self._waiting.clear()
        self._unanswered.clear()

    def _begin(self, stream_id: int, headers: Headers) -> None:
        """Process the head of a request."""
        if header(headers, b":method") != b"POST":
            self._refuse(stream_id, [(b":status", b"405"), (b"allow", b"POST")])
            return
        if not (header(headers, b"content-type") or b"").startswith(CONTENT_TYPE):
            self._refuse(stream_id, [(b":status", b"415")])
            return
        timeout = header(headers, b"grpc-timeout")
        try:
            timeout_s = None if timeout is None else decode_timeout(timeout)
        except ValueError as error:
            self._refuse_with(stream_id, StatusError(Code.INTERNAL, str(error)))
            return
        method = (header(headers, b":path") or b"").decode("utf-8", "replace")
        reader = MessageReader(self._request_bytes)
        self._incoming[stream_id] = _Incoming(method, timeout_s, reader)

    def _feed(self, stream_id: int, data: bytes) -> None:
        incoming = self._incoming.get(stream_id)
        if incoming is None:
            return  # the request was refused
        try:
            incoming.reader.feed(data)
        except StatusError as error:
            del self._incoming[stream_id]
            self._refuse_with(stream_id, error)

    def _complete(self, stream_id: int) -> None:
        incoming = self._incoming.pop(stream_id, None)
        if incoming is None:
            return  # the request was refused
        try:
            payload = incoming.reader.finish()
        except StatusError as error:
            self._refuse_with(stream_id, error)
            return
        self._unanswered.add(stream_id)
        self._waiting[stream_id] = Request(stream_id, incoming.method, payload, incoming.timeout_s)

    def _refuse_with(self, stream_id: int, error: StatusError) -> None:
        self._refuse(stream_id, _head_of(error))

    def _refuse(self, stream_id: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Respond to a request that may be incomplete."""
        # The same bytes may have ended or reset the stream already.
        with suppress(ProtocolError):
            self._h2.send_headers(stream_id, headers, end_stream=True)
            self._h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)


def _head_of(error: StatusError) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response that has only a status."""
    return [
        (b":status", b"200"),
        (b"content-type", CONTENT_TYPE),
        (b"grpc-status", b"%d" % error.code),
        (b"grpc-message", encode_text(error.message)),
    ]
