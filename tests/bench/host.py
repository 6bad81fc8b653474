"""A simulated host in a directory, and the plugins that are compared as processes on it.

The machine has 1 TiB of memory and some hugepages in each of its nodes, in sockets of four.
"""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from resource import struct_rusage
from types import TracebackType
from typing import Self

from nri_numamem.machine.overlay import overlay_of, write_overlay
from nri_numamem.memorymanager import Machine, NumaNode
from tests.bench.go_runtime import Arrival, GoRuntime, RuntimeSideError

MI, GI = 1 << 20, 1 << 30
MEMORY_BYTES = 1024 * GI
PAGE_BYTES, PAGES = 2 * MI, 512
NODES_PER_SOCKET = 4

# The device that the workload's containers get, and where every host's sysfs has it.
FUSE = ("10:229", "../../devices/virtual/misc/fuse")

# Shows a process other files as /sys; takes root.
_WITH_OWN_SYS = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /sys && exec "$@"')


@dataclass(frozen=True, slots=True)
class Programs:
    """What runs: the plugin as installed, and the Go programs of one NRI version."""

    plugin: Path
    go: Path


def machine_of(nodes: int) -> Machine:
    """Return the machine with so many NUMA nodes."""

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
                cpus=tuple(range(4 * n, 4 * n + 4)),
                distances={other: distance(n, other) for other in ids},
            )
            for n in ids
        )
    )


def allocatable(machine: Machine) -> dict[int, dict[str, int]]:
    """Return what the Go plugin may give, by node and resource, in bytes."""
    found: dict[int, dict[str, int]] = {}
    for node in machine.nodes:
        pools = sum(size * pages for size, pages in node.hugepages.items())
        found[node.node_id] = {
            "memory": node.memory_bytes - pools,
            **{f"hugepages-{size // MI}Mi": size * pages for size, pages in node.hugepages.items()},
        }
    return found


def write_files(machine: Machine, root: Path) -> None:
    """Write what the plugin looks at on a host: its nodes, cgroups, and the containers' device."""
    write_overlay(overlay_of(machine), root)
    (root / "cgroup").mkdir()
    (root / "cgroup" / "cgroup.controllers").write_text("cpuset memory hugetlb\n")
    device, where = FUSE
    (root / "sys" / "dev" / "char").mkdir(parents=True, exist_ok=True)
    (root / "sys" / "dev" / "char" / device).symlink_to(where)


@dataclass(slots=True)
class Host:
    """A host with a runtime's socket and room for one plugin's files."""

    root: Path
    nodes: int
    programs: Programs
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started_at_s: float = field(default=0.0, init=False)
    """When the plugin was last started, since 1970."""

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True)
        machine = machine_of(self.nodes)
        write_files(machine, self.root)
        (self.root / "machine.json").write_text(json.dumps(allocatable(machine)))

    @property
    def socket(self) -> Path:
        """Where the runtime listens."""
        return self.root / "nri.sock"

    @property
    def pid(self) -> int:
        """The process id of the plugin, which has been started."""
        assert self.process is not None
        return self.process.pid

    def command(
        self, plugin: str, arguments: Sequence[str], *, state_file: bool, own_sys: bool = False
    ) -> list[str]:
        """Return the command of "constant", "placing" or "ours"; see start()."""
        socket = str(self.socket)
        if plugin == "constant":
            return [str(self.programs.go / plugin), "-socket", socket]
        if plugin == "placing":
            machine = str(self.root / "machine.json")
            return [str(self.programs.go / plugin), "-socket", socket, "-machine", machine]
        sysfs = self.root / "sys"
        options = {
            "--socket": socket,
            "--sysfs-root": "/sys" if own_sys else sysfs,
            "--proc-root": self.root / "proc",
            "--cgroup-root": self.root / "cgroup",
            "--log-file": self.root / "plugin.log",
            "--state-file": self.root / "state" / "memory_manager_state" if state_file else "",
        }
        given = [str(word) for option in options.items() for word in option]
        prefix = [*_WITH_OWN_SYS, str(sysfs)] if own_sys else []
        return [*prefix, str(self.programs.plugin), "run", *given, *arguments]

    def start(
        self,
        plugin: str,
        arguments: Sequence[str] = (),
        *,
        state_file: bool = True,
        own_sys: bool = False,
    ) -> None:
        """Start "constant", "placing" or "ours".

        The rest is for ours. With `own_sys` it finds the host's files as /sys, as it does where
        it is installed, and therefore listens to the kernel; that takes root.
        """
        command = self.command(plugin, arguments, state_file=state_file, own_sys=own_sys)
        with (self.root / "output").open("ab") as output:
            self.started_at_s = time.time()
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def wait_for(self, runtime: GoRuntime) -> Arrival:
        """Wait until the plugin serves; RuntimeError with its output when it does not come."""
        try:
            return runtime.wait()
        except RuntimeSideError as error:
            output = (self.root / "output").read_text(errors="replace")
            raise RuntimeError(f"{error}; the plugin wrote:\n{output}") from error

    def end(self) -> struct_rusage:
        """Ask the plugin to end; return what the kernel has counted of it and all its threads."""
        assert self.process is not None
        self.process.terminate()
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return used

    def close(self) -> None:
        """End the plugin."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        """Return the host itself; leaving the block ends its plugin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the plugin."""
        self.close()
