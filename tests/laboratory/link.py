"""The fake runtime's operations on the plugin itself, independent of pods and containers.

They are: listening, launching, registration, Synchronize, the plugin's UpdateContainers and the end
of the connection. runtime.FakeRuntime inherits them and adds the operations on pods and containers.
"""

import socket
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from google.protobuf.message import Message

from nri_numamem.ttrpc import Code, RequestReceived
from tests.laboratory import api_pb2 as api
from tests.laboratory.connection import PluginConnection, go_framer
from tests.laboratory.launch import LaunchedProcess, launch
from tests.laboratory.plugin import (
    RUNTIME_SERVICE,
    SYNC_LIMIT_BYTES,
    ConnectedPlugin,
    PluginUnavailable,
    Timeouts,
)
from tests.laboratory.results import check_updates
from tests.laboratory.store import RuntimeStore
from tests.laboratory.version import RuntimeVersion

_Reply = TypeVar("_Reply", bound=Message)

# A launched plugin exits when its connection ends. A plugin that still runs after this time is
# killed, so that no test leaves a process behind.
_EXIT_TIMEOUT_S = 5.0


class PluginLink:
    """The link between a runtime and one plugin.

    `sync_limit_bytes` is the size above which Synchronize is split, None for 4 MiB.
    `configure_first` sends Configure before the reply to RegisterPlugin, as real runtimes may do.
    """

    def __init__(
        self,
        version: RuntimeVersion,
        store: RuntimeStore,
        *,
        request_timeout_s: float,
        registration_timeout_s: float,
        sync_limit_bytes: int | None,
        configure_first: bool,
    ) -> None:
        self.version = version
        self.store = store
        self.plugin: ConnectedPlugin | None = None
        """The last plugin, open or closed; None before the first."""
        self._timeouts = Timeouts(registration_timeout_s, request_timeout_s)
        self._sync_limit_bytes = sync_limit_bytes or SYNC_LIMIT_BYTES
        self._configure_first = configure_first
        self._listener: socket.socket | None = None
        self._socket_path: Path | None = None

    def __enter__(self) -> Self:
        """Return the runtime itself; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the runtime."""
        self.close()

    def listen(self, socket_path: Path) -> None:
        """Open the socket for external plugins; replace the socket file of an earlier runtime."""
        socket_path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(socket_path))
        self._listener.listen()
        self._socket_path = socket_path

    def accept(self, timeout_s: float = 10.0) -> ConnectedPlugin:
        """Wait for a plugin's connection and registration, then configure the plugin.

        Raise TimeoutError when no plugin connects, PluginUnavailable when the start fails. An
        earlier plugin's connection stays open, as in real runtimes.
        """
        if self._listener is None:
            raise RuntimeError("accept() needs listen() first")
        self._listener.settimeout(timeout_s)
        sock, _ = self._listener.accept()
        return self.attach(sock)

    def attach(self, sock: socket.socket) -> ConnectedPlugin:
        """Use a connected socket as an external plugin's; otherwise like accept()."""
        return self._start(sock, None, "", "")

    def launch(self, path: Path, index_name: str, config: str = "") -> ConnectedPlugin:
        """Run the executable as plugin `index_name` ("10-numamem"), register and configure it.

        `config` is the text of the plugin's configuration file. Raise OSError when `path` cannot
        be executed, PluginUnavailable when the start fails.
        """
        sock, process = launch(path, index_name, self.version)
        return self._start(sock, process, index_name, config)

    def _start(
        self, sock: socket.socket, process: LaunchedProcess | None, index_name: str, config: str
    ) -> ConnectedPlugin:
        connection = PluginConnection(sock, go_framer(self.version.max_frame_payload_bytes))
        self.plugin = ConnectedPlugin(
            connection, self.version, self._timeouts, process=process, launched_as=index_name
        )
        self.plugin.register(config, configure_first=self._configure_first)
        return self.plugin

    def synchronize(self) -> list[api.ContainerUpdate]:
        """Send the store's pods and containers, apply the updates of the reply and return them.

        Launched plugins before NRI 0.7 get no Synchronize, as in real runtimes. Raise
        PluginUnavailable when the call fails, ProtocolViolation for updates that break NRI's rules.
        """
        plugin = self._connected()
        if plugin.launched and not self.version.synchronizes_launched:
            return []
        updates = plugin.synchronize(
            list(self.store.pods.values()), self.store.alive(), self._sync_limit_bytes
        )
        check_updates(updates)
        self._apply(updates)
        return updates

    def serve(self, timeout_s: float) -> bool:
        """Reply to one UpdateContainers of the plugin; return False when none came in time.

        A call that arrives during an operation waits for this method, as a real runtime's lock
        makes it wait.
        """
        plugin = self._connected()
        event = plugin.connection.wait_for_request(timeout_s)
        if event is None:
            return False
        self._reply(plugin, event)
        plugin.connection.flush(self._timeouts.request_s)
        return True

    def _reply(self, plugin: ConnectedPlugin, event: RequestReceived) -> None:
        request = event.request
        if request.service != RUNTIME_SERVICE:
            text = f"service {request.service}"
            plugin.connection.reply_error(event.stream_id, Code.UNIMPLEMENTED, text)
        elif request.method != "UpdateContainers":
            text = f"method {request.method}"
            plugin.connection.reply_error(event.stream_id, Code.UNIMPLEMENTED, text)
        else:
            message = api.UpdateContainersRequest()
            message.ParseFromString(request.payload)
            check_updates(message.update, message.evict)
            self._apply(message.update)
            plugin.connection.reply(event.stream_id, b"")

    def close(self) -> None:
        """End the runtime: close the plugin's connection and reap its process. Keep the store."""
        if self._listener is not None:
            self._listener.close()
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)
        if self.plugin is not None:
            self.plugin.connection.close()
            if self.plugin.process is not None:
                self.plugin.process.wait(_EXIT_TIMEOUT_S)
                self.plugin.process.kill()

    def _connected(self) -> ConnectedPlugin:
        if self.plugin is None or self.plugin.why_closed:
            raise PluginUnavailable(self.plugin.why_closed if self.plugin else "there is no plugin")
        return self.plugin

    def _apply(self, updates: Iterable[api.ContainerUpdate]) -> None:
        for update in updates:
            self.store.apply_update(update)

    def _subscribed(self, event: int) -> bool:
        return self.plugin is not None and self.plugin.subscribed(event)

    def _call(self, method: str, request: Message, reply_type: type[_Reply]) -> _Reply | None:
        return self._connected().call(method, request, reply_type)

    def _notify(
        self,
        event: "api.Event.ValueType",
        pod: api.PodSandbox,
        container: api.Container | None = None,
    ) -> None:
        if self.plugin is not None:
            self.plugin.notify(event, pod, container)
