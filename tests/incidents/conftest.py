"""A host with a plugin process and a fake runtime, of which a test reads commands only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.simulated_host import WAIT_S, SimulatedHost, wait_for

GI = 1 << 30
PAGE = 2 << 20
_STATE = "var/lib/nri-numamem/nri_numamem_state"
_UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 17 /run/nri/nri.sock
"""


class Incident:
    """A host whose files are where a host has them, below `root`."""

    WANTED = "etc/systemd/system/multi-user.target.wants/nri-numamem.service"

    def __init__(self, host: SimulatedHost, capsys: pytest.CaptureFixture[str]) -> None:
        self.host = host
        self.root = host.root
        self.runtime = FakeRuntime()
        self._capsys = capsys
        host.state_file = self.root / _STATE
        (self.root / "sys/fs").mkdir(parents=True, exist_ok=True)
        (self.root / "sys/fs/cgroup").symlink_to("/cgroup")
        self.write("proc/net/unix", _UNIX)
        self.write("proc/self/status", "Mems_allowed_list:\t0-1\n")
        self.write("var/lib/kubelet/config.yaml", "memoryManagerPolicy: None\n")
        # The service is enabled.
        (self.root / self.WANTED).parent.mkdir(parents=True)
        (self.root / self.WANTED).symlink_to("/usr/lib/systemd/system/nri-numamem.service")

    def write(self, name: str, text: str) -> Path:
        """Write a file of the host."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def add_node_without_cpus(self) -> None:
        """Add node 2: memory of a device, such as CXL."""
        distances = {0: 20, 1: 20, 2: 10}
        nodes = (
            *(
                NumaNode(n, 4 * GI, {PAGE: 64}, CpuSet([n]), {n: 10, 1 - n: 21, 2: 20})
                for n in range(2)
            ),
            NumaNode(2, 8 * GI, {PAGE: 0}, CpuSet(), distances),
        )
        self.host.set_machine(Machine(nodes))

    def start(self, config: str = "{}\n") -> None:
        """Start the plugin with a configuration, connected to the runtime."""
        path = self.write("etc/nri-numamem/config.yaml", config)
        if not self.host.socket.exists():
            self.runtime.listen(self.host.socket)
        self.process = self.host.start("--config", str(path))
        self.runtime.accept(WAIT_S)
        self.runtime.synchronize()

    def stop(self) -> None:
        """Stop the plugin."""
        assert self.host.stop(self.process) == 0

    def pod(
        self,
        name: str,
        memory_gi: float,
        *,
        pages: int = 0,
        cpuset_mems: str = "",
    ) -> api.Container | str:
        """Start a Guaranteed pod with one container; return it, or the text of its refusal."""
        size = int(memory_gi * GI)
        hugepages = {PAGE: pages * PAGE}
        pod = objects.pod(name, memory_limit_bytes=size)
        self.host.make_cgroup(pod, hugepages)
        self.host.set_memory_limit(pod, size)
        started = self.runtime.run_pod_sandbox(pod)
        wanted = objects.container(
            started, "main", memory_limit_bytes=size, hugepages=hugepages, cpuset_mems=cpuset_mems
        )
        try:
            container = self.runtime.create_container(started, wanted)
        except PluginRefused as refused:
            return str(refused)
        self.set_mems(container, container.linux.resources.cpu.mems, size)
        self.runtime.start_container(container)
        return container

    def set_mems(self, container: api.Container, mems: str, limit_bytes: int) -> None:
        """Write the cgroup of a container with processes; `mems` is its cpuset.mems."""
        self.host.write_container(container, mems, {int(mems[:1] or 0): 64 << 20})
        folder = self.root / "cgroup" / container.linux.cgroups_path.lstrip("/")
        (folder / "memory.max").write_text(f"{limit_bytes}\n")
        (folder / "cpuset.mems.effective").write_text(f"{mems or '0-1'}\n")

    def shown(self, command: str, *words: str) -> str:
        """Return what a command prints about this host, in one line."""
        main([command, "--root", str(self.root), *words])
        return self.printed()

    def printed(self) -> str:
        """Return what was printed since the last call, in one line."""
        captured = self._capsys.readouterr()
        return " ".join(f"{captured.out} {captured.err}".split())

    def eventually(self, text: str, command: str, *words: str) -> str:
        """Return what a command prints as soon as it has a text.

        The plugin writes its state and history up to a second after its reply.
        """
        found: list[str] = []

        def is_shown() -> bool:
            found.append(self.shown(command, *words))
            return text in found[-1]

        try:
            wait_for(is_shown, text)
        except AssertionError as error:
            raise AssertionError(f"no {text!r} in: {found[-1]}") from error
        return found[-1]


@pytest.fixture(name="incident")
def _incident(
    simulated_host: SimulatedHost,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Incident]:
    monkeypatch.setenv("COLUMNS", "160")
    incident = Incident(simulated_host, capsys)
    with incident.runtime:
        yield incident
