"""Codes and the tree of errors."""

import copy

import pytest

from nri_numamem.ttrpc.status import (
    Code,
    ConnectionClosed,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    StatusError,
    TtrpcError,
)


def test_codes_are_those_of_grpc() -> None:
    assert [code.value for code in Code] == list(range(17))
    assert (Code.RESOURCE_EXHAUSTED, Code.UNIMPLEMENTED, Code.INTERNAL) == (8, 12, 13)


@pytest.mark.parametrize(
    ("number", "code"), [(0, Code.OK), (16, Code.UNAUTHENTICATED), (17, Code.UNKNOWN), (-1, 2)]
)
def test_unknown_numbers_become_unknown(number: int, code: Code) -> None:
    assert Code.of(number) is Code(code)


def test_status_error_shows_text_and_code() -> None:
    error = StatusError(Code.NOT_FOUND, "no such pod")
    assert (error.code, error.message) == (Code.NOT_FOUND, "no such pod")
    assert str(error) == "no such pod (NOT_FOUND)"
    assert str(StatusError(Code.ABORTED)) == "ABORTED"
    again = copy.copy(error)
    assert (again.code, again.message) == (error.code, error.message)


def test_ok_is_no_error() -> None:
    with pytest.raises(ValueError, match="other than OK"):
        StatusError(Code.OK)


def test_tree() -> None:
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    for kind in (StatusError, ConnectionClosed, ProtocolError):
        assert issubclass(kind, TtrpcError)
        assert kind is ProtocolError or not issubclass(kind, ProtocolError)
