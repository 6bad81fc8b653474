"""A bench: a simulated host, the plugin as a process on it, and a Go runtime behind a recorder.

Offers what scenarios are made of: pods and containers that come and go, the plugin's books and
its log. Judges nothing itself but what must hold always (`check_always`).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nri_numamem.engine.qos import QosClass
from nri_numamem.machine.overlay import overlay_of, write_overlay
from nri_numamem.memorymanager import Machine, NumaNode
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri import runtime_objects as objects
from tests.conformance.go_runtime import GoRuntime
from tests.conformance.proxy import Proxy, Recorded

GI = 1 << 30
MI = 1 << 20
WAIT_S = 30

# What is to happen at once may take so long on a machine that is busy with other things.
BUSY_S = 10.0

PLUGIN = (sys.executable, "-m", "nri_numamem")
SABOTAGED = (sys.executable, str(Path(__file__).with_name("sabotaged.py")))


def wait_for(condition: Callable[[], bool], what: str = "it", timeout_s: float = WAIT_S) -> None:
    """Wait until something is so; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen in time"
        time.sleep(0.005)


class Host:
    """Two nodes of 4 GiB with a pool of 2Mi pages each, in a directory; and its plugins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.socket = root / "nri.sock"
        self.log = root / "plugin.log"
        self.processes: list[subprocess.Popen[str]] = []
        nodes = tuple(
            NumaNode(number, 4 * GI, {2 << 20: 64}, (number,), {number: 10, 1 - number: 21})
            for number in range(2)
        )
        write_overlay(overlay_of(Machine(nodes)), root)
        (root / "cgroup").mkdir()
        (root / "cgroup" / "cgroup.controllers").write_text("cpuset memory hugetlb\n")

    def start(
        self, *arguments: str, command: Sequence[str] = PLUGIN, log: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start the plugin with `run` on this host."""
        options = {
            "--socket": self.socket,
            "--sysfs-root": self.root / "sys",
            "--proc-root": self.root / "proc",
            "--cgroup-root": self.root / "cgroup",
            "--log-file": log or self.log,
            "--state-file": self.root / "state" / "memory_manager_state",
        }
        given = [str(word) for option in options.items() for word in option]
        process = subprocess.Popen(
            [*command, "run", *given, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def records(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return what the plugin has logged so far."""
        text = self.log.read_text() if self.log.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == "\n"]
        return [record for record in found if event in (None, record["event"])]

    def wait_record(self, event: str) -> dict[str, Any]:
        """Wait for a record, which comes after the reply; return the newest."""
        wait_for(lambda: bool(self.records(event)), f"a record {event!r}")
        return self.records(event)[-1]

    def books(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Ask for the books and return the record."""
        seen = len(self.records("books"))
        process.send_signal(signal.SIGUSR1)
        wait_for(lambda: len(self.records("books")) > seen, "a record of the books")
        return self.records("books")[-1]

    def stop(self, process: subprocess.Popen[str]) -> int:
        """Ask a process to stop; return its exit status."""
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_S)
        assert "Traceback" not in output
        return process.returncode

    def close(self) -> None:
        """End the processes that still run."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def mems_of(response: api.CreateContainerResponse) -> str:
    """Return what a container was given; "" for nothing."""
    return response.adjust.linux.resources.cpu.mems


def resident_bytes(pid: int) -> int:
    """Return how much memory a process has resident."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return how long a process has computed, on however busy a machine."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def queued_seconds(*pids: int) -> float:
    """Return how long threads of these processes have been ready and got no processor."""
    queued_ns = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError):  # it ended
                queued_ns += int((task / "schedstat").read_text().split()[1])
    return queued_ns / 1e9


class Bench:
    """One plugin, connected through the recorder to a started Go runtime.

    `options` are the harness's; `arguments` and `command` the plugin's.
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
        self.host = Host(root)
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
        runtime.tell_at_synchronize(*content, delay_ms)
        runtime.call("start")
        return runtime

    def connected(self) -> Self:
        """Wait until the runtime calls the plugin; return the bench."""
        self.runtime.wait_connected()
        return self

    def restart_runtime(
        self, pods: list[api.PodSandbox], containers: list[api.Container]
    ) -> GoRuntime:
        """End the runtime, start one that has these objects, and wait for the plugin."""
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
        """Run a pod for as long as the context lasts."""
        pod = objects.pod(name, qos=qos, cgroup_parent=cgroup_parent, memory_limit_bytes=GI)
        self.runtime.call("RunPodSandbox", pod=pod)
        try:
            yield pod
        finally:
            self.runtime.call("StopPodSandbox", pod=pod)
            self.runtime.call("RemovePodSandbox", pod=pod)

    def create(self, pod: api.PodSandbox, container: api.Container) -> api.CreateContainerResponse:
        """Create a container; it then has the mems that it was given."""
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
        """Return what is on the plugin's books, by pod uid and container name."""
        return dict(self.host.books(self.process)["entries"])

    def free(self) -> int:
        """Return how many bytes of ordinary memory are free on all nodes."""
        nodes = self.host.books(self.process)["machineState"]
        return sum(node["memoryMap"]["memory"]["free"] for node in nodes.values())

    def check_always(self) -> None:
        """Assert what must hold in every scenario: layout of frames, and calls on connection 2."""
        for connection in self.proxy.connections:
            assert connection.recorder.violations == []
            assert connection.calls_of_plugin() == ["RegisterPlugin"]
        assert not [event for event in self.runtime.events if event.kind == "unsolicited"]

    def close(self) -> None:
        """End everything."""
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
        """Close it; after a scenario that went well, check what must always hold."""
        try:
            if error is None:
                self.check_always()
        finally:
            self.close()
