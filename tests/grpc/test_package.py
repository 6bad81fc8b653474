"""Against grpcio, which is gRPC's own implementation, in both directions."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from nri_numamem.grpc import Code, Server, StatusError, call

GENEROUS_S = 60.0
ECHO, BIG, FAIL, LIMIT = (f"/test.Echo/{name}" for name in ("Echo", "Big", "Fail", "Limit"))
TEXT = "100 % of é\nare gone"
SIZE = 5_000_000


def timeout_of(payload: bytes, timeout_s: float | None) -> bytes:
    return b"none" if timeout_s is None else b"some"


def fail(payload: bytes, timeout_s: float | None) -> bytes:
    raise StatusError(Code.RESOURCE_EXHAUSTED, TEXT)


METHODS = {
    ECHO: lambda payload, _timeout_s: payload,
    BIG: lambda _payload, _timeout_s: bytes(SIZE),
    FAIL: fail,
    "/test.Echo/Timeout": timeout_of,
}


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[grpc.Channel]:
    """Open a channel of grpcio to a server of this project."""
    options = [("grpc.max_receive_message_length", 16 << 20)]
    with (
        Server(tmp_path / "s", METHODS, lambda _method, _error: None),
        grpc.insecure_channel(f"unix://{tmp_path / 's'}", options=options) as one,
    ):
        yield one


def ask(channel: grpc.Channel, method: str, payload: bytes = b"") -> bytes:
    reply = channel.unary_unary(method)(payload, timeout=GENEROUS_S)
    assert isinstance(reply, bytes)
    return reply


def test_grpcio_calls_this_server(channel: grpc.Channel) -> None:
    for payload in (b"", b"hello", bytes(10_000)):
        assert ask(channel, ECHO, payload) == payload
    assert ask(channel, BIG) == bytes(SIZE)
    assert ask(channel, "/test.Echo/Timeout") == b"some"
    assert channel.unary_unary("/test.Echo/Timeout")(b"", wait_for_ready=True) == b"none"


def test_grpcio_calls_this_server_many_times_at_once(channel: grpc.Channel) -> None:
    calls = [channel.unary_unary(ECHO).future(b"%d" % n, timeout=GENEROUS_S) for n in range(200)]
    assert [one.result() for one in calls] == [b"%d" % n for n in range(200)]


@pytest.mark.parametrize(
    ("method", "payload", "code", "text"),
    [
        (FAIL, b"", grpc.StatusCode.RESOURCE_EXHAUSTED, TEXT),
        ("/no/Method", b"", grpc.StatusCode.UNIMPLEMENTED, "unknown method /no/Method"),
        (ECHO, bytes(20_000), grpc.StatusCode.RESOURCE_EXHAUSTED,
         "message of 20000 bytes is over the limit of 16384"),
    ],
)  # fmt: skip
def test_grpcio_reads_the_errors_of_this_server(
    channel: grpc.Channel, method: str, payload: bytes, code: grpc.StatusCode, text: str
) -> None:
    with pytest.raises(grpc.RpcError) as found:
        ask(channel, method, payload)
    assert (found.value.code(), found.value.details()) == (code, text)
    assert ask(channel, ECHO, b"next") == b"next"


class Behaviour(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The methods of a server of grpcio."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        handlers: dict[str, Callable[[bytes, grpc.ServicerContext], bytes]] = {
            ECHO: lambda request, _context: request,
            BIG: lambda _request, _context: bytes(SIZE),
            FAIL: lambda _request, context: context.abort(grpc.StatusCode.NOT_FOUND, TEXT),
            LIMIT: lambda _request, context: b"%d" % math.ceil(context.time_remaining()),
        }
        handler = handlers.get(details.method)
        return handler and grpc.unary_unary_rpc_method_handler(handler)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    """Run a server of grpcio; return its socket."""
    with ThreadPoolExecutor(2) as pool:
        one = grpc.server(pool, handlers=[Behaviour()])
        one.add_insecure_port(f"unix://{tmp_path / 'g'}")
        one.start()
        yield tmp_path / "g"
        one.stop(None).wait()


def test_this_client_calls_grpcio(server: Path) -> None:
    for payload in (b"", b"hello", bytes(300_000)):
        assert call(server, ECHO, payload, timeout_s=GENEROUS_S) == payload
    assert call(server, BIG, timeout_s=GENEROUS_S) == bytes(SIZE)
    assert 0 < int(call(server, LIMIT, timeout_s=GENEROUS_S)) <= GENEROUS_S


def test_this_client_reads_the_errors_of_grpcio(server: Path) -> None:
    with pytest.raises(StatusError) as found:
        call(server, FAIL, timeout_s=GENEROUS_S)
    assert (found.value.code, found.value.message) == (Code.NOT_FOUND, TEXT)
    with pytest.raises(StatusError) as found:
        call(server, "/no/Method", timeout_s=GENEROUS_S)
    assert found.value.code is Code.UNIMPLEMENTED
    with pytest.raises(StatusError, match="over the limit"):
        call(server, BIG, timeout_s=GENEROUS_S, limit_bytes=1000)
