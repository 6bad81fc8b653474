"""The runtime's side by NRI's Go harness of one version, a process of its own."""

import time
from collections.abc import Callable
from pathlib import Path

from nri_numamem.nri import api_pb2 as api
from tests.conformance.go_runtime import GoError, GoRuntime
from tests.faults.sides import CONNECT_S, LOOK_S, Answer, Content, Updates
from tests.faults.wire import Wire

# After the wire was cut: for the harness to say how the Synchronize went.
_ECHO_S = 0.3

_Part = api.PodSandbox | api.Container | api.LinuxResources


class GoSide:
    """One of the five Go harnesses. With a wire the plugin is external, else launched."""

    def __init__(
        self, version: str, root: Path, wire: Wire | None, options: dict[str, object]
    ) -> None:
        self.name = f"{version} {'external' if wire else 'launched'}"
        self.request_timeout_s = float(str(options["request-timeout"]).removesuffix("ms")) / 1000
        self.is_launching = wire is None
        self.nri_version = tuple(int(n) for n in version.removeprefix("nri-").split("."))
        self._version = version
        self._wire = wire
        self._socket = root / "runtime.sock"
        self._options = {
            "socket": self._socket,
            "plugins": root / "plugins" if wire is None else root / "nothing",
            "configs": root / "configs",
            "registration-timeout": f"{CONNECT_S:.0f}s",
            **options,
        }
        self._runtime: GoRuntime | None = None
        # What of its output has been dealt with.
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
        self._runtime.tell_at_synchronize(*content)
        try:
            self._runtime.call("start")
        except GoError:  # up to NRI 0.6.1 a plugin that fails ends the start
            return None
        if self._wire is not None:
            self._wire.open()
        updates = self._updates_since(0)
        self._seen = len(self._runtime.synchronizations())
        self._connected = self._runtime.logged("connected")
        self._dropped = self._drops()
        is_skipped = self._runtime.logged("failed to") > 0
        return None if self.is_launching and is_skipped else updates

    def kill(self) -> None:
        try:
            self._running.kill()
        except BrokenPipeError:  # a command was on its way; what is left is closed now
            self._running.kill()
        if self._wire is not None:
            self._wire.shut()

    def _updates_since(self, seen: int) -> Updates:
        return [
            update
            for event in self._running.synchronizations()[seen:]
            if not event.error
            for update in api.SynchronizeResponse.FromString(event.result).update
        ]

    def tell(self, content: Content) -> None:
        if self._wire is None:
            self._running.tell_at_synchronize(*content)

    def admit(self, content: Content, is_hopeless: Callable[[], bool]) -> Updates | None:
        runtime, wire = self._running, self._wire
        runtime.tell_at_synchronize(*content)
        if wire is not None and not wire.connect(self._socket, CONNECT_S, is_hopeless):
            return None
        is_there = self._wait_connected(is_hopeless)
        self._dropped = self._drops()  # of the connection before; it may tell that late
        self._connected = runtime.logged("connected")
        updates = self._updates_since(self._seen)
        self._seen = len(runtime.synchronizations())
        # Whatever was answered is applied, whether the plugin then is there or not.
        return updates if updates or is_there else None

    def _wait_connected(self, is_hopeless: Callable[[], bool]) -> bool:
        runtime, wire = self._running, self._wire
        deadline, closed_at, look_at = time.monotonic() + CONNECT_S, 0.0, 0.0
        while runtime.logged("connected") <= self._connected:
            now = time.monotonic()
            if wire is not None and not wire.is_connected:
                closed_at = closed_at or now
                is_told = len(runtime.synchronizations()) > self._seen
                if is_told or now - closed_at > _ECHO_S:
                    return runtime.logged("connected") > self._connected
            if wire is None and now > look_at:
                look_at = now + LOOK_S
                if is_hopeless():
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
    ) -> Answer:
        parts: dict[str, _Part] = {"pod": pod}
        if container is not None:
            parts["container"] = container
        if resources is not None:
            parts["resources"] = resources
        try:
            payload = self._running.call(op, **parts)
        except GoError as error:
            return Answer(refusal=str(error), took_s=self._running.took_s)
        except (AssertionError, OSError, ValueError):
            return Answer(is_dead=True)
        return Answer(payload, took_s=self._running.took_s)

    def is_dropped(self) -> bool:
        return self._drops() > self._dropped

    def _drops(self) -> int:
        return self._running.logged("closing plugin") + self._running.logged("to plugin")
