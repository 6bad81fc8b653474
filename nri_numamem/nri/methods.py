"""The methods that the runtime calls, and the two tables that route to them.

A request goes one way: decode -> handle -> adjust. Each method returns the reply's payload, b""
for the empty message. Only CreateContainer and UpdateContainer may be answered with an error, and
only when the engine means it (Refused); a bug is recorded and answered neutrally, because an error
of any other call wedges pods or the runtime. So is a request that takes too long, because a runtime
gives a plugin up for good that answers late: the limiter ends it before that.
"""

import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from google.protobuf.message import DecodeError, Message

from nri_numamem.engine.events import Event
from nri_numamem.engine.plan import Plan, Record, RecordValue
from nri_numamem.nri import adjust
from nri_numamem.nri import plugin_pb2 as api
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.parts import SynchronizeParts, TooLargeError
from nri_numamem.ttrpc import Code, StatusError
from nri_numamem.values import valueclass

# What we ask to be told. All of it is known to every runtime since NRI 0.2; an unknown bit makes
# the runtime close the connection, and 0 would mean everything, validation included.
SUBSCRIPTION = sum(
    1 << (event - 1)
    for event in (
        api.RUN_POD_SANDBOX,
        api.STOP_POD_SANDBOX,
        api.REMOVE_POD_SANDBOX,
        api.CREATE_CONTAINER,
        api.UPDATE_CONTAINER,
        api.STOP_CONTAINER,
        api.REMOVE_CONTAINER,
    )
)
_SUBSCRIBED = api.ConfigureResponse(events=SUBSCRIPTION).SerializeToString()


@valueclass(frozen=True, slots=True)
class Configuration:
    """What the runtime says when it configures us; None where it is too old to say it."""

    text: str
    runtime_name: str
    runtime_version: str
    nri_version: str | None
    request_timeout_ms: int | None

    @property
    def survives_refusal(self) -> bool:
        """Tell whether a plugin may refuse its configuration without ending the runtime.

        Up to NRI 0.6.1 a launched plugin that fails makes the runtime exit; the timeouts are
        sent since 0.7.0, which only skips the plugin.
        """
        return self.request_timeout_ms is not None


class Refused(Exception):  # noqa: N818 - an outcome, not a bug
    """The request is refused on purpose; the text is the answer."""


class Handler(Protocol):
    """What the methods need from the program around them."""

    def configure(self, configuration: Configuration) -> None:
        """Take the configuration, or raise Refused."""

    def handle(self, event: Event) -> Plan:
        """Answer an event."""


class Overrun(BaseException):
    """A Limiter ends what takes too long; no Exception, so that nobody on the way tolerates it."""


Limiter = Callable[[float, Callable[[], bytes]], bytes]
"""(seconds, call) -> what the call returned; or Overrun, and what the call did is undone."""


def unlimited(_limit_s: float, call: Callable[[], bytes]) -> bytes:
    """Let the call take its time; the limiter of tests and of programs without a runtime."""
    return call()


# What runtimes wait unless they are configured otherwise and tell it with the call.
DEFAULT_REQUEST_TIMEOUT_MS = 2000

_PodRequest: TypeAlias = (
    api.RunPodSandboxRequest
    | api.StopPodSandboxRequest
    | api.RemovePodSandboxRequest
    | api.StateChangeEvent
)
_ContainerRequest: TypeAlias = api.RemoveContainerRequest | api.StateChangeEvent


