"""A plugin as its runtime sees it: registered, configured, synchronized, then called.

Decides, by the runtime's version, which call carries an event, and when a plugin is given up: an
error reply is an answer, but silence, a broken protocol and the end of the stream close it for
good, and what was asked is then treated as if it had no opinion.

Sources: NRI pkg/adaptation/plugin.go and adaptation.go. Knows nothing of stores.
"""

import re
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.runtime_launch import LaunchedProcess
from nri_numamem.nri.runtime_version import RuntimeVersion
from nri_numamem.nri.runtime_wire import PluginWire
from nri_numamem.ttrpc import Code, ConnectionClosed, RemoteProtocolError, StatusError
from nri_numamem.values import valueclass

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"

# plugin.go: what a message may have before Synchronize is split; so few objects go out together
# whatever their size; a part is made smaller by a tenth at least.
SYNC_LIMIT_BYTES = 4 << 20
_FEWEST_OBJECTS_PER_PART = 8
_PART_FILL = 0.9

_NAME = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)
_INDEX = re.compile(r"[0-9]{2}", re.ASCII)

_Reply = TypeVar("_Reply", bound=Message)

# Notifications: the dedicated call of NRI >= 0.12 and its message, whose fields are pod and, for
# containers, container. The messages have no common type that mypy could know.
_DEDICATED: dict[int, tuple[str, Any]] = {
    api.RUN_POD_SANDBOX: ("RunPodSandbox", api.RunPodSandboxRequest),
    api.STOP_POD_SANDBOX: ("StopPodSandbox", api.StopPodSandboxRequest),
    api.REMOVE_POD_SANDBOX: ("RemovePodSandbox", api.RemovePodSandboxRequest),
    api.POST_CREATE_CONTAINER: ("PostCreateContainer", api.PostCreateContainerRequest),
    api.START_CONTAINER: ("StartContainer", api.StartContainerRequest),
    api.POST_START_CONTAINER: ("PostStartContainer", api.PostStartContainerRequest),
    api.POST_UPDATE_CONTAINER: ("PostUpdateContainer", api.PostUpdateContainerRequest),
    api.REMOVE_CONTAINER: ("RemoveContainer", api.RemoveContainerRequest),
}


class PluginGone(Exception):  # noqa: N818 - an outcome
    """The plugin did not get through its start; the text says what was missing."""


@valueclass(frozen=True, slots=True)
class Timeouts:
    """How long the runtime waits; containerd's defaults."""

    registration_s: float = 5.0
    request_s: float = 2.0


