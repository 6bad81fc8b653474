"""A bench: a simulated host, the plugin as its process, and a Go runtime behind a recording proxy.

A bench has the operations of scenarios: starting and stopping pods and containers, and reading the
plugin's accounting and log. Scenarios check the results; `check_always` has the checks of every
scenario.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nri_numamem.memorymanager import QosClass
from tests.conformance.go_runtime import GoRuntime
from tests.conformance.proxy import Proxy, Recorded
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.simulated_host import GI, PLUGIN, WAIT_S, SimulatedHost

MI = 1 << 20

# Upper limit for immediate reactions, on a machine that is busy with other processes.
BUSY_S = 10.0

FAULTY_PLUGIN = (sys.executable, str(Path(__file__).with_name("faulty_plugin.py")))


def mems_of(response: api.CreateContainerResponse) -> str:
    """Return the adjusted cpuset.mems; "" without an adjustment."""
    return response.adjust.linux.resources.cpu.mems


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, which does not depend on other processes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def queued_seconds(*pids: int) -> float:
    """Return how long threads of these processes waited for a processor."""
    queued_ns = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended
                queued_ns += int((task / "schedstat").read_text().split()[1])
    return queued_ns / 1e9


class Bench:
    """One plugin, connected through the proxy to a Go runtime.

    `options` are for the harness, `arguments` and `command` for the plugin.
    """

    def __init__(
        self,
        version: str,
        root: Path,
        *arguments: str,
        command: Sequence[str] = PLUGIN,
        options: dict[str, object] | None = None,
        content: tuple[list[api.PodSandbox], list[api.Container]] = ([], []),
        delay_ms: int = 0,
    ) -> None:
        self.host = SimulatedHost(root)
        self._options = {
            "socket": root / "go.sock",
            "plugins": root / "plugins",
            "configs": root / "configs",
            **(options or {}),
        }
        self.version = version
        self.runtime = self._runtime(content, delay_ms)
        self.proxy = Proxy(self.host.socket, root / "go.sock")
        self.process = self.host.start(*arguments, command=command)

    def _runtime(
        self, content: tuple[list[api.PodSandbox], list[api.Container]], delay_ms: int
    ) -> GoRuntime:
        runtime = GoRuntime(self.version, self._options)
        runtime.set_content(*content, delay_ms)
        runtime.call("start")
        return runtime

    def connected(self) -> Self:
        """Wait for the first call of the plugin; return the bench."""
        self.runtime.wait_connected()
        return self

    def restart_runtime(
        self, pods: list[api.PodSandbox], containers: list[api.Container]
    ) -> GoRuntime:
        """End the runtime, start another one with these objects, and wait for the plugin."""
        self.runtime.kill()
        self.connection.closed.wait(WAIT_S)
        self.runtime = self._runtime((pods, containers), 0)
        self.runtime.wait_connected()
        return self.runtime

    @property
    def connection(self) -> Recorded:
        """The newest connection."""
        return self.proxy.connections[-1]

    @contextmanager
    def pod(
        self, name: str, *, qos: QosClass = QosClass.GUARANTEED, cgroup_parent: str | None = None
    ) -> Iterator[api.PodSandbox]:
        """Run a pod within the context."""
        pod = objects.pod(name, qos=qos, cgroup_parent=cgroup_parent, memory_limit_bytes=GI)
        self.runtime.call("RunPodSandbox", pod=pod)
        try:
            yield pod
        finally:
            self.runtime.call("StopPodSandbox", pod=pod)
            self.runtime.call("RemovePodSandbox", pod=pod)

    def create(self, pod: api.PodSandbox, container: api.Container) -> api.CreateContainerResponse:
        """Create a container and apply the adjusted cpuset.mems to `container`."""
        result = self.runtime.call("CreateContainer", pod=pod, container=container)
        response = api.CreateContainerResponse.FromString(result)
        mems = mems_of(response)
        container.linux.resources.cpu.mems = mems or container.linux.resources.cpu.mems
        return response

    def stop(self, pod: api.PodSandbox, container: api.Container) -> api.StopContainerResponse:
        """Stop a container."""
        container.state = api.CONTAINER_STOPPED
        result = self.runtime.call("StopContainer", pod=pod, container=container)
        return api.StopContainerResponse.FromString(result)

    def remove(self, pod: api.PodSandbox, container: api.Container) -> None:
        """Remove a container."""
        self.runtime.call("RemoveContainer", pod=pod, container=container)

    def entries(self) -> dict[str, Any]:
        """Return the plugin's assignments by pod uid and container name."""
        return dict(self.host.accounting(self.process)["entries"])

    def free(self) -> int:
        """Return the free bytes of ordinary memory on all nodes."""
        nodes = self.host.accounting(self.process)["machineState"]
        return sum(node["memoryMap"]["memory"]["free"] for node in nodes.values())

    def check_always(self) -> None:
        """Check the invariants of every scenario: layout of frames, calls on connection 2."""
        for connection in self.proxy.connections:
            assert connection.recorder.violations == []
            assert connection.calls_of_plugin() == ["RegisterPlugin"]
        assert not [event for event in self.runtime.events if event.kind == "unsolicited"]

    def close(self) -> None:
        """End the plugin, the runtime and the proxy."""
        self.host.close()
        self.runtime.kill()
        self.proxy.close()

    def __enter__(self) -> Self:
        """Return the bench itself; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the bench; after a successful scenario run `check_always` before."""
        try:
            if error is None:
                self.check_always()
        finally:
            self.close()
