"""A test double for users of this package: a real client and a real server, paired in memory.

No sockets, threads or clock; the two connections are the ones that production code uses, so
whatever passes here also passed the real codec, the limits and the rules about stream ids.
"""

from nri_numamem.ttrpc.client import CallFailed, ClientConnection
from nri_numamem.ttrpc.dispatch import Services, answer
from nri_numamem.ttrpc.envelope import Metadata
from nri_numamem.ttrpc.server import RequestReceived, ServerConnection


class ConnectionPair:
    """A client whose bytes reach a server that answers with `services`, and back.

    `piece_bytes` cuts the bytes of both directions into pieces of that size, 0 for none.
    `client`, `server` and `now_ns` (the clock of the handlers' deadlines) may be used directly;
    `requests` and `replies` record the messages that were exchanged.
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
        """Call a method, return its reply's payload; raises what ends the call otherwise."""
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
        """Give the server bytes, well-formed or not; return its replies."""
        self.requests.append(data)
        replies = [
            answer(self.server, self.services, event, self.now_ns)
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
