"""A client and a server connected in memory, for tests of programs that use this package.

There are no sockets, threads or clocks. The connections are those of production code, so a test
includes the codec, the limits and the rules for stream ids.
"""

from nri_numamem.ttrpc.client import CallFailed, ClientConnection
from nri_numamem.ttrpc.envelope import Metadata
from nri_numamem.ttrpc.server import (
    RequestReceived,
    ServerConnection,
    Services,
    handle_request,
)


class ConnectionPair:
    """A client connected to a server with `services`.

    `piece_bytes` is the size of the pieces in which each side receives bytes, 0 for whole messages.
    `client`, `server` and `now_ns` (the clock of the handlers' deadlines) may be used directly.
    `requests` and `replies` contain all messages of each direction.
    """

    def __init__(
        self,
        services: Services,
        *,
        client: ClientConnection | None = None,
        server: ServerConnection | None = None,
        piece_bytes: int = 0,
    ) -> None:
        self.services = services
        self.client = client or ClientConnection()
        self.server = server or ServerConnection()
        self.now_ns = 0
        self.requests: list[bytes] = []
        self.replies: list[bytes] = []
        self._piece_bytes = piece_bytes

    def call(
        self,
        service: str,
        method: str,
        payload: bytes = b"",
        *,
        timeout_ns: int = 0,
        metadata: Metadata = (),
    ) -> bytes:
        """Call a method and return the payload of the reply; raise the error of a failed call."""
        stream_id, message = self.client.call(
            service, method, payload, timeout_ns=timeout_ns, metadata=metadata
        )
        outcomes = {
            event.stream_id: event
            for reply in self.to_server(message)
            for piece in self._pieces(reply)
            for event in self.client.receive_data(piece)
        }
        event = outcomes[stream_id]
        if isinstance(event, CallFailed):
            raise event.error
        return event.payload

    def to_server(self, data: bytes) -> list[bytes]:
        """Pass bytes, valid or not, to the server; return its replies."""
        self.requests.append(data)
        replies = [
            handle_request(self.server, self.services, event, self.now_ns)
            if isinstance(event, RequestReceived)
            else event.message
            for piece in self._pieces(data)
            for event in self.server.receive_data(piece)
        ]
        self.replies += replies
        return replies

    def _pieces(self, data: bytes) -> list[bytes]:
        step = self._piece_bytes or max(len(data), 1)
        return [data[at : at + step] for at in range(0, len(data), step)]
