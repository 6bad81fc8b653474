"""A plugin's session with the runtime, without I/O: received bytes in, bytes to send out.

The multiplexer carries two ttrpc connections. On one the runtime calls the plugin. On the other the
plugin calls the runtime, only for RegisterPlugin, because ``UpdateContainers`` can deadlock
runtimes before NRI 0.12.1. The usual order is: RegisterPlugin; Configure, which may precede the
reply to RegisterPlugin; Synchronize, possibly in parts (none for launched plugins of NRI <= 0.6.1);
then the calls for pods and containers. The session accepts every order, because it never waits.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from nri_numamem.engine.records.record import Record
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.multiplexer import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    Demultiplexer,
    frame_message,
)
from nri_numamem.nri.plugin_service import (
    METHODS,
    Handler,
    Limiter,
    PluginService,
    unlimited,
)
from nri_numamem.nri.request_ids import RequestIds
from nri_numamem.ttrpc import (
    CallFailed,
    ClientConnection,
    ReplyReceived,
    RequestRefused,
    ServerConnection,
    handle_request,
)
from nri_numamem.ttrpc import Handler as TtrpcHandler

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"

# Runtimes before NRI 0.7 send Synchronize in one message, of up to 16 MiB.
MAX_MESSAGE_BYTES = 64 << 20

Timed: TypeAlias = Callable[[str, TtrpcHandler], TtrpcHandler]
"""(method, call) -> the same call with a measurement of its time."""


def untimed(_method: str, call: TtrpcHandler) -> TtrpcHandler:
    """Return the call without a measurement."""
    return call


class PluginSession:
    """The plugin's end of one connection to a runtime, for one registration."""

    def __init__(
        self,
        handler: Handler,
        decoder: Decoder,
        *,
        plugin_name: str,
        plugin_idx: str,
        limiter: Limiter = unlimited,
        timed: Timed = untimed,
        request_ids: RequestIds | None = None,
        fails_on_timeout: Callable[[], bool] = bool,
    ) -> None:
        self.registered = False
        self._refusal: str | None = None
        self._service = PluginService(handler, decoder, limiter, request_ids, fails_on_timeout)
        self._name = plugin_name
        self._idx = plugin_idx
        conn_ids = (PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN)
        self._mux = Demultiplexer(conn_ids, max_payload_bytes=MAX_MESSAGE_BYTES)
        self._server = ServerConnection(max_body_bytes=MAX_MESSAGE_BYTES)
        self._client = ClientConnection(max_body_bytes=MAX_MESSAGE_BYTES)
        self._services = {
            PLUGIN_SERVICE: {
                name: timed(name, partial(self._service.serve, method))
                for name, method in METHODS.items()
            }
        }

    @property
    def finished(self) -> bool:
        """Whether the plugin must close the connection."""
        return self._refusal is not None or self._service.close_reason is not None

    @property
    def refused(self) -> str | None:
        """The reason for closing: a refused registration or the service's close_reason."""
        return self._refusal or self._service.close_reason

    def take_records(self) -> list[Record]:
        """Return the records since the last call; the caller logs them after the replies."""
        records, self._service.records = self._service.records, []
        return records

    def after_replies(self) -> Configuration | None:
        """Decode the parts of a Synchronize; the caller has sent all replies.

        Return the configuration whose reply came first, if any; the caller applies it, and then
        logs the records.
        """
        self._service.parts.decode_pending()
        return self._service.take_unapplied()

    def start(self) -> bytes:
        """Return the bytes of RegisterPlugin. Call it once, before any other bytes are sent."""
        request = api.RegisterPluginRequest(plugin_name=self._name, plugin_idx=self._idx)
        _, message = self._client.call(
            RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString()
        )
        return frame_message(RUNTIME_SERVICE_CONN, message)

    def receive_data(self, data: bytes | memoryview) -> bytes:
        """Process bytes from the socket; return the bytes to send.

        The session keeps no reference to `data`. Raise multiplexer.MuxError for an invalid frame;
        the caller then closes the connection.
        """
        out: list[bytes] = []
        for conn_id, piece in self._mux.receive_data(data):
            if conn_id == RUNTIME_SERVICE_CONN:
                for outcome in self._client.receive_data(piece):
                    self._end_registration(outcome)
                continue
            for event in self._server.receive_data(piece):
                if isinstance(event, RequestRefused):
                    reply = event.message
                else:
                    reply = handle_request(self._server, self._services, event, now_ns=0)
                out.append(frame_message(PLUGIN_SERVICE_CONN, reply))
        return b"".join(out)

    def _end_registration(self, outcome: ReplyReceived | CallFailed) -> None:
        if isinstance(outcome, CallFailed):
            self._refusal = str(outcome.error)
        else:
            self.registered = True