class PluginMethods:
    """The plugin's service, for one connection."""

    def __init__(self, handler: Handler, decoder: Decoder, limiter: Limiter = unlimited) -> None:
        self.gave_up: str | None = None
        """Why the connection is to be closed from our side."""
        self.records: list[Record | Sequence[Record]] = []
        """What is to be logged; the caller looks at it after it has sent the reply."""
        self._handler = handler
        self._decoder = decoder
        self._limiter = limiter
        self._timeout_s = float("inf")  # NRI < 0.7 does not tell it at configuration
        self.parts = SynchronizeParts(decoder)
        self._keeps_updates, self._payload_bytes = True, 0

    def serve(self, method: "Method", payload: bytes, timeout_s: float | None = None) -> bytes:
        """Answer one call; raises StatusError for garbage and for what is refused on purpose.

        `timeout_s` is the caller's patience, if it told it; the runtime's configured one counts
        as well.
        """
        patience_s = timeout_s or DEFAULT_REQUEST_TIMEOUT_MS / 1000
        limit_s = method.share * min(self._timeout_s, patience_s)
        recorded = len(self.records)
        try:
            return self._limiter(limit_s, lambda: self._serve(method, payload))
        except Overrun as overrun:
            del self.records[recorded:]  # they tell what has been undone
            return self._end_overrun(method, limit_s, overrun)

    def _end_overrun(self, method: "Method", limit_s: float, overrun: Overrun) -> bytes:
        name = method.request.DESCRIPTOR.name
        text = "".join(traceback.format_exception(overrun)).rstrip()
        fields: dict[str, RecordValue] = {"method": name, "limit_ms": round(limit_s * 1000)}
        event = "request took too long, answered neutrally"
        if method.request is api.SynchronizeRequest:
            # Without it the books would be those of another time, and containers would be placed
            # on memory that is in use. Better no plugin for a while.
            self.gave_up = f"Synchronize took longer than {round(limit_s * 1000)} ms"
            event = "Synchronize took too long"
        self.records.append(Record(event, "error", {**fields, "exception": text}))
        return method.neutral

    def _serve(self, method: "Method", payload: bytes) -> bytes:
        message = method.request()
        self._payload_bytes = len(payload)
        try:
            message.ParseFromString(payload)
        except (DecodeError, UnicodeDecodeError) as error:  # the latter by pure-Python protobuf
            text = f"the payload is not a {message.DESCRIPTOR.name}"
            raise StatusError(Code.INTERNAL, text) from error
        try:
            return method.serve(self, message)
        except Refused as refused:
            raise StatusError(Code.UNKNOWN, str(refused)) from refused
        except Exception as error:  # noqa: BLE001 - a bug must not wedge the node
            text = "".join(traceback.format_exception(error)).rstrip()
            fields = {"method": message.DESCRIPTOR.name, "exception": text}
            self.records.append(Record("internal error, answered neutrally", "error", fields))
            return method.neutral

    def configure(self, request: api.ConfigureRequest) -> bytes:
        """Take the configuration; reply with the subscription."""
        configuration = Configuration(
            text=request.config,
            runtime_name=request.runtime_name,
            runtime_version=request.runtime_version,
            nri_version=request.NRI_version or None,
            request_timeout_ms=request.request_timeout or None,
        )
        if configuration.request_timeout_ms is not None:
            self._timeout_s = configuration.request_timeout_ms / 1000
        self._keeps_updates = configuration.runtime_name != "cri-o"
        fields: dict[str, RecordValue] = {
            "runtime": configuration.runtime_name,
            "runtime_version": configuration.runtime_version,
            "nri_version": configuration.nri_version,
        }
        try:
            self._handler.configure(configuration)
        except Refused as refused:
            fields["error"] = str(refused)
            self.records.append(Record("configuration refused", "error", fields))
            raise
        self.records.append(Record("configured by the runtime", fields=fields))
        return _SUBSCRIBED

    def synchronize(self, request: api.SynchronizeRequest) -> bytes:
        """Gather the parts; answer the last one with the updates."""
        try:
            self.parts.add(request, self._payload_bytes)
        except TooLargeError as error:  # and so is any further part
            self.gave_up = str(error)
            self.records.append(Record("Synchronize is too large", "error", {"why": str(error)}))
            return b""
        if request.more:
            # Must be echoed, without updates, or the runtime drops us.
            return api.SynchronizeResponse(more=True).SerializeToString()
        plan = self._handle(self.parts.take(keeps_updates=self._keeps_updates))
        return adjust.synchronize_response(plan).SerializeToString()

    def create_container(self, request: api.CreateContainerRequest) -> bytes:
        """Adjust the container, leave it alone, or refuse it."""
        plan = self._handle(self._decoder.create_container(request))
        return adjust.create_container_response(plan).SerializeToString()

    def update_container(self, request: api.UpdateContainerRequest) -> bytes:
        """Reply to an update, or refuse it; empty leaves it as requested."""
        plan = self._handle(self._decoder.update_container(request))
        return adjust.update_container_response(plan).SerializeToString()

    def stop_container(self, request: api.StopContainerRequest) -> bytes:
        """Note the end of a container."""
        plan = self._handle(self._decoder.stop_container(request))
        return adjust.stop_container_response(plan).SerializeToString()

    def remove_container(self, request: _ContainerRequest) -> bytes:
        """Note the removal of a container."""
        self._handle(self._decoder.remove_container(request))
        return b""

    def run_pod_sandbox(self, request: _PodRequest) -> bytes:
        """Note a new sandbox."""
        self._handle(self._decoder.run_pod_sandbox(request.pod))
        return b""

    def stop_pod_sandbox(self, request: _PodRequest) -> bytes:
        """Note the end of a sandbox."""
        self._handle(self._decoder.stop_pod_sandbox(request.pod))
        return b""

    def remove_pod_sandbox(self, request: _PodRequest) -> bytes:
        """Note the removal of a sandbox."""
        self._handle(self._decoder.remove_pod_sandbox(request.pod))
        return b""

    def state_change(self, request: api.StateChangeEvent) -> bytes:
        """Do what the dedicated call does that NRI <= 0.11 does not have yet."""
        serve = STATE_CHANGES.get(request.event)
        return b"" if serve is None else serve(self, request)

    def nothing(self, _request: Message) -> bytes:
        """Answer what we never subscribed to, so that nobody takes us for unable."""
        return b""

    def _handle(self, event: Event) -> Plan:
        plan = self._handler.handle(event)
        self.records.append(plan.records)
        if plan.refusal is not None:
            raise Refused(plan.refusal)
        return plan


