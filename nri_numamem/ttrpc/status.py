"""Status codes and errors.

    TtrpcError
    ├── StatusError            a call has an error reply; the connection continues
    ├── ConnectionClosed       the connection ended before the reply
    └── ProtocolError
        ├── LocalProtocolError    the caller of this package broke the protocol: a bug
        └── RemoteProtocolError   the peer broke the protocol

Timeouts are Python's ``TimeoutError``; only the blocking ``Client`` raises them.
"""

from enum import IntEnum


class Code(IntEnum):
    """The status codes of gRPC, which ttrpc shares (google/rpc/code.proto)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @classmethod
    def of(cls, number: int) -> "Code":
        """Return the code with this number, UNKNOWN for an undefined number."""
        return _BY_NUMBER.get(number, cls.UNKNOWN)


_BY_NUMBER = {int(code): code for code in Code}


class TtrpcError(Exception):
    """Base of every error of this package."""


class StatusError(TtrpcError):
    """An error reply: a status other than OK.

    ``Client.call`` raises it; a server's handler raises it to choose code and text of the reply.
    The constructor raises ValueError for the code OK.
    """

    def __init__(self, code: Code, message: str = "") -> None:
        if code == Code.OK:
            raise ValueError("a StatusError needs a code other than OK")
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        """Return the message with the name of the code."""
        return f"{self.message} ({self.code.name})" if self.message else self.code.name


class ConnectionClosed(TtrpcError):  # noqa: N818 - the usual name
    """Either side ended the connection; the server may have executed calls without a reply."""


class ProtocolError(TtrpcError):
    """One side broke the protocol; the subclass names the side."""


class LocalProtocolError(ProtocolError):
    """The caller of this package broke the protocol: a bug in the caller."""


class RemoteProtocolError(ProtocolError):
    """The peer sent a message that breaks the protocol."""
