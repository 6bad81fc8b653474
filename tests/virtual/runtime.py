"""A runtime in a virtual world, which serves every plugin that connects.

It runs while time passes, so a timer may make a call; the call returns when the plugin has replied.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.laboratory import api_pb2 as api
from tests.laboratory.plugin import ConnectedPlugin, PluginUnavailable, Timeouts
from tests.laboratory.version import RuntimeVersion
from tests.virtual.channel import VirtualChannel
from tests.virtual.connection import VirtualConnection
from tests.virtual.system import Machinery


@dataclass(slots=True)
class ServedPlugin:
    """A plugin that connected, and how far its start came."""

    connection: VirtualConnection
    plugin: ConnectedPlugin
    is_launched: bool
    accepted_at_s: float
    is_synchronized: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether the plugin closed its end."""
        return self.connection.channel.is_closed


class VirtualRuntime:
    """A runtime that listens at `socket`, and calls the plugin that connected last."""

    def __init__(self, machinery: Machinery, socket: Path) -> None:
        self.version = RuntimeVersion()
        self.config = ""
        """The plugin's configuration in Configure."""
        self.pods: list[api.PodSandbox] = []
        self.containers: list[api.Container] = []
        self.served: list[ServedPlugin] = []
        """All plugins, in the order of their connections."""
        self._world = machinery.world
        self._network = machinery.network
        self._socket = socket

    @property
    def newest(self) -> ServedPlugin:
        """The plugin that connected last."""
        return self.served[-1]

    @property
    def plugin(self) -> ConnectedPlugin:
        """The plugin that connected last, to call it."""
        return self.newest.plugin

    @property
    def registrations(self) -> list[tuple[str, str]]:
        """The name and index of each plugin; empty where the registration was rejected."""
        return [
            (one.plugin.name, one.plugin.idx)
            for one in self.served
            if "RegisterPlugin" in one.connection.requests_received
        ]

    def start(self) -> None:
        """Listen."""
        self._network.listeners[self._socket] = self._accept

    def launch(self) -> VirtualChannel:
        """Connect to a plugin as a runtime does that launches it; return the plugin's end."""
        return self._accept(is_launched=True)

    def stop(self) -> None:
        """Close all connections and do not listen any more; pods and containers stay."""
        self._network.listeners[self._socket] = None
        for one in self.served:
            one.plugin.close("the runtime was stopped")

    def send_raw(self, data: bytes) -> None:
        """Send bytes that need not be NRI."""
        self.newest.connection.send_raw(data)
        self.newest.connection.flush(0.0)

    def run_pod(self, pod: api.PodSandbox) -> None:
        """Run a pod's sandbox."""
        self.pods.append(pod)
        self.plugin.notify(api.RUN_POD_SANDBOX, pod)

    def create(
        self, pod: api.PodSandbox, container: api.Container
    ) -> api.CreateContainerResponse | None:
        """Create a container; return the plugin's reply, None without one.

        Raises StatusError if the plugin refuses the container, which then does not exist.
        """
        request = api.CreateContainerRequest(pod=pod, container=container)
        reply = self.plugin.call("CreateContainer", request, api.CreateContainerResponse)
        if reply is not None and reply.adjust.linux.resources.cpu.mems:
            container.linux.resources.cpu.mems = reply.adjust.linux.resources.cpu.mems
        self.containers.append(container)
        return reply

    def _accept(self, *, is_launched: bool = False) -> VirtualChannel:
        connection = VirtualConnection(self._world, self.version)
        plugin = ConnectedPlugin(
            connection, self.version, Timeouts(), monotonic_s=lambda: self._world.now_s
        )
        served = ServedPlugin(connection, plugin, is_launched, self._world.now_s)
        self.served.append(served)
        self._world.after(0.0, lambda: self._serve(served))
        return connection.channel

    def _serve(self, served: ServedPlugin) -> None:
        try:
            served.plugin.register(self.config, configure_first=False)
            if served.is_launched and not self.version.synchronizes_launched:
                return
            updates = served.plugin.synchronize(self.pods, self.containers)
        except PluginUnavailable:
            return
        by_id = {container.id: container for container in self.containers}
        for update in updates:
            mems = update.linux.resources.cpu.mems
            if mems:
                by_id[update.container_id].linux.resources.cpu.mems = mems
        served.is_synchronized = True
