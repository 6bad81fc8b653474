"""A blocking call on a Unix socket.

Each call has a connection of its own: nothing is left to repair after a restart of the server, and
a connection costs less than the reply of a kubelet. ``ClientCall`` is the call without I/O:

    data_to_send()                        -> bytes for the server
    receive_data(bytes), receive_eof()
    outcome                               -> payload or StatusError, when the call has ended
"""

import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings

from nri_numamem.grpc.wire import (
    CONTENT_TYPE,
    FrameLimit,
    Headers,
    MessageReader,
    Outgoing,
    decode_text,
    encode_message,
    encode_timeout,
    header,
)
from nri_numamem.ttrpc.status import Code, StatusError

MAX_REPLY_BYTES: Final = 16 << 20
"""What clients of the kubelet accept; 250 pods have some 100 kB."""

_READ_BYTES = 64 << 10
_CONNECT_PAUSE_S = 0.01
# Bytes that the server may send before this side confirms them.
_WINDOW_BYTES: Final = 1 << 20

# The status of a reply without grpc-status.
_OF_HTTP: Final = {
    b"400": Code.INTERNAL,
    b"401": Code.UNAUTHENTICATED,
    b"403": Code.PERMISSION_DENIED,
    b"404": Code.UNIMPLEMENTED,
    b"429": Code.UNAVAILABLE,
    b"502": Code.UNAVAILABLE,
    b"503": Code.UNAVAILABLE,
    b"504": Code.UNAVAILABLE,
}
# The status of a stream that the server has reset.
_OF_RESET: Final = {
    ErrorCodes.REFUSED_STREAM: Code.UNAVAILABLE,
    ErrorCodes.CANCEL: Code.CANCELLED,
    ErrorCodes.ENHANCE_YOUR_CALM: Code.RESOURCE_EXHAUSTED,
    ErrorCodes.INADEQUATE_SECURITY: Code.PERMISSION_DENIED,
}


def call(
    path: Path,
    method: str,
    payload: bytes = b"",
    *,
    timeout_s: float,
    limit_bytes: int = MAX_REPLY_BYTES,
) -> bytes:
    """Call a method of the server at a socket file; return the payload of the reply.

    Raises StatusError, after `timeout_s` at the latest.
    """
    deadline_s = time.monotonic() + timeout_s
    one = ClientCall(method, payload, timeout_s=timeout_s, limit_bytes=limit_bytes)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            _connect(sock, path, deadline_s)
            while one.outcome is None:
                _limit(sock, deadline_s)
                sock.sendall(one.data_to_send())
                _limit(sock, deadline_s)
                data = sock.recv(_READ_BYTES)
                if data:
                    one.receive_data(data)
                else:
                    one.receive_eof()
    except TimeoutError as error:
        raise StatusError(Code.DEADLINE_EXCEEDED, f"no reply in {timeout_s:g} s") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StatusError(Code.UNAVAILABLE, reason) from error
    if isinstance(one.outcome, StatusError):
        raise one.outcome
    return one.outcome


def _connect(sock: socket.socket, path: Path, deadline_s: float) -> None:
    while True:
        _limit(sock, deadline_s)
        try:
            sock.connect(os.fspath(path))
        except BlockingIOError:  # the server's backlog is full
            time.sleep(_CONNECT_PAUSE_S)
        else:
            return


def _limit(sock: socket.socket, deadline_s: float) -> None:
    """Limit the next operation; raise TimeoutError after the deadline."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    sock.settimeout(left_s)


class ClientCall:
    """One call; `limit_bytes` is the largest message that is accepted as its reply."""

    def __init__(self, method: str, payload: bytes, *, timeout_s: float, limit_bytes: int) -> None:
        self.outcome: bytes | StatusError | None = None
        self._reader = MessageReader(limit_bytes)
        self._limit = FrameLimit()
        self._status = b"200"
        self._trailers: Headers = ()
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        values = {SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES}
        self._h2.local_settings = Settings(client=True, initial_values=values)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW_BYTES)
        self._stream_id = self._h2.get_next_available_stream_id()
        headers = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", method.encode("ascii")),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", CONTENT_TYPE),
            (b"user-agent", b"nri-numamem"),
            (b"grpc-timeout", encode_timeout(timeout_s)),
        ]
        self._h2.send_headers(self._stream_id, headers)
        self._outgoing = Outgoing(self._h2)
        self._outgoing.add(self._stream_id, encode_message(payload))

    def data_to_send(self) -> bytes:
        """Return the bytes to send now; each byte once."""
        self._outgoing.send_what_fits()
        return self._h2.data_to_send()

    def receive_data(self, data: bytes) -> None:
        """Process bytes from the server."""
        try:
            events = self._h2.receive_data(data)
            self._limit.feed(data)
            self._process(events)
        except H2Error as error:
            self._end(StatusError(Code.INTERNAL, f"the peer breaks HTTP/2: {error}"))
        except StatusError as error:
            self._end(error)

    def receive_eof(self) -> None:
        """Process the end of the byte stream."""
        self._end(StatusError(Code.UNAVAILABLE, "the peer closed the connection before the reply"))

    def _end(self, outcome: bytes | StatusError) -> None:
        if self.outcome is None:
            self.outcome = outcome

    def _process(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, ResponseReceived):
                self._status = header(event.headers, b":status") or b""
                self._trailers = event.headers  # those of a reply without messages
            elif isinstance(event, DataReceived):
                self._h2.acknowledge_received_data(event.flow_controlled_length, self._stream_id)
                if self._status == b"200":  # else a text for people
                    self._reader.feed(event.data)
            elif isinstance(event, TrailersReceived):
                self._trailers = event.headers
            elif isinstance(event, StreamEnded):
                self._end(self._result())
            elif isinstance(event, StreamReset):
                self._end(_reset(event.error_code))
            elif isinstance(event, ConnectionTerminated):
                text = f"the peer ends the connection (error {event.error_code})"
                self._end(StatusError(Code.UNAVAILABLE, text))

    def _result(self) -> bytes:
        number = header(self._trailers, b"grpc-status")
        if number is None:
            code = Code.UNKNOWN
            if self._status != b"200":
                code = _OF_HTTP.get(self._status, Code.UNKNOWN)
            text = f"reply without grpc-status, HTTP status {self._status.decode('latin-1'):.20}"
            raise StatusError(code, text)
        if number == b"0":
            return self._reader.finish()
        # An invalid number is an unknown status.
        code = Code.of(int(number)) if number.isdigit() and len(number) <= 3 else Code.UNKNOWN
        text = decode_text(header(self._trailers, b"grpc-message") or b"")
        raise StatusError(Code.UNKNOWN if code is Code.OK else code, text)


def _reset(number: int | None) -> StatusError:
    code = _OF_RESET.get(number, Code.INTERNAL)  # type: ignore[call-overload]
    return StatusError(code, f"the peer ended the call with HTTP/2 error {number}")
