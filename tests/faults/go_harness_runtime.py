"""A runtime in a process of its own: NRI's Go harness of one version."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.conformance.go_runtime import GoError, GoRuntime
from tests.faults.proxy import SocketProxy
from tests.faults.runtimes import CONNECT_S, LOOK_S, Content, Reply, Updates
from tests.laboratory import api_pb2 as api

# After a cut: time for the harness to report the result of Synchronize.
_ECHO_S = 0.3
# A runtime closes the connection of a plugin that it drops; time for the proxy to see that.
_CLOSE_S = 1.0

_Part = api.PodSandbox | api.Container | api.LinuxResources


class GoHarnessRuntime:
    """One of the five Go harnesses. With a proxy the plugin is external, otherwise launched."""

    def __init__(
        self, version: str, root: Path, proxy: SocketProxy | None, options: dict[str, object]
    ) -> None:
        self.name = f"{version} {'external' if proxy else 'launched'}"
        self.request_timeout_s = float(str(options["request-timeout"]).removesuffix("ms")) / 1000
        self.launches_plugin = proxy is None
        self.nri_version = tuple(int(n) for n in version.removeprefix("nri-").split("."))
        self._version = version
        self._proxy = proxy
        self._socket = root / "runtime.sock"
        self._options = {
            "socket": self._socket,
            "plugins": root / "plugins" if proxy is None else root / "nothing",
            "configs": root / "configs",
            "registration-timeout": f"{CONNECT_S:.0f}s",
            **options,
        }
        self._runtime: GoRuntime | None = None
        # Numbers of lines of its output that were processed.
        self._seen = self._connected = self._dropped = 0

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> GoRuntime:
        assert self._runtime is not None
        return self._runtime

    def start(self, content: Content) -> Updates | None:
        self._socket.unlink(missing_ok=True)
        self._runtime = GoRuntime(self._version, self._options)
        self._runtime.set_content(*content)
        try:
            self._runtime.call("start")
        except GoError:  # up to NRI 0.6.1 a failing plugin ends the start
            return None
        if self._proxy is not None:
            self._proxy.open()
        updates = self._updates_since(0)
        self._seen = len(self._runtime.synchronizations())
        self._connected = self._runtime.logged("connected")
        self._dropped = self._drops()
        is_skipped = self._runtime.logged("failed to") > 0
        return None if self.launches_plugin and is_skipped else updates

    def kill(self) -> None:
        try:
            self._running.kill()
        except BrokenPipeError:  # a command was being written; close the rest now
            self._running.kill()
        if self._proxy is not None:
            self._proxy.stop_listening()

    def _updates_since(self, seen: int) -> Updates:
        return [
            update
            for event in self._running.synchronizations()[seen:]
            if not event.error
            for update in api.SynchronizeResponse.FromString(event.result).update
        ]

    def set_content(self, content: Content) -> None:
        if self._proxy is None:
            self._running.set_content(*content)

    def accept_plugin(self, content: Content, cannot_connect: Callable[[], bool]) -> Updates | None:
        runtime, proxy = self._running, self._proxy
        runtime.set_content(*content)
        if proxy is not None and not proxy.connect(self._socket, CONNECT_S, cannot_connect):
            return None
        is_there = self._wait_connected(cannot_connect)
        self._dropped = self._drops()  # of the connection before, perhaps reported late
        self._connected = runtime.logged("connected")
        updates = self._updates_since(self._seen)
        self._seen = len(runtime.synchronizations())
        # Updates are applied even if the plugin has disconnected meanwhile.
        return updates if updates or is_there else None

    def _wait_connected(self, cannot_connect: Callable[[], bool]) -> bool:
        runtime, proxy = self._running, self._proxy
        deadline, closed_at, look_at = time.monotonic() + CONNECT_S, 0.0, 0.0
        while runtime.logged("connected") <= self._connected:
            now = time.monotonic()
            if proxy is not None and not proxy.is_connected:
                closed_at = closed_at or now
                is_reported = len(runtime.synchronizations()) > self._seen
                if is_reported or now - closed_at > _ECHO_S:
                    return runtime.logged("connected") > self._connected
            if proxy is None and now > look_at:
                look_at = now + LOOK_S
                if cannot_connect():
                    return False
            if now > deadline:
                return False
            time.sleep(0.003)
        return True

    def call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        resources: api.LinuxResources | None = None,
    ) -> Reply:
        parts: dict[str, _Part] = {"pod": pod}
        if container is not None:
            parts["container"] = container
        if resources is not None:
            parts["resources"] = resources
        try:
            payload = self._running.call(op, **parts)
        except GoError as error:
            return Reply(refusal=str(error), took_s=self._running.took_s)
        except (AssertionError, OSError, ValueError):
            return Reply(runtime_died=True)
        return Reply(payload, took_s=self._running.took_s)

    def is_dropped(self) -> bool:
        drops = self._drops()
        if drops == self._dropped:
            return False
        if self._proxy is not None and not self._proxy.wait_closed(_CLOSE_S):
            self._dropped = drops  # reported late, of the connection before
            return False
        return True

    def _drops(self) -> int:
        return self._running.logged("closing plugin") + self._running.logged("to plugin")
