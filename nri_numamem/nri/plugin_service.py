"""The methods that the runtime calls, and the two tables that select them.

A request passes through decode, decide and encode. Each method returns the payload of the reply,
b"" for an empty message. Only CreateContainer, UpdateContainer and Configure have error replies,
and only for a deliberate refusal (Refused): an error reply to another call blocks pods or the
runtime. After an exception the service records it and replies with the method's empty response. It
does the same after a request that takes too long: the limiter ends the request before the timeout,
because a runtime permanently closes a plugin that replies later.
"""

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from google.protobuf.message import DecodeError, Message

from nri_numamem.engine.core.events import Event
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.text import cut, escape
from nri_numamem.engine.records.connection import (
    Configured,
    Created,
    InternalError,
    RequestTimedOut,
    SynchronizeTimedOut,
    SynchronizeTooLarge,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.nri import encode
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.configuration import SUBSCRIBED, Configuration, subscribe
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.messages import created
from nri_numamem.nri.request_ids import RequestIds
from nri_numamem.nri.synchronize_parts import SynchronizeParts, TooLargeError
from nri_numamem.ttrpc import Code, Request, StatusError


class Refused(Exception):  # noqa: N818 - an outcome, not a bug
    """The plugin refuses the request deliberately; the text is that of the error reply."""


class Handler(Protocol):
    """The part of the program that applies the configuration and makes decisions."""

    def configure(self, configuration: Configuration) -> None:
        """Apply the configuration, or log why not and raise Refused."""

    def decide(self, event: Event) -> Plan:
        """Return the plan for the reply; the event is committed after the reply."""


class Overrun(BaseException):
    """A call exceeded its time limit; no Exception, so that no `except Exception` catches it."""


Limiter = Callable[[float, Callable[[], bytes]], bytes]
"""(limit in seconds, call) -> the result of the call; raises Overrun after undoing a call that
exceeds the limit."""


def unlimited(_limit_s: float, call: Callable[[], bytes]) -> bytes:
    """Return the result of the call, without a limit; for tests and programs without a runtime."""
    return call()


# What protobuf's parsers raise for an invalid payload, the second one that in Python.
_INVALID = (DecodeError, UnicodeDecodeError)
# The runtimes' default request timeout, for calls that carry none.
DEFAULT_REQUEST_TIMEOUT_MS = 2000


class PluginService:
    """The methods of NRI's service Plugin, for one connection."""

    def __init__(
        self,
        handler: Handler,
        decoder: Decoder,
        limiter: Limiter = unlimited,
        request_ids: RequestIds | None = None,
        fails_on_timeout: Callable[[], bool] = bool,
    ) -> None:
        self._fails_on_timeout = fails_on_timeout
        self.close_reason: str | None = None
        """Why the plugin must close the connection; None while it need not."""
        self.records: list[Record] = []
        """Records of the protocol, to log after the reply; the engine has those of decisions."""
        self._handler = handler
        self._decoder = decoder
        self._limiter = limiter
        self._request_ids = request_ids or RequestIds()
        self._timeout_s = float("inf")  # from Configure since NRI 0.7
        self._unapplied: bytes | None = None
        """The payload of a Configure whose configuration was not applied."""
        self.parts = SynchronizeParts(decoder)
        self._payload_bytes = 0

    def serve(self, method: "Method", request: Request, _deadline_ns: int | None = None) -> bytes:
        """Serve one call and return the payload of the reply; with a method a ttrpc.Handler.

        The effective timeout is the smaller of that of the request, if it carries one, and the
        runtime's plugin_request_timeout from Configure. The limiter needs the remaining time and
        not the deadline, so no clock is read. Raise StatusError for an invalid payload and for a
        refusal.
        """
        call_timeout_s = request.timeout_ns / 1e9 or DEFAULT_REQUEST_TIMEOUT_MS / 1000
        limit_s = method.timeout_fraction * min(self._timeout_s, call_timeout_s)
        recorded = len(self.records)
        self._request_ids.number += 1
        if method.request is api.ConfigureRequest:
            self._unapplied = request.payload
        try:
            return self._limiter(limit_s, partial(self._serve, method, request.payload))
        except Overrun as overrun:
            del self.records[recorded:]  # the limiter has undone what they describe
            return self._end_overrun(method, request.payload, limit_s, overrun)

    def _end_overrun(
        self, method: "Method", payload: bytes, limit_s: float, overrun: Overrun
    ) -> bytes:
        name, text, limit_ms = method.name, _traceback_of(overrun), round(limit_s * 1000)
        if method.request is api.SynchronizeRequest:
            # Without it the accounting would be outdated, and containers would be placed on memory
            # that is in use. A new connection gets a new Synchronize.
            self.close_reason = f"Synchronize took longer than {limit_ms} ms"
            self._record(SynchronizeTimedOut(method=name, limit_ms=limit_ms, exception=text))
            return method.empty_response
        names = _created_by(method, payload)
        self._record(RequestTimedOut(method=name, limit_ms=limit_ms, exception=text, created=names))
        return method.empty_response

    def _serve(self, method: "Method", payload: bytes) -> bytes:
        self._payload_bytes = len(payload)
        try:
            message = method.request.FromString(payload)
        except _INVALID as error:
            raise StatusError(Code.INTERNAL, f"the payload is not a {method.name}") from error
        try:
            return method.serve(self, message)
        except Refused as refused:
            raise StatusError(Code.UNKNOWN, escape(cut(str(refused)))) from refused
        except Exception as error:  # noqa: BLE001 - a bug must not block the node's pods
            names, text = _created_by(method, payload), _traceback_of(error)
            self._record(InternalError(method=method.name, exception=text, created=names))
            return method.empty_response

    def _record(self, record: Record) -> None:
        self.records.append(replace(record, request_id=self._request_ids.current))

    def take_unapplied(self) -> Configuration | None:
        """Return the configuration that Configure did not apply, if any; once.

        Its reply came first, after a bug or when the time limit was over.
        """
        payload, self._unapplied = self._unapplied, None
        if payload is None:
            return None
        try:
            configuration = self._read_configuration(api.ConfigureRequest.FromString(payload))
        except _INVALID:
            return None  # an error reply was sent
        self._record(Configured(runtime=configuration.names))
        return configuration

    def configure(self, request: api.ConfigureRequest) -> bytes:
        """Apply the configuration; reply with the subscription."""
        configuration = self._read_configuration(request)
        try:
            self._handler.configure(configuration)
        except Refused:
            self._unapplied = None
            raise
        self._unapplied = None
        self._record(Configured(runtime=configuration.names))
        return subscribe(configuration, fails_on_timeout=self._fails_on_timeout())

    def _read_configuration(self, request: api.ConfigureRequest) -> Configuration:
        configuration = Configuration.of(request)
        if configuration.request_timeout_ms is not None:
            self._timeout_s = configuration.request_timeout_ms / 1000
        self._decoder.keeps_updates = configuration.runtime_name != "cri-o"
        return configuration

    def synchronize(self, request: api.SynchronizeRequest) -> bytes:
        """Collect the parts; reply to the last part with the updates."""
        try:
            self.parts.add(request, self._payload_bytes)
        except TooLargeError as error:
            self.close_reason = str(error)
            self._record(SynchronizeTooLarge(cause=str(error)))
            return b""
        if request.more:
            # The reply must repeat `more` and have no updates, or the runtime closes the plugin.
            return api.SynchronizeResponse(more=True).SerializeToString()
        plan = self._handler.decide(self.parts.take(keeps_updates=self._decoder.keeps_updates))
        return api.SynchronizeResponse(update=encode.updates_of(plan)).SerializeToString()

    def create_container(self, request: api.CreateContainerRequest) -> bytes:
        """Reply with an adjustment or an empty message, or refuse the container."""
        plan = self._handler.decide(self._decoder.create_container(request))
        if plan.refusal is not None:
            raise Refused(plan.refusal)
        return encode.create_container_response(plan).SerializeToString()

    def update_container(self, request: api.UpdateContainerRequest) -> bytes:
        """Reply with updates of other containers, or refuse the update."""
        plan = self._handler.decide(self._decoder.update_container(request))
        if plan.refusal is not None:
            raise Refused(plan.refusal)
        return api.UpdateContainerResponse(update=encode.updates_of(plan)).SerializeToString()

    def stop_container(self, request: api.StopContainerRequest) -> bytes:
        """Reply with updates of other containers."""
        plan = self._handler.decide(self._decoder.stop_container(request))
        return api.StopContainerResponse(update=encode.updates_of(plan)).SerializeToString()

    def apply(self, decode: "Decode", request: Message) -> bytes:
        """Apply an event that changes no container; reply with an empty message."""
        self._handler.decide(decode(self._decoder, request))
        return b""

    def state_change(self, request: api.StateChangeEvent) -> bytes:
        """Apply an event of NRI <= 0.11, which has its own call since NRI 0.12."""
        decode = STATE_CHANGES.get(request.event)
        return b"" if decode is None else self.apply(decode, request)


def _created_by(method: "Method", payload: bytes) -> Created | None:
    """Return the names of the container that an empty reply starts unpinned, if it starts one."""
    if method.request is api.CreateContainerRequest:
        with suppress(*_INVALID):
            return created(api.CreateContainerRequest.FromString(payload))
    return None


def _traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its request message, the function that serves it, and its limits."""

    request: type[Message]
    serve: Callable[[PluginService, Any], bytes] = lambda _service, _request: b""
    """By default an empty reply, to a call outside of the subscription."""
    empty_response: bytes = b""
    """The reply that changes nothing. For Configure it is the subscription, because an empty
    message subscribes to all events."""
    timeout_fraction: float = 0.6
    """Fraction of the request timeout available for computing; the rest covers transport."""

    @property
    def name(self) -> str:
        """The name of the request message, for records and errors."""
        return self.request.DESCRIPTOR.name


Decode = Callable[[Decoder, Any], Event]
"""Decodes a message that has the field `pod`, and `container` if the event is about one."""


def _applied(request: type[Message], decode: Decode) -> Method:
    return Method(request, lambda service, message: service.apply(decode, message))


METHODS = {
    "Configure": Method(api.ConfigureRequest, PluginService.configure, SUBSCRIBED),
    # A larger fraction, because an Overrun ends the connection like a late reply.
    "Synchronize": Method(api.SynchronizeRequest, PluginService.synchronize, timeout_fraction=0.9),
    "Shutdown": Method(api.Empty),
    "CreateContainer": Method(api.CreateContainerRequest, PluginService.create_container),
    "UpdateContainer": Method(api.UpdateContainerRequest, PluginService.update_container),
    "StopContainer": Method(api.StopContainerRequest, PluginService.stop_container),
    "StateChange": Method(api.StateChangeEvent, PluginService.state_change),
    "RunPodSandbox": _applied(api.RunPodSandboxRequest, Decoder.run_pod_sandbox),
    "StopPodSandbox": _applied(api.StopPodSandboxRequest, Decoder.stop_pod_sandbox),
    "RemovePodSandbox": _applied(api.RemovePodSandboxRequest, Decoder.remove_pod_sandbox),
    "RemoveContainer": _applied(api.RemoveContainerRequest, Decoder.remove_container),
    "UpdatePodSandbox": _applied(api.UpdatePodSandboxRequest, Decoder.update_pod_sandbox),
    # Without a subscription. One UNIMPLEMENTED makes NRI >= 0.12 fall back to StateChange forever.
    "PostUpdatePodSandbox": Method(api.PostUpdatePodSandboxRequest),
    "PostCreateContainer": Method(api.PostCreateContainerRequest),
    "StartContainer": Method(api.StartContainerRequest),
    "PostStartContainer": Method(api.PostStartContainerRequest),
    "PostUpdateContainer": Method(api.PostUpdateContainerRequest),
    "ValidateContainerAdjustment": Method(api.ValidateContainerAdjustmentRequest),
}

# Events that NRI <= 0.11 sends as StateChange, whose message has the fields `pod` and `container`.
STATE_CHANGES: dict[int, Decode] = {
    api.RUN_POD_SANDBOX: Decoder.run_pod_sandbox,
    api.STOP_POD_SANDBOX: Decoder.stop_pod_sandbox,
    api.REMOVE_POD_SANDBOX: Decoder.remove_pod_sandbox,
    api.REMOVE_CONTAINER: Decoder.remove_container,
}
