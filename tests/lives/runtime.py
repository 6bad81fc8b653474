"""The runtime of a virtual life, and the faults of its connection."""

from collections.abc import Callable
from pathlib import Path

from tests.faults.in_process_runtime import call_plugin
from tests.faults.runtimes import Content, Reply, Updates
from tests.laboratory import api_pb2 as api
from tests.laboratory.plugin import ConnectedPlugin, PluginUnavailable, Timeouts
from tests.laboratory.results import check_updates
from tests.laboratory.version import RuntimeVersion
from tests.virtual.channel import VirtualChannel
from tests.virtual.connection import VirtualConnection
from tests.virtual.system import Network
from tests.virtual.world import World

# A little more than the longest pause between two attempts of the plugin to connect.
CONNECT_S = 45.0


class LifeRuntime:
    """A runtime that can be started and killed, and calls the plugin that it accepted last."""

    def __init__(
        self,
        world: World,
        network: Network,
        socket: Path,
        version: RuntimeVersion,
        request_timeout_s: float,
        *,
        configure_first: bool,
        sync_limit_bytes: int,
    ) -> None:
        self.name = f"virtual {version.nri_version_text}"
        self.request_timeout_s = request_timeout_s
        self.launches_plugin = False
        self.nri_version: tuple[int, ...] = version.nri_version
        self.version = version
        self.plugin: ConnectedPlugin | None = None
        self._world = world
        self._network = network
        self._socket = socket
        self._configure_first = configure_first
        self._sync_limit_bytes = sync_limit_bytes
        self._waiting: list[VirtualConnection] = []
        self.cut_at_reply = 0
        """For the next connection: cut it when the plugin sends for this time."""
        self.dies_in_call = 0
        """Die in this call from now on, 1 for the next one; 0 for never."""
        self.is_request_sent = True
        """Whether the plugin receives the request in whose call the runtime dies."""

    @property
    def connection(self) -> VirtualConnection | None:
        """The connection of the plugin that was accepted last, while it is open."""
        plugin = self.plugin
        if plugin is None or plugin.why_closed:
            return None
        connection = plugin.connection
        assert isinstance(connection, VirtualConnection)
        if connection.channel.is_closed:
            plugin.close("the plugin closed the connection")
            return None
        return None if connection.closed else connection

    @property
    def pid(self) -> int:
        return 0

    def start(self, _content: Content) -> Updates:
        self._network.listeners[self._socket] = self._accept
        return []

    def set_content(self, content: Content) -> None:
        """Do nothing: a plugin gets the content when it is accepted."""

    def is_dropped(self) -> bool:
        return self.connection is None

    def kill(self) -> None:
        self._network.listeners[self._socket] = None
        for connection in self._waiting:
            connection.close()
        self._waiting.clear()
        if self.plugin is not None:
            self.plugin.close("the runtime was killed")

    def accept_plugin(
        self, content: Content, _cannot_connect: Callable[[], bool]
    ) -> Updates | None:
        if self.plugin is not None:
            self.plugin.close("another connection")
        self._world.advance(CONNECT_S, self._is_plugin_waiting)
        if not self._is_plugin_waiting():
            return None
        connection = self._waiting.pop()
        connection.cut_at_reply, self.cut_at_reply = self.cut_at_reply, 0
        timeouts = Timeouts(registration_s=5.0, request_s=self.request_timeout_s)
        self.plugin = ConnectedPlugin(
            connection, self.version, timeouts, monotonic_s=lambda: self._world.now_s
        )
        try:
            self.plugin.register("", configure_first=self._configure_first)
            updates = self.plugin.synchronize(*content, self._sync_limit_bytes)
        except PluginUnavailable:
            return None
        check_updates(updates)
        return updates

    def call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        resources: api.LinuxResources | None = None,
    ) -> Reply:
        if self.dies_in_call:
            self.dies_in_call -= 1
            if not self.dies_in_call:
                return self._die_in_call(op, pod, container, resources)
        return self._call(op, pod, container, resources)

    def _call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None,
        resources: api.LinuxResources | None,
    ) -> Reply:
        if self.connection is None or self.plugin is None:
            return Reply()
        return call_plugin(self.plugin, lambda: self._world.now_s, op, pod, container, resources)

    def _die_in_call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None,
        resources: api.LinuxResources | None,
    ) -> Reply:
        """Die before the request is sent, or before the reply to it is read."""
        if self.is_request_sent:
            if self.connection is not None:
                self.connection.cut_at_reply = 1
            self._call(op, pod, container, resources)
        self.kill()
        return Reply(runtime_died=True)

    def _is_plugin_waiting(self) -> bool:
        self._waiting = [one for one in self._waiting if not one.channel.is_closed]
        return bool(self._waiting)

    def _accept(self) -> VirtualChannel:
        connection = VirtualConnection(self._world, self.version)
        self._waiting.append(connection)
        return connection.channel


class LifeProxy:
    """Cuts and stalls the connection of a virtual runtime."""

    def __init__(self, runtime: LifeRuntime) -> None:
        self.on_request: Callable[[], None] | None = None
        self._runtime = runtime

    @property
    def is_connected(self) -> bool:
        return self._runtime.connection is not None

    def cut(self) -> None:
        if self._runtime.plugin is not None:
            self._runtime.plugin.close("the connection was cut")

    def cut_at_reply(self, number: int = 1) -> None:
        connection = self._runtime.connection
        if connection is not None:
            connection.cut_at_reply = number
        else:
            self._runtime.cut_at_reply = number

    def stall(self) -> None:
        if self._runtime.connection is not None:
            self._runtime.connection.channel.is_stalled = True

    def resume_reading(self) -> None:
        if self._runtime.connection is not None:
            self._runtime.connection.channel.flow()

    def close(self) -> None:
        self._runtime.kill()
