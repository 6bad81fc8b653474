"""A client and a server connected in memory, and frames by hand."""

from collections.abc import Callable

from nri_numamem.grpc.client import ClientCall
from nri_numamem.grpc.server_connection import Request, ServerConnection
from nri_numamem.ttrpc.status import StatusError

METHOD = "/test.Echo/Echo"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return an HTTP/2 frame (RFC 9113, section 4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big")
    return head + payload


SETTINGS = frame(4, 0, 0)


def pieces(data: bytes, step: int) -> list[bytes]:
    """Return the data in pieces of `step` bytes; 0 for one piece."""
    size = step or max(len(data), 1)
    return [data[at : at + size] for at in range(0, len(data), size)]


def received(server: ServerConnection, data: bytes) -> list[Request]:
    """Give bytes to a server; return the calls that wait then."""
    server.receive_data(data)
    found = []
    while server.has_request:
        found.append(server.take_request())
    return found


def exchange(
    client: ClientCall,
    server: ServerConnection,
    handle: Callable[[Request], bytes],
    *,
    step: int = 0,
) -> None:
    """Pass bytes between both sides until neither has any; `handle` may raise StatusError."""
    while True:
        to_server = client.data_to_send()
        for piece in pieces(to_server, step):
            for request in received(server, piece):
                try:
                    server.reply(request, handle(request))
                except StatusError as error:
                    server.reply_error(request, error)
        to_client = server.data_to_send()
        for piece in pieces(to_client, step):
            client.receive_data(piece)
        if not to_server and not to_client:
            return


def no_bug(_method: str, error: Exception) -> None:
    """Fail the call whose handler has a bug: its connection ends without a reply."""
    raise error
