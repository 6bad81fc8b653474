"""A simulated host in a directory, and one of the compared plugins as a process on it.

The machine has 1 TiB of memory, some hugepages in each NUMA node, and four nodes per socket.
"""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.bench.go_runtime import GoRuntime, Registration, RuntimeSideError
from tests.host_files import HostFiles

MI, GI = 1 << 20, 1 << 30
MEMORY_BYTES = 1024 * GI
PAGE_BYTES, PAGES = 2 * MI, 512
NODES_PER_SOCKET = 4

# The device of the workload's containers, and its path in sysfs.
FUSE = ("10:229", "../../devices/virtual/misc/fuse")

# Mounts a folder as /sys for one process; takes root.
_WITH_OWN_SYS = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /sys && exec "$@"')


@dataclass(frozen=True, slots=True)
class Programs:
    """The installed plugin, and the folder of the Go programs of one NRI version."""

    plugin: Path
    go: Path


def machine_of(nodes: int) -> Machine:
    """Return the machine with this number of NUMA nodes."""

    def distance(first: int, second: int) -> int:
        if first == second:
            return 10
        return 12 if first // NODES_PER_SOCKET == second // NODES_PER_SOCKET else 21

    ids = range(nodes)
    return Machine(
        tuple(
            NumaNode(
                node_id=n,
                memory_bytes=MEMORY_BYTES // nodes,
                hugepages={PAGE_BYTES: PAGES},
                cpus=CpuSet(range(4 * n, 4 * n + 4)),
                distances={other: distance(n, other) for other in ids},
            )
            for n in ids
        )
    )


def allocatable(machine: Machine) -> dict[int, dict[str, int]]:
    """Return the bytes that the Go plugin may assign, by node and resource."""
    found: dict[int, dict[str, int]] = {}
    for node in machine.nodes:
        pools = sum(size * pages for size, pages in node.hugepages.items())
        found[node.node_id] = {
            "memory": node.memory_bytes - pools,
            **{f"hugepages-{size // MI}Mi": size * pages for size, pages in node.hugepages.items()},
        }
    return found


def write_files(root: Path, nodes: int) -> HostFiles:
    """Write the files that the plugin reads: NUMA nodes, cgroups, and the containers' device."""
    files = HostFiles(root, machine_of(nodes))
    device, where = FUSE
    devices = files.roots.sysfs / "dev" / "char"
    devices.mkdir(parents=True)
    (devices / device).symlink_to(where)
    return files


@dataclass(slots=True)
class Host:
    """A host with a runtime's socket and one plugin."""

    root: Path
    nodes: int
    programs: Programs
    files: HostFiles = field(init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started_at_s: float = field(default=0.0, init=False)
    """Time of the plugin's last start, in seconds since 1970."""

    def __post_init__(self) -> None:
        self.files = write_files(self.root, self.nodes)
        (self.root / "machine.json").write_text(json.dumps(allocatable(self.files.machine)))

    @property
    def socket(self) -> Path:
        """The runtime's socket."""
        return self.files.socket

    @property
    def pid(self) -> int:
        """The process id of the started plugin."""
        assert self.process is not None
        return self.process.pid

    def command(
        self, plugin: str, arguments: Sequence[str], *, state_file: bool, own_sys: bool = False
    ) -> list[str]:
        """Return the command line of "constant", "placing" or "ours"; see start()."""
        socket = str(self.socket)
        if plugin == "constant":
            return [str(self.programs.go / plugin), "-socket", socket]
        if plugin == "placing":
            machine = str(self.root / "machine.json")
            return [str(self.programs.go / plugin), "-socket", socket, "-machine", machine]
        sysfs = self.files.roots.sysfs
        options = {
            "--sysfs-root": "/sys" if own_sys else sysfs,
            "--log-file": self.root / "plugin.log",
            "--state-file": self.root / "state" / "nri_numamem_state" if state_file else "",
        }
        flags = self.files.arguments(options)
        prefix = [*_WITH_OWN_SYS, str(sysfs)] if own_sys else []
        return [*prefix, str(self.programs.plugin), "run", *flags, *arguments]

    def start(
        self,
        plugin: str,
        arguments: Sequence[str] = (),
        *,
        state_file: bool = True,
        own_sys: bool = False,
    ) -> None:
        """Start "constant", "placing" or "ours".

        The other parameters apply to "ours". With `own_sys` the host's files are mounted as /sys,
        which makes the plugin subscribe to the kernel's uevents; this takes root.
        """
        command = self.command(plugin, arguments, state_file=state_file, own_sys=own_sys)
        with (self.root / "output").open("ab") as output:
            self.started_at_s = time.time()
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def wait_for(self, runtime: GoRuntime) -> Registration:
        """Wait until the plugin is ready; RuntimeError with its output if it never registers."""
        try:
            return runtime.wait()
        except RuntimeSideError as error:
            output = (self.root / "output").read_text(errors="replace")
            raise RuntimeError(f"{error}; the plugin wrote:\n{output}") from error

    def close(self) -> None:
        """Kill the plugin."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        """Return the host; leaving the block kills the plugin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill the plugin."""
        self.close()
