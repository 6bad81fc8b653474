"""How a call or a connection fails: status codes and the tree of errors.

    TtrpcError
    ├── StatusError            the answer to one call is a status; the connection goes on
    ├── ConnectionClosed       the connection ended before the answer came
    └── ProtocolError
        ├── LocalProtocolError    we were asked to do what the protocol forbids: a bug here
        └── RemoteProtocolError   the peer sent what the protocol forbids

Knows nothing of bytes. Running out of time is Python's own ``TimeoutError``, which only the
shells that own a clock can raise.
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
        """Return the code with this number; UNKNOWN for one that has no name."""
        return _BY_NUMBER.get(number, cls.UNKNOWN)


_BY_NUMBER = {int(code): code for code in Code}


class TtrpcError(Exception):
    """Base of every error of this package."""


class StatusError(TtrpcError):
    """A call answered with a status other than OK.

    A client's caller catches it; a server's handler raises it to choose code and text.
    ValueError when `code` is OK, because a success is no error.
    """

    def __init__(self, code: Code, message: str = "") -> None:
        if code == Code.OK:
            raise ValueError("a StatusError needs a code other than OK")
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        """Return the text for people, with the code's name."""
        return f"{self.message} ({self.code.name})" if self.message else self.code.name


class ConnectionClosed(TtrpcError):  # noqa: N818 - the field's word for it
    """The connection ended, by either side; calls without an answer may have been executed."""


class ProtocolError(TtrpcError):
    """Somebody broke the protocol; which side tells the subclass."""


class LocalProtocolError(ProtocolError):
    """The caller asked for something that the protocol forbids: a bug on this side."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol forbids."""
