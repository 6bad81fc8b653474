"""A runtime in this process: FakeRuntime, which is stricter than real runtimes."""

import time
from collections.abc import Callable
from pathlib import Path

from nri_numamem.ttrpc import StatusError
from tests.faults.proxy import SocketProxy
from tests.faults.runtimes import CONNECT_S, LOOK_S, Content, Reply, Updates
from tests.laboratory import api_pb2 as api
from tests.laboratory.link import PluginLink
from tests.laboratory.plugin import ConnectedPlugin, PluginUnavailable
from tests.laboratory.results import check_adjustment, check_updates
from tests.laboratory.store import RuntimeStore
from tests.laboratory.version import RuntimeVersion
from tests.launched_processes import end_supervisors

_EVENTS = {
    "RunPodSandbox": api.RUN_POD_SANDBOX,
    "StopPodSandbox": api.STOP_POD_SANDBOX,
    "RemovePodSandbox": api.REMOVE_POD_SANDBOX,
    "RemoveContainer": api.REMOVE_CONTAINER,
}


class InProcessRuntime:
    """The fake runtime; it checks replies more strictly than real runtimes."""

    def __init__(
        self,
        version: RuntimeVersion,
        root: Path,
        proxy: SocketProxy | None,
        *,
        request_timeout_s: float,
        configure_first: bool = False,
        sync_limit_bytes: int = 4 << 20,
        config: str = "",
    ) -> None:
        self.nri_version: tuple[int, ...] = version.nri_version
        number = ".".join(map(str, version.nri_version))
        self.name = f"fake {number} {'external' if proxy else 'launched'}"
        self.request_timeout_s = request_timeout_s
        self.launches_plugin = proxy is None
        self._version = version
        self._root = root
        self._proxy = proxy
        self._configure_first = configure_first
        self._sync_limit_bytes = sync_limit_bytes
        self._config = config
        self._link: PluginLink | None = None

    @property
    def pid(self) -> int:
        return 0

    def start(self, content: Content) -> Updates | None:
        self._link = PluginLink(
            self._version,
            RuntimeStore(),
            request_timeout_s=self.request_timeout_s,
            registration_timeout_s=CONNECT_S,
            sync_limit_bytes=None,
            configure_first=self._configure_first,
        )
        self._link.listen(self._root / "runtime.sock")
        if self._proxy is not None:
            self._proxy.open()
            return []
        try:
            path = self._root / "plugins" / "10-nri-numamem"
            plugin = self._link.launch(path, path.name, self._config)
            return self._synchronize(plugin, content)
        except PluginUnavailable:
            return None

    def kill(self) -> None:
        if self._proxy is not None:
            self._proxy.stop_listening()
        if self._link is not None:
            self._link.close()
            self._link = None
        if self.launches_plugin:  # this process lives on, unlike a runtime that is killed
            end_supervisors(str(self._root))

    def set_content(self, content: Content) -> None:
        """Do nothing: every connection goes through accept_plugin."""

    def accept_plugin(self, content: Content, cannot_connect: Callable[[], bool]) -> Updates | None:
        assert self._link is not None
        restored = self._link.plugin
        if restored is not None:
            restored.close("another connection")
            if restored.process is not None:
                restored.process.wait(CONNECT_S)  # runtimes before NRI 0.7 leave a zombie
        if self._proxy is not None and not self._proxy.connect(
            self._root / "runtime.sock", CONNECT_S, cannot_connect
        ):
            return None
        deadline = time.monotonic() + CONNECT_S
        while time.monotonic() < deadline and not cannot_connect():
            try:
                return self._synchronize(self._link.accept(LOOK_S), content)
            except TimeoutError:
                continue
            except PluginUnavailable:
                return None
        return None

    def is_dropped(self) -> bool:
        plugin = None if self._link is None else self._link.plugin
        return plugin is not None and bool(plugin.why_closed)

    def _synchronize(self, plugin: ConnectedPlugin, content: Content) -> Updates:
        if plugin.launched and not self._version.synchronizes_launched:
            return []
        updates = plugin.synchronize(*content, self._sync_limit_bytes)
        check_updates(updates)
        return updates

    def call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        resources: api.LinuxResources | None = None,
    ) -> Reply:
        plugin = None if self._link is None else self._link.plugin
        if plugin is None or plugin.why_closed:
            return Reply()
        return call_plugin(plugin, time.monotonic, op, pod, container, resources)


def call_plugin(
    plugin: ConnectedPlugin,
    monotonic_s: Callable[[], float],
    op: str,
    pod: api.PodSandbox,
    container: api.Container | None,
    resources: api.LinuxResources | None,
) -> Reply:
    """Make a call of a plugin; return its reply and its duration by `monotonic_s`."""
    begin_s = monotonic_s()
    refusal, payload = None, b""
    try:
        payload = _request_payload(plugin, op, pod, container, resources)
    except StatusError as error:
        refusal = error.message
    return Reply(payload, refusal, took_s=monotonic_s() - begin_s)


def _request_payload(
    plugin: ConnectedPlugin,
    op: str,
    pod: api.PodSandbox,
    container: api.Container | None,
    resources: api.LinuxResources | None,
) -> bytes:
    """Make a call of a plugin and check its reply strictly; return the reply's payload."""
    if op == "CreateContainer":
        create = api.CreateContainerRequest(pod=pod, container=container)
        created = plugin.call(op, create, api.CreateContainerResponse)
        if created is None:
            return b""
        check_adjustment(created.adjust)
        check_updates(created.update, created.evict, forbidden_id=create.container.id)
        return created.SerializeToString()
    if op == "UpdateContainer":
        update = api.UpdateContainerRequest(pod=pod, container=container, linux_resources=resources)
        updated = plugin.call(op, update, api.UpdateContainerResponse)
        if updated is None:
            return b""
        check_updates(updated.update, updated.evict)
        return updated.SerializeToString()
    if op == "StopContainer":
        stop = api.StopContainerRequest(pod=pod, container=container)
        stopped = plugin.call(op, stop, api.StopContainerResponse)
        return b"" if stopped is None else stopped.SerializeToString()
    plugin.notify(_EVENTS[op], pod, container)
    return b""
