"""The runtime's side by the embedded runtime, in this process: strict where others are lenient."""

import time
from collections.abc import Callable
from pathlib import Path

from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.runtime_link import PluginLink
from nri_numamem.nri.runtime_plugin import PluginGone, RuntimePlugin
from nri_numamem.nri.runtime_results import check_adjustment, check_updates
from nri_numamem.nri.runtime_store import RuntimeStore
from nri_numamem.nri.runtime_version import RuntimeVersion
from nri_numamem.ttrpc import StatusError
from tests.faults.sides import CONNECT_S, LOOK_S, Answer, Content, Updates
from tests.faults.wire import Wire

_EVENTS = {
    "RunPodSandbox": api.RUN_POD_SANDBOX,
    "StopPodSandbox": api.STOP_POD_SANDBOX,
    "RemovePodSandbox": api.REMOVE_POD_SANDBOX,
    "RemoveContainer": api.REMOVE_CONTAINER,
}


class EmbeddedSide:
    """The embedded runtime; it checks replies more strictly than the real ones."""

    def __init__(
        self,
        version: RuntimeVersion,
        root: Path,
        wire: Wire | None,
        *,
        request_timeout_s: float,
        configure_first: bool = False,
        sync_limit_bytes: int = 4 << 20,
        config: str = "",
    ) -> None:
        self.nri_version: tuple[int, ...] = version.nri_version
        number = ".".join(map(str, version.nri_version))
        self.name = f"embedded {number} {'external' if wire else 'launched'}"
        self.request_timeout_s = request_timeout_s
        self.is_launching = wire is None
        self._version = version
        self._root = root
        self._wire = wire
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
        if self._wire is not None:
            self._wire.open()
            return []
        try:
            path = self._root / "plugins" / "10-nri-numamem"
            plugin = self._link.launch(path, path.name, self._config)
            return self._synchronize(plugin, content)
        except PluginGone:
            return None

    def kill(self) -> None:
        if self._wire is not None:
            self._wire.shut()
        if self._link is not None:
            self._link.close()
            self._link = None

    def tell(self, content: Content) -> None:
        """Do nothing: nobody comes in without being let in."""

    def admit(self, content: Content, is_hopeless: Callable[[], bool]) -> Updates | None:
        assert self._link is not None
        former = self._link.plugin
        if former is not None:
            former.close("another connection")
            if former.process is not None:
                former.process.wait(CONNECT_S)  # runtimes before NRI 0.7 leave a zombie
        if self._wire is not None and not self._wire.connect(
            self._root / "runtime.sock", CONNECT_S, is_hopeless
        ):
            return None
        deadline = time.monotonic() + CONNECT_S
        while time.monotonic() < deadline and not is_hopeless():
            try:
                return self._synchronize(self._link.accept(LOOK_S), content)
            except TimeoutError:
                continue
            except PluginGone:
                return None
        return None

    def is_dropped(self) -> bool:
        plugin = None if self._link is None else self._link.plugin
        return plugin is not None and bool(plugin.why_closed)

    def _synchronize(self, plugin: RuntimePlugin, content: Content) -> Updates:
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
    ) -> Answer:
        plugin = None if self._link is None else self._link.plugin
        if plugin is None or plugin.why_closed:
            return Answer()
        begin = time.monotonic()
        try:
            payload = self._ask(plugin, op, pod, container, resources)
        except StatusError as error:
            return Answer(refusal=error.message, took_s=time.monotonic() - begin)
        return Answer(payload, took_s=time.monotonic() - begin)

    def _ask(
        self,
        plugin: RuntimePlugin,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None,
        resources: api.LinuxResources | None,
    ) -> bytes:
        if op == "CreateContainer":
            create = api.CreateContainerRequest(pod=pod, container=container)
            created = plugin.call(op, create, api.CreateContainerResponse)
            if created is None:
                return b""
            check_adjustment(created.adjust)
            check_updates(created.update, created.evict, forbidden_id=create.container.id)
            return created.SerializeToString()
        if op == "UpdateContainer":
            update = api.UpdateContainerRequest(
                pod=pod, container=container, linux_resources=resources
            )
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
