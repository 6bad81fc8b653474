"""The runtime's end of a session, in memory: the multiplexer and ttrpc's own client and server."""

from collections.abc import Callable

from google.protobuf.message import Message

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Plan
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.multiplexer import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    Demultiplexer,
    frame_message,
)
from nri_numamem.nri.plugin_service import Refused
from nri_numamem.nri.session import PLUGIN_SERVICE, PluginSession
from nri_numamem.ttrpc import (
    CallFailed,
    ClientConnection,
    ReplyReceived,
    RequestReceived,
    ServerConnection,
)
from tests.laboratory import api_pb2 as api


class FakeHandler:
    """Records configurations and events; decides by `plan`."""

    def __init__(self) -> None:
        self.configurations: list[Configuration] = []
        self.events: list[events.Event] = []
        self.plan: Callable[[events.Event], Plan] = lambda _event: Plan()
        self.refuse_configuration: str | None = None

    def configure(self, configuration: Configuration) -> None:
        self.configurations.append(configuration)
        if self.refuse_configuration:
            raise Refused(self.refuse_configuration)

    def decide(self, event: events.Event) -> Plan:
        self.events.append(event)
        return self.plan(event)


class RuntimeSide:
    """The runtime's end; `piece_bytes` is the size of the pieces that the plugin receives."""

    def __init__(self, handler: FakeHandler, piece_bytes: int | None = None) -> None:
        self.session = PluginSession(handler, Decoder(), plugin_name="nri-numamem", plugin_idx="10")
        self.client = ClientConnection()
        self.server = ServerConnection()
        self.piece_bytes = piece_bytes
        self._mux = Demultiplexer((PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN))

    def receive(
        self, data: bytes
    ) -> tuple[list[RequestReceived], list[ReplyReceived | CallFailed]]:
        requests: list[RequestReceived] = []
        replies: list[ReplyReceived | CallFailed] = []
        for conn_id, piece in self._mux.receive_data(data):
            if conn_id == RUNTIME_SERVICE_CONN:
                found = self.server.receive_data(piece)
                requests.extend(r for r in found if isinstance(r, RequestReceived))
            else:
                replies.extend(self.client.receive_data(piece))
        return requests, replies

    def send(self, data: bytes) -> bytes:
        size = self.piece_bytes or len(data)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        return b"".join(self.session.receive_data(piece) for piece in pieces)

    def call(self, method: str, request: Message | bytes, service: str = PLUGIN_SERVICE) -> bytes:
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        _, message = self.client.call(service, method, payload)
        _, (reply,) = self.receive(self.send(frame_message(PLUGIN_SERVICE_CONN, message)))
        if isinstance(reply, CallFailed):
            raise reply.error
        return reply.payload


def creation() -> api.CreateContainerRequest:
    request = api.CreateContainerRequest()
    request.pod.id = "sandbox"
    request.container.id = "c"
    request.container.env.extend(f"NAME_{number}=value" for number in range(300))
    return request


class Limits:
    """A limiter that records the limits."""

    def __init__(self) -> None:
        self.limits_s: list[float] = []

    def __call__(self, limit_s: float, call: Callable[[], bytes]) -> bytes:
        self.limits_s.append(limit_s)
        return call()
