"""The simulated host of one life: its machine as files, its pods' cgroups, and a disk.

The disk holds the plugin's log and state file. It is a small tmpfs where this process may mount
one, so that it can be full; elsewhere the plugin's writes are cut off by RLIMIT_FSIZE instead.
Files are replaced as a whole, because the kernel never shows half of one. Judges nothing.
"""

import contextlib
import hashlib
import json
import random
import resource
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nri_numamem.machine.overlay import overlay_of
from nri_numamem.memorymanager import Machine, NumaNode
from nri_numamem.memorymanager.quantity import MEMORY, format_page_size, hugepages_resource
from nri_numamem.nri import api_pb2 as api

KI, MI, GI = 1 << 10, 1 << 20, 1 << 30
PAGE_2MI, PAGE_1GI = 2 * MI, GI

# A life's log has a few hundred kB.
_DISK = "size=4m,mode=755"
_CHUNK = bytes(64 * KI)

Amounts = Mapping[tuple[int, str], int]
"""(node id, resource) -> bytes."""


def random_machine(rng: random.Random) -> Machine:
    """Return a machine of 2 to 8 nodes with pools of hugepages, all alike or not."""
    count = rng.choice((2, 2, 3, 4, 4, 6, 8))
    size, is_uniform = rng.randint(3, 8) * GI, rng.random() < 0.6
    small, large = rng.choice((0, 64, 256, 512)), rng.choice((0, 0, 1))
    nodes = []
    for number in range(count):
        if not is_uniform:
            size = rng.randint(3, 8) * GI
            small = rng.choice((0, 64, 256))
        pools = {PAGE_2MI: small, PAGE_1GI: large} if large else {PAGE_2MI: small}
        distances = {n: 10 if n == number else 12 + 8 * abs(n - number) for n in range(count)}
        nodes.append(NumaNode(number, size, pools, (number,), distances))
    return Machine(tuple(nodes))


def changed_machine(rng: random.Random, machine: Machine) -> tuple[Machine, str]:
    """Return the machine after a reboot or a hot-plug, and what happened."""
    nodes = list(machine.nodes)
    index = rng.randrange(len(nodes))
    node = nodes[index]
    kind = rng.choice(("pool", "pool", "drift", "growth"))
    if kind == "pool":
        before = node.hugepages[PAGE_2MI]
        pages = rng.choice([pages for pages in (0, 32, 64, 128, 256) if pages != before])
        nodes[index] = replace(node, hugepages={**node.hugepages, PAGE_2MI: pages})
        what = f"node {index}: {before} -> {pages} pages of 2Mi"
    elif kind == "drift":
        drift = rng.randrange(-800, 800) * KI
        nodes = [replace(n, memory_bytes=n.memory_bytes + drift) for n in nodes]
        what = f"every MemTotal: {drift:+} bytes"
    else:
        nodes[index] = replace(node, memory_bytes=node.memory_bytes + GI)
        what = f"node {index}: 1Gi more"
    return Machine(tuple(nodes)), what


def allocatable(machine: Machine, reserved: Mapping[int, int]) -> Amounts:
    """Return what is for pods, when `reserved` bytes of memory per node are not."""
    found: dict[tuple[int, str], int] = {}
    for node in machine.nodes:
        pools = {hugepages_resource(size): size * n for size, n in node.hugepages.items()}
        rest = node.memory_bytes - sum(pools.values()) - reserved.get(node.node_id, 0)
        found[node.node_id, MEMORY] = max(0, rest)
        for name, size_bytes in pools.items():
            found[node.node_id, name] = size_bytes
    return found


@dataclass(frozen=True, slots=True)
class Kept:
    """An assignment in the state file."""

    nodes: str
    memory_bytes: int