@valueclass(frozen=True, slots=True)
class Method:
    """How a call is served."""

    request: type[Message]
    serve: Callable[[PluginMethods, Any], bytes]
    neutral: bytes = b""
    """The reply that changes nothing; an empty one to Configure would subscribe to everything."""
    share: float = 0.6
    """The part of the runtime's patience that is ours; the rest is for the way there and back."""


METHODS = {
    "Configure": Method(api.ConfigureRequest, PluginMethods.configure, _SUBSCRIBED),
    # Too late is the end of the connection either way, so it is given nearly all the time.
    "Synchronize": Method(api.SynchronizeRequest, PluginMethods.synchronize, share=0.9),
    "Shutdown": Method(api.Empty, PluginMethods.nothing),
    "CreateContainer": Method(api.CreateContainerRequest, PluginMethods.create_container),
    "UpdateContainer": Method(api.UpdateContainerRequest, PluginMethods.update_container),
    "StopContainer": Method(api.StopContainerRequest, PluginMethods.stop_container),
    "StateChange": Method(api.StateChangeEvent, PluginMethods.state_change),
    "RunPodSandbox": Method(api.RunPodSandboxRequest, PluginMethods.run_pod_sandbox),
    "StopPodSandbox": Method(api.StopPodSandboxRequest, PluginMethods.stop_pod_sandbox),
    "RemovePodSandbox": Method(api.RemovePodSandboxRequest, PluginMethods.remove_pod_sandbox),
    "RemoveContainer": Method(api.RemoveContainerRequest, PluginMethods.remove_container),
    # Never subscribed to, yet answered: one UNIMPLEMENTED makes NRI >= 0.12 fall back to
    # StateChange for good.
    "UpdatePodSandbox": Method(api.UpdatePodSandboxRequest, PluginMethods.nothing),
    "PostUpdatePodSandbox": Method(api.PostUpdatePodSandboxRequest, PluginMethods.nothing),
    "PostCreateContainer": Method(api.PostCreateContainerRequest, PluginMethods.nothing),
    "StartContainer": Method(api.StartContainerRequest, PluginMethods.nothing),
    "PostStartContainer": Method(api.PostStartContainerRequest, PluginMethods.nothing),
    "PostUpdateContainer": Method(api.PostUpdateContainerRequest, PluginMethods.nothing),
    "ValidateContainerAdjustment": Method(
        api.ValidateContainerAdjustmentRequest, PluginMethods.nothing
    ),
}

# What NRI <= 0.11 sends as StateChange, whose message has `pod` and `container` as well.
STATE_CHANGES: dict[int, Callable[[PluginMethods, Any], bytes]] = {
    api.RUN_POD_SANDBOX: PluginMethods.run_pod_sandbox,
    api.STOP_POD_SANDBOX: PluginMethods.stop_pod_sandbox,
    api.REMOVE_POD_SANDBOX: PluginMethods.remove_pod_sandbox,
    api.REMOVE_CONTAINER: PluginMethods.remove_container,
}
