"""The kernel's files of a simulated host, in a directory: sysfs, procfs and cgroups.

What runs on the host is not here: each test starts the plugin in its own way.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import Machine
from nri_numamem.numa.quantity import format_page_size
from tests.laboratory import api_pb2 as api
from tests.laboratory.fake_sysfs import overlay_of


def _write(file: str, text: str) -> None:
    """Write a file; thousands are written, and Path.write_text takes twice as long."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _remove(folder: str) -> None:
    """Remove a folder, if it exists; thousands are removed, and shutil.rmtree takes longer."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            _remove(entry.path)
        else:
            os.unlink(entry.path)  # noqa: PTH108 - a string
    os.rmdir(folder)  # noqa: PTH106 - a string


class HostFiles:
    """The files below `root`; the directory is created if it does not exist."""

    def __init__(self, root: Path, machine: Machine) -> None:
        self.root = root
        self.roots = HostRoots(root / "sys", root / "proc", root / "cgroup")
        self.socket = root / "nri.sock"
        """Where the runtime listens."""
        self.roots.cgroup.mkdir(parents=True)
        (self.roots.cgroup / "cgroup.controllers").write_text("cpuset memory hugetlb\n")
        self._written: dict[str, str] = {}
        self.set_machine(machine)

    def set_machine(self, machine: Machine) -> None:
        """Write the kernel's files of this machine that differ from the present ones.

        Each file is replaced as a whole, because the kernel never shows half of one.
        """
        self.machine = machine
        texts = overlay_of(machine)
        changed = {name: text for name, text in texts.items() if self._written.get(name) != text}
        for folder in {name.rpartition("/")[0] for name in changed}:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in changed.items():
            file = f"{self.root}/{name}"
            if name in self._written:
                _write(f"{file}.new", text)
                Path(f"{file}.new").replace(file)
            else:
                _write(file, text)
        self._written |= changed

    def add_network_device(self, name: str, node_id: int) -> None:
        """Make a network device whose hardware is on a NUMA node."""
        device = self.roots.sysfs / f"devices/pci0000:{node_id:02x}/0000:{node_id:02x}:00.0"
        (device / "net" / name).mkdir(parents=True)
        (device / "numa_node").write_text(f"{node_id}\n")
        link = self.roots.sysfs / "class/net" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(device / "net" / name)

    def arguments(self, options: Mapping[str, object]) -> list[str]:
        """Return the arguments of `nri-numamem run` on this host, with more options."""
        own = {
            "--socket": self.socket,
            "--sysfs-root": self.roots.sysfs,
            "--proc-root": self.roots.proc,
            "--cgroup-root": self.roots.cgroup,
        }
        return [str(word) for option in (own | dict(options)).items() for word in option]

    def cgroup_of(self, pod: api.PodSandbox) -> Path:
        """Return the directory of a pod's cgroup, which need not exist."""
        return self.roots.cgroup / pod.linux.cgroup_parent.lstrip("/")

    def make_cgroup(self, pod: api.PodSandbox, hugepages: Mapping[int, int] | None = None) -> Path:
        """Create a pod's cgroup as the kubelet does; return its directory.

        `hugepages` maps a page size in bytes to the pod's limit in bytes.
        """
        folder = self.cgroup_of(pod)
        folder.mkdir(parents=True, exist_ok=True)
        for size, limit_bytes in (hugepages or {}).items():
            _write(f"{folder}/hugetlb.{format_page_size(size)}.max", f"{limit_bytes}\n")
        return folder

    def set_memory_limit(self, pod: api.PodSandbox, limit_bytes: int) -> None:
        """Set the memory limit of a pod's cgroup, which exists."""
        (self.cgroup_of(pod) / "memory.max").write_text(f"{limit_bytes}\n")

    def write_container(
        self, container: api.Container, mems: str, memory_bytes: Mapping[int, int]
    ) -> None:
        """Write the cgroup of a container with processes; `memory_bytes` is by NUMA node.

        It has no memory limit, so the plugin does not search it for unreported containers.
        """
        folder = f"{self.roots.cgroup}/{container.linux.cgroups_path}"
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a string
        amounts = "".join(f" N{node}={size}" for node, size in memory_bytes.items())
        _write(f"{folder}/memory.numa_stat", f"anon{amounts}\n")
        _write(f"{folder}/cgroup.events", "populated 1\n")
        _write(f"{folder}/cpuset.mems", f"{mems}\n")

    def drop_container(self, container: api.Container) -> None:
        """Remove the cgroup of a container, if it has one."""
        _remove(f"{self.roots.cgroup}/{container.linux.cgroups_path}")

    def drop_cgroup(self, pod: api.PodSandbox) -> None:
        """Remove a pod's cgroup."""
        _remove(str(self.cgroup_of(pod)))
