"""A connected plugin, from the runtime's side: registration, Configure, Synchronize, calls.

The runtime's version decides which call carries an event and which failures close the plugin. An
error reply is an ordinary reply. A timeout, a protocol error and the end of the stream close the
plugin permanently, and the runtime continues the operation without a reply.

Sources: NRI pkg/adaptation/plugin.go and adaptation.go. This module does not use the store.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from nri_numamem.ttrpc import Code, ConnectionClosed, RemoteProtocolError, StatusError
from tests.laboratory import api_pb2 as api
from tests.laboratory.connection import PluginConnection
from tests.laboratory.launch import LaunchedProcess
from tests.laboratory.version import RuntimeVersion

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"

# plugin.go: the size above which Synchronize is split; the number of objects below which a part is
# not split further; the fraction to which a part shrinks at least.
SYNC_LIMIT_BYTES = 4 << 20
_FEWEST_OBJECTS_PER_PART = 8
_PART_FILL = 0.9

_NAME = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)
_INDEX = re.compile(r"[0-9]{2}", re.ASCII)

_Reply = TypeVar("_Reply", bound=Message)

# Notifications: the dedicated call of NRI >= 0.12 and its message, which has the field pod and, for
# containers, the field container. The messages have no common type for mypy.
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


class PluginUnavailable(Exception):  # noqa: N818 - an outcome
    """The plugin failed to start, or its connection is closed; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The runtime's timeouts; the defaults are containerd's."""

    registration_s: float = 5.0
    request_s: float = 2.0


class ConnectedPlugin:
    """One plugin over one connection."""

    def __init__(
        self,
        connection: PluginConnection,
        version: RuntimeVersion,
        timeouts: Timeouts,
        *,
        process: LaunchedProcess | None = None,
        launched_as: str = "",
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self.process = process
        self.idx, _, self.name = launched_as.partition("-")
        self.events = 0
        """The subscription as a bit mask."""
        self.uses_state_change = not version.has_dedicated_calls
        """Whether notifications are sent as StateChange."""
        self.why_closed = ""
        """The reason why the runtime closed the plugin; "" while the plugin is open."""
        self.calls: list[str] = []
        """The methods of all calls to the plugin."""
        self.timeouts = timeouts
        """May be changed between calls."""
        self._version = version
        self._monotonic_s = monotonic_s

    @property
    def launched(self) -> bool:
        """Whether the runtime started the plugin itself."""
        return self.process is not None

    def register(self, config: str, *, configure_first: bool) -> None:
        """Wait for the registration, then configure the plugin.

        A refused registration leaves the connection open, as real runtimes do. With
        `configure_first` the runtime sends Configure before the reply to RegisterPlugin.
        Raise PluginUnavailable when a step fails.
        """
        event = self.connection.wait_for_request(self.timeouts.registration_s)
        if event is None or event.request.method != "RegisterPlugin":
            raise PluginUnavailable(self.close("did not register in time"))
        request = api.RegisterPluginRequest()
        request.ParseFromString(event.request.payload)
        problem = self._check_registration(request)
        if problem:
            self.connection.reply_error(event.stream_id, Code.UNKNOWN, problem)
            self.connection.flush(self.timeouts.registration_s)
            raise PluginUnavailable(problem)
        if configure_first:
            self._configure(config)
        self.connection.reply(event.stream_id, b"")
        self.connection.flush(self.timeouts.registration_s)
        if not configure_first:
            self._configure(config)

    def _check_registration(self, request: api.RegisterPluginRequest) -> str:
        """Set name and index of an external plugin; return the error text, "" for none."""
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
        if self._version.sends_timeouts:
            request.registration_timeout = round(self.timeouts.registration_s * 1000)
            request.request_timeout = round(self.timeouts.request_s * 1000)
        if self._version.sends_nri_version:
            request.NRI_version = self._version.nri_version_text
        try:
            response = self.call("Configure", request, api.ConfigureResponse)
        except StatusError as error:
            raise PluginUnavailable(self.close(f"refused its configuration: {error}")) from error
        if response is None:
            raise PluginUnavailable(self.why_closed)
        valid = self._version.event_mask
        unknown = response.events & ~valid
        if unknown:
            raise PluginUnavailable(
                self.close(f"invalid plugin events: 0x{unknown & 0xFFFFFFFF:x}")
            )
        self.events = response.events or valid

    def synchronize(
        self,
        pods: Sequence[api.PodSandbox],
        containers: Sequence[api.Container],
        limit_bytes: int = SYNC_LIMIT_BYTES,
    ) -> list[api.ContainerUpdate]:
        """Send Synchronize, in parts above `limit_bytes`; return the updates of the reply.

        Raise PluginUnavailable when the call fails. Before NRI 0.7 the runtime then keeps the
        connection open but never calls the plugin again.
        """
        deadline = self._monotonic_s() + self.timeouts.request_s
        parts = self._sync_parts(pods, containers, limit_bytes)
        updates: list[api.ContainerUpdate] = []
        for part in parts:
            try:
                left_s = max(0.0, deadline - self._monotonic_s())
                response = self.call("Synchronize", part, api.SynchronizeResponse, left_s)
            except StatusError as error:
                raise PluginUnavailable(
                    self._fail_synchronize(f"did not synchronize: {error}")
                ) from error
            if response is None:
                raise PluginUnavailable(self.why_closed)
            if response.more != part.more or (part.more and response.update):
                text = "plugin does not handle split sync requests"
                raise PluginUnavailable(self._fail_synchronize(text))
            updates = list(response.update)
        return updates

    def _fail_synchronize(self, text: str) -> str:
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
        """Return whether the plugin is open and subscribed to the event."""
        return not self.why_closed and bool(self.events & (1 << (event - 1)))

    def notify(
        self,
        event: "api.Event.ValueType",
        pod: api.PodSandbox,
        container: api.Container | None = None,
    ) -> None:
        """Send an event to a plugin that subscribed to it; raise StatusError for an error reply."""
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
        """Call the plugin; return None when the call closed it.

        Raise StatusError for an error reply.
        """
        self.calls.append(method)
        if timeout_s is None:
            timeout_s = self.timeouts.request_s
        try:
            payload = self.connection.call(
                PLUGIN_SERVICE, method, request.SerializeToString(), timeout_s
            )
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
        """Close the connection, kill a launched process (NRI >= 0.7) and return `why`."""
        self.why_closed = self.why_closed or why
        self.connection.close()
        if self.process is not None and self._version.kills_closed_plugins:
            self.process.kill()
        return why


def _fewer(pods_each: int, containers_each: int, share: float) -> tuple[int, int]:
    """Return how many pods and containers to try per part after a part that was too large.

    `share` is the limit divided by the part's size. Unlike in plugin.go no count becomes 0, because
    the number of parts would then be infinite.
    """
    share = min(_PART_FILL, share)
    pods_each = max(1, int(pods_each * share))
    containers_each = max(1, int(containers_each * share))
    if pods_each + containers_each < _FEWEST_OBJECTS_PER_PART:
        return _FEWEST_OBJECTS_PER_PART // 2, _FEWEST_OBJECTS_PER_PART // 2
    return pods_each, containers_each