class Ground:
    """The host below `root`."""

    def __init__(self, root: Path, machine: Machine) -> None:
        self.root = root
        self.disk = root / "disk"
        self.log = self.disk / "plugin.log"
        self.state_file = self.disk / "state"
        self.stderr = root / "stderr"
        self.is_full = False
        self.machine = machine
        self._limited: list[int] = []
        for folder in (self.disk, root / "plugins", root / "configs", root / "cgroup"):
            folder.mkdir(parents=True)
        (root / "cgroup" / "cgroup.controllers").write_text("cpuset memory hugetlb\n")
        self.mounted = _run("mount", "-t", "tmpfs", "-o", _DISK, "faults", str(self.disk))
        self.set_machine(machine)

    def set_machine(self, machine: Machine) -> None:
        """Let the kernel's files show this machine."""
        self.machine = machine
        for name, text in overlay_of(machine).items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_name(f".{file.name}.new")
            fresh.write_text(text)
            fresh.replace(file)

    @property
    def is_blind(self) -> bool:
        """Whether log lines may be lost: without a disk of their own to be full."""
        return bool(self._limited)

    @property
    def is_mute(self) -> bool:
        """Whether the plugin can say nothing just now."""
        return self.is_full and not self.mounted

    def own_log(self, *, is_launched: bool) -> Path:
        """Choose where the plugin logs; a launched one has no other place when the disk is full."""
        if is_launched:
            self.log = self.root / "plugin.log"
        return self.log

    def make_cgroup(self, pod: api.PodSandbox, hugepages: Mapping[int, int]) -> None:
        """Make a pod's cgroup as the kubelet does: a limit for each page size."""
        folder = self._cgroup(pod)
        folder.mkdir(parents=True, exist_ok=True)
        for size in (PAGE_2MI, PAGE_1GI):
            name = f"hugetlb.{format_page_size(size)}.max"
            (folder / name).write_text(f"{hugepages.get(size, 0)}\n")

    def drop_cgroup(self, pod: api.PodSandbox) -> None:
        """Remove a pod's cgroup."""
        shutil.rmtree(self._cgroup(pod), ignore_errors=True)

    def _cgroup(self, pod: api.PodSandbox) -> Path:
        return self.root / "cgroup" / pod.linux.cgroup_parent.lstrip("/")

    def fill(self, pids: Iterable[int]) -> None:
        """Make the disk full, for these processes at least."""
        self.is_full = True
        if not self.mounted:
            for pid in pids:
                _limit(pid, 0)
                self._limited.append(pid)
            return
        with (self.disk / "filler").open("ab", buffering=0) as file:
            try:
                while file.write(_CHUNK):
                    pass
            except OSError:
                return

    def free(self) -> None:
        """Let the disk have room again."""
        self.is_full = False
        (self.disk / "filler").unlink(missing_ok=True)
        for pid in self._limited:
            _limit(pid, resource.RLIM_INFINITY)

    def kept(self) -> dict[tuple[str, str], Kept]:
        """Return what the state file holds by pod uid and container; nothing if it is damaged."""
        try:
            envelope = json.loads(self.state_file.read_bytes())
            if hashlib.sha256(envelope["payload"].encode()).hexdigest() != envelope["sha256"]:
                return {}
            payload = json.loads(envelope["payload"])
            return {
                (entry["uid"], entry["container"]): Kept(
                    entry["nodes"], entry["resources"].get(MEMORY, 0)
                )
                for entry in payload["holders"]
            }
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def damage_state(self, rng: random.Random) -> str:
        """Damage the state file; returns how."""
        file = self.state_file
        data = file.read_bytes() if file.is_file() else b""
        how = rng.choice(("truncated", "garbage", "flipped", "removed"))
        file.unlink(missing_ok=True)
        if how == "truncated":
            file.write_bytes(data[: rng.randrange(len(data) or 1)])
        elif how == "garbage":
            file.write_bytes(rng.randbytes(200))
        elif how == "flipped" and data:
            at = rng.randrange(len(data))
            file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        return how

    def close(self) -> None:
        """Take the disk away; what it held stays readable below `root`."""
        self.free()
        if self.mounted:
            kept = self.root / "kept"
            shutil.copytree(self.disk, kept, dirs_exist_ok=True)
            _run("umount", "-l", str(self.disk))
            shutil.copytree(kept, self.disk, dirs_exist_ok=True)
            shutil.rmtree(kept)
            self.mounted = False


def _limit(pid: int, size_bytes: int) -> None:
    """Set how long files of a process may become; nothing happens once it has ended."""
    with contextlib.suppress(OSError, ValueError):
        hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