class RuntimePlugin:
    """One plugin over one connection."""

    def __init__(
        self,
        wire: PluginWire,
        version: RuntimeVersion,
        timeouts: Timeouts,
        *,
        process: LaunchedProcess | None = None,
        launched_as: str = "",
    ) -> None:
        self.wire = wire
        self.process = process
        self.idx, _, self.name = launched_as.partition("-")
        self.events = 0
        """The mask of events that it subscribed to."""
        self.uses_state_change = not version.has_dedicated_calls
        """Whether notifications go out as StateChange."""
        self.why_closed = ""
        """Why the runtime gave the plugin up; "" while it did not."""
        self.calls: list[str] = []
        """Names of all calls that were made to the plugin."""
        self.timeouts = timeouts
        """How long to wait; may be changed between calls."""
        self._version = version

    @property
    def launched(self) -> bool:
        """Whether the runtime started the plugin itself."""
        return self.process is not None

    def register(self, config: str, *, configure_first: bool) -> None:
        """Wait for the registration, then configure the plugin; PluginGone when that fails.

        A refused registration leaves the connection open, as real runtimes do. With
        `configure_first` Configure is sent before the registration is answered.
        """
        event = self.wire.wait_for_request(self.timeouts.registration_s)
        if event is None or event.request.method != "RegisterPlugin":
            raise PluginGone(self.close("did not register in time"))
        request = api.RegisterPluginRequest()
        request.ParseFromString(event.request.payload)
        problem = self._check_registration(request)
        if problem:
            self.wire.reply_error(event.stream_id, Code.UNKNOWN, problem)
            self.wire.flush(self.timeouts.registration_s)
            raise PluginGone(problem)
        if configure_first:
            self._configure(config)
        self.wire.reply(event.stream_id, b"")
        self.wire.flush(self.timeouts.registration_s)
        if not configure_first:
            self._configure(config)

    def _check_registration(self, request: api.RegisterPluginRequest) -> str:
        """Take name and index, unless the plugin's file gave them; return what is wrong."""
        if self.launched:
            return ""
        if not _INDEX.fullmatch(request.plugin_idx):
            return f"invalid plugin index {request.plugin_idx!r}, must be two digits"
        pattern = _NAME if self._version.checks_plugin_names else re.compile(".+")
        if not pattern.fullmatch(request.plugin_name):
            return f"invalid plugin name {request.plugin_name!r}"
        self.idx, self.name = request.plugin_idx, request.plugin_name
        return ""

    def _configure(self, config: str) -> None:
        request = api.ConfigureRequest(
            config=config,
            runtime_name=self._version.runtime_name,
            runtime_version=self._version.runtime_version,
        )
        if self._version.tells_timeouts:
            request.registration_timeout = round(self.timeouts.registration_s * 1000)
            request.request_timeout = round(self.timeouts.request_s * 1000)
        if self._version.tells_nri_version:
            request.NRI_version = self._version.nri_version_text
        try:
            response = self.call("Configure", request, api.ConfigureResponse)
        except StatusError as error:
            raise PluginGone(self.close(f"did not take its configuration: {error}")) from error
        if response is None:
            raise PluginGone(self.why_closed)
        valid = self._version.event_mask
        unknown = response.events & ~valid
        if unknown:
            raise PluginGone(self.close(f"invalid plugin events: 0x{unknown & 0xFFFFFFFF:x}"))
        self.events = response.events or valid

    def synchronize(
        self,
        pods: Sequence[api.PodSandbox],
        containers: Sequence[api.Container],
        limit_bytes: int = SYNC_LIMIT_BYTES,
    ) -> list[api.ContainerUpdate]:
        """Tell the plugin everything, in parts if need be; return the updates that it asks for.

        PluginGone when it fails. Before NRI 0.7 its connection then stays open, but it is never
        called again.
        """
        deadline = time.monotonic() + self.timeouts.request_s
        parts = self._sync_parts(pods, containers, limit_bytes)
        updates: list[api.ContainerUpdate] = []
        for part in parts:
            try:
                left_s = max(0.0, deadline - time.monotonic())
                response = self.call("Synchronize", part, api.SynchronizeResponse, left_s)
            except StatusError as error:
                raise PluginGone(self._failed_sync(f"did not synchronize: {error}")) from error
            if response is None:
                raise PluginGone(self.why_closed)
            if response.more != part.more or (part.more and response.update):
                text = "plugin does not handle split sync requests"
                raise PluginGone(self._failed_sync(text))
            updates = list(response.update)
        return updates

    def _failed_sync(self, text: str) -> str:
        if self._version.closes_after_failed_synchronize:
            return self.close(text)
        self.events = 0
        self.why_closed = text
        return text

    def _sync_parts(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container], limit_bytes: int
    ) -> list[api.SynchronizeRequest]:
        parts = []
        pods_each, containers_each = len(pods), len(containers)
        while True:
            part = api.SynchronizeRequest(
                pods=pods[:pods_each], containers=containers[:containers_each]
            )
            part.more = len(pods) > pods_each or len(containers) > containers_each
            share = limit_bytes / max(1, part.ByteSize())
            fewest = pods_each + containers_each <= _FEWEST_OBJECTS_PER_PART
            if self._version.splits_synchronize and share < 1 and not fewest:
                pods_each, containers_each = _fewer(pods_each, containers_each, share)
                continue
            parts.append(part)
            if not part.more:
                return parts
            pods, containers = pods[pods_each:], containers[containers_each:]

    def subscribed(self, event: int) -> bool:
        """Whether the plugin is alive and wants the event."""
        return not self.why_closed and bool(self.events & (1 << (event - 1)))

    def notify(
        self,
        event: "api.Event.ValueType",
        pod: api.PodSandbox,
        container: api.Container | None = None,
    ) -> None:
        """Tell the plugin an event, if it subscribed to it; StatusError when it objects."""
        if not self.subscribed(event):
            return
        if not self.uses_state_change:
            method, message = _DEDICATED[event]
            objects = {"pod": pod} if container is None else {"pod": pod, "container": container}
            try:
                self.call(method, message(**objects), api.Empty)
            except StatusError as error:
                if error.code != Code.UNIMPLEMENTED:
                    raise
                self.uses_state_change = True
            else:
                return
        change = api.StateChangeEvent(event=event, pod=pod, container=container)
        self.call("StateChange", change, api.Empty)

    def call(
        self,
        method: str,
        request: Message,
        reply_type: type[_Reply],
        timeout_s: float | None = None,
    ) -> _Reply | None:
        """Call the plugin; None when it had to be given up. StatusError for an error reply."""
        self.calls.append(method)
        if timeout_s is None:
            timeout_s = self.timeouts.request_s
        try:
            payload = self.wire.call(PLUGIN_SERVICE, method, request.SerializeToString(), timeout_s)
        except (ConnectionClosed, RemoteProtocolError, TimeoutError) as error:
            self.close(str(error))
            return None
        reply = reply_type()
        try:
            reply.ParseFromString(payload)
        except DecodeError as error:
            raise StatusError(Code.INTERNAL, f"reply to {method} cannot be decoded") from error
        return reply

    def close(self, why: str) -> str:
        """Close the connection, kill a launched process (NRI >= 0.7); returns `why`."""
        self.why_closed = self.why_closed or why
        self.wire.close()
        if self.process is not None and self._version.kills_closed_plugins:
            self.process.kill()
        return why


def _fewer(pods_each: int, containers_each: int, share: float) -> tuple[int, int]:
    """Return how many objects to try per part after one that was too large.

    Differs from plugin.go in one thing: there a count may become 0, and with it the parts endless.
    """
    share = min(_PART_FILL, share)
    pods_each = max(1, int(pods_each * share))
    containers_each = max(1, int(containers_each * share))
    if pods_each + containers_each < _FEWEST_OBJECTS_PER_PART:
        return _FEWEST_OBJECTS_PER_PART // 2, _FEWEST_OBJECTS_PER_PART // 2
    return pods_each, containers_each
