"""The simulated host of one life: files of the kernel, cgroups of the pods, and a disk.

The disk has the plugin's log and state file. It is a small file system on a loop device, so that it
can be full or frozen. Without loop devices it is a tmpfs, which cannot be frozen; where this
process may not mount, RLIMIT_FSIZE limits the plugin's writes instead. This module checks nothing.
"""

import contextlib
import json
import random
import resource
import shutil
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.numa import Machine, NodeSet
from nri_numamem.numa.quantity import MEMORY, hugepages_resource
from tests.faults.loop_disk import LoopDisk, LoopDiskError
from tests.host_files import HostFiles
from tests.sequences.machine import KI

# Of the files that the plugin writes and reads; a flipped bit can make another one of it.
_STATE_VERSION = 2
NO_NODES = NodeSet()

# The log of a life has a few hundred kB.
_DISK = "size=4m,mode=755"
_CHUNK = bytes(64 * KI)

Amounts = Mapping[tuple[int, str], int]
"""(node id, resource) -> bytes."""


def allocatable(
    machine: Machine, reserved: Mapping[int, int], excluded: NodeSet = NO_NODES
) -> Amounts:
    """Return the amounts for pods; `reserved` has bytes of memory per node for the host.

    The plugin does not use the `excluded` nodes.
    """
    found: dict[tuple[int, str], int] = {}
    for node in machine.nodes:
        if node.node_id in excluded:
            continue
        pools = {hugepages_resource(size): size * n for size, n in node.hugepages.items()}
        rest = node.memory_bytes - sum(pools.values()) - reserved.get(node.node_id, 0)
        found[node.node_id, MEMORY] = max(0, rest)
        for name, size_bytes in pools.items():
            found[node.node_id, name] = size_bytes
    return found


@dataclass(frozen=True, slots=True)
class StateEntry:
    """An assignment in the state file."""

    nodes: str
    memory_bytes: int
    sandbox_id: str


class LifeHost(HostFiles):
    """The host below `root`, with a disk."""

    def __init__(self, root: Path, machine: Machine, *, mounts: bool = True) -> None:
        super().__init__(root, machine)
        self.disk = root / "disk"
        self.log = self.disk / "plugin.log"
        self.state_file = self.disk / "state"
        self.stderr = root / "stderr"
        self.is_full = False
        self.can_be_full = True
        self.is_frozen = False
        self.unfreezable_reason = ""
        """Why the disk cannot be frozen; empty if it can."""
        self.has_lost_records = False
        """Whether the plugin has dropped log records."""
        self.has_container_cgroups = False
        """Whether containers have cgroups too."""
        self._limited: list[int] = []
        for folder in (self.disk, root / "plugins", root / "configs"):
            folder.mkdir()
        self._loop_disk = self._mount_loop_disk() if mounts else None
        self.mounted = bool(self._loop_disk) or (
            mounts and _run("mount", "-t", "tmpfs", "-o", _DISK, "faults", str(self.disk))
        )

    def _mount_loop_disk(self) -> LoopDisk | None:
        try:
            return LoopDisk(self.disk)
        except LoopDiskError as error:
            self.unfreezable_reason = str(error)
            return None

    @property
    def may_lose_records(self) -> bool:
        """Whether the plugin may have lost log records."""
        return bool(self._limited) or self.has_lost_records

    @property
    def cannot_log(self) -> bool:
        """Whether the plugin cannot log at present."""
        return self.is_frozen or (self.is_full and not self.mounted)

    def choose_log(self, *, is_launched: bool, is_on_disk: bool) -> Path:
        """Choose the log file.

        A launched plugin has no stderr for what a full disk does not take. So its log is outside of
        the disk, or, if `is_on_disk`, on one that can be frozen and is never full.
        """
        if is_launched:
            self.can_be_full = self._loop_disk is None or not is_on_disk
            self.log = (self.root if self.can_be_full else self.disk) / "plugin.log"
        return self.log

    def freeze(self, seconds: float) -> bool:
        """Freeze the disk for this time; return False if it cannot be frozen."""
        if self._loop_disk is None:
            return False
        try:
            self._loop_disk.freeze(seconds)
        except LoopDiskError as error:
            self.unfreezable_reason = str(error)
            return False
        self.is_frozen = True
        return True

    def wait_thawed(self) -> None:
        """Wait until the disk is not frozen any more."""
        if self._loop_disk is not None:
            self._loop_disk.wait_thawed()
        self.is_frozen = False

    def fill(self, pids: Iterable[int]) -> None:
        """Fill the disk, at least for these processes."""
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
        """Free the disk, and thaw it."""
        if self._loop_disk is not None:
            self._loop_disk.thaw()
        self.is_full = self.is_frozen = False
        (self.disk / "filler").unlink(missing_ok=True)
        for pid in self._limited:
            _limit(pid, resource.RLIM_INFINITY)

    def state_entries(self) -> dict[tuple[str, str], StateEntry]:
        """Return the entries of the state file; none if it is damaged, or of another version."""
        try:
            envelope = json.loads(self.state_file.read_bytes())
            is_intact = zlib.crc32(envelope["payload"].encode()) == envelope["crc32"]
            if envelope["version"] != _STATE_VERSION or not is_intact:
                return {}
            payload = json.loads(envelope["payload"])
            return {
                (entry["uid"], entry["container"]): StateEntry(
                    entry["nodes"], entry["resources"].get(MEMORY, 0), entry["sandboxId"]
                )
                for entry in payload["holders"]
            }
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def damage_state(self, rng: random.Random) -> str:
        """Damage the state file; return how."""
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
        """Unmount the disk; its files stay readable below `root`."""
        self.free()
        if self.mounted:
            copy = self.root / "copy"
            shutil.copytree(self.disk, copy, dirs_exist_ok=True)
            if self._loop_disk is not None:
                self._loop_disk.unmount()
            else:
                _run("umount", "-l", str(self.disk))
            shutil.copytree(copy, self.disk, dirs_exist_ok=True)
            shutil.rmtree(copy)
            self.mounted = False


def _limit(pid: int, size_bytes: int) -> None:
    """Limit the file size of a process; nothing happens if it has ended."""
    with contextlib.suppress(OSError, ValueError):
        hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
