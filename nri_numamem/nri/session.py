"""A plugin's session with the runtime, from registration to end of file: bytes in, bytes out.

The multiplexer carries two ttrpc connections: the runtime calls us on the one, we call it on the
other (only RegisterPlugin; ``UpdateContainers`` can deadlock a runtime older than NRI 0.12.1).
Order on the wire: we register, the runtime configures us (perhaps before it answers the
registration), then synchronizes us, perhaps in parts (launched plugins of NRI <= 0.6.1: never),
then calls. Nothing here waits for anything, so any order is served.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from nri_numamem.engine.plan import Record, flattened
from nri_numamem.nri import plugin_pb2 as api
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.methods import (
    METHODS,
    Handler,
    Limiter,
    Method,
    PluginMethods,
    unlimited,
)
from nri_numamem.nri.mux import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    Demultiplexer,
    frame_message,
)
from nri_numamem.ttrpc import (
    CallFailed,
    ClientConnection,
    ReplyReceived,
    Request,
    RequestRefused,
    ServerConnection,
    answer,
)

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"

# Old runtimes send Synchronize unsplit (12 MB seen, their own limit is 16 MiB).
MAX_MESSAGE_BYTES = 64 << 20

_Call: TypeAlias = Callable[[Request, int | None], bytes]
Timed: TypeAlias = Callable[[str, _Call], _Call]
"""(method, call) -> a call that does the same, and is measured."""


def untimed(_method: str, call: _Call) -> _Call:
    """Measure nothing."""
    return call


class PluginSession:
    """One registration with one runtime over one connection."""

    def __init__(
        self,
        handler: Handler,
        decoder: Decoder,
        *,
        plugin_name: str,
        plugin_idx: str,
        limiter: Limiter = unlimited,
        timed: Timed = untimed,
    ) -> None:
        self.registered = False
        self._refusal: str | None = None
        self._methods = PluginMethods(handler, decoder, limiter)
        self._name = plugin_name
        self._idx = plugin_idx
        conn_ids = (PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN)
        self._mux = Demultiplexer(conn_ids, max_payload_bytes=MAX_MESSAGE_BYTES)
        self._server = ServerConnection(max_body_bytes=MAX_MESSAGE_BYTES)
        self._client = ClientConnection(max_body_bytes=MAX_MESSAGE_BYTES)
        self._services = {
            PLUGIN_SERVICE: {
                name: timed(name, partial(self._serve, method)) for name, method in METHODS.items()
            }
        }

    @property
    def finished(self) -> bool:
        """Tell whether the connection is to be closed from our side."""
        return self.refused is not None

    @property
    def refused(self) -> str | None:
        """Why it is to be closed: the runtime refused the registration, or we gave up."""
        return self._refusal or self._methods.gave_up

    def take_records(self) -> list[Record]:
        """Return what is to be logged since the last call; some of it is only made here."""
        told, self._methods.records = self._methods.records, []
        return flattened(told)

    def after_replies(self) -> None:
        """Do what no reply has to wait for; to be called when they were sent."""
        self._methods.parts.settle()

    def start(self) -> bytes:
        """Return the bytes that register the plugin. To be called once."""
        request = api.RegisterPluginRequest(plugin_name=self._name, plugin_idx=self._idx)
        _, message = self._client.call(
            RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString()
        )
        return frame_message(RUNTIME_SERVICE_CONN, message)

    def receive_data(self, data: bytes | memoryview) -> bytes:
        """Take what was read from the socket; return what is to be written to it.

        Nothing of `data` is looked at afterwards.
        Raises nri.mux.MuxError when the peer speaks something else; the connection is to be
        closed then.
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
                    reply = answer(self._server, self._services, event, now_ns=0)
                out.append(frame_message(PLUGIN_SERVICE_CONN, reply))
        return b"".join(out)

    def _serve(self, method: Method, request: Request, _deadline_ns: int | None) -> bytes:
        # What counts is how much time is left, not when it ends: no clock has to be read.
        return self._methods.serve(method, request.payload, request.timeout_ns / 1e9)

    def _end_registration(self, outcome: ReplyReceived | CallFailed) -> None:
        if isinstance(outcome, CallFailed):
            self._refusal = str(outcome.error)
        else:
            self.registered = True
