"""The sysfs files of a machine, some of them changed: a machine, or an error of one line.

The target draws a small machine, writes its tree and then replaces, removes or adds files. The
machine that it reads can be written and read again, and an engine can be made for it.
"""

import shutil
from pathlib import Path

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.host.hugepages import read_pools, read_reserved_pages
from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_machine
from nri_numamem.memorymanager import ReservedMemoryError
from nri_numamem.numa import Machine
from tests.fuzz.checks import check_one_line
from tests.fuzz.choices import Choices
from tests.fuzz.folder import empty_folder
from tests.fuzz.hosts import small_machine
from tests.laboratory.fake_sysfs import overlay_of, write_overlay

_CHANGES_MOST = 12
_TEXTS = (
    b"", b"0\n", b"1\n", b"-1\n", b"0-3,8\n", b"8191\n", b"8192\n", b"10 20\n", b"20 10 12 16\n",
    b"Node 0 MemTotal: 1024 kB\n", b"Node 1 MemTotal:       99999999999 kB\n", b"\xff\0",
    b"9223372036854775807\n", b"9223372036854775808\n", b"x" * 65537,
)  # fmt: skip
_ADDED = (
    "sys/devices/system/node/node7/meminfo",
    "sys/devices/system/node/node0007/meminfo",
    "sys/devices/system/node/node1024/meminfo",
    "sys/devices/system/node/nodes",
    "sys/devices/system/node/node0/hugepages/hugepages-0kB/nr_hugepages",
    "sys/devices/system/node/node0/hugepages/hugepages-64kB/nr_hugepages",
    "sys/devices/system/node/node0/hugepages/hugepages-002048kB/nr_hugepages",
    "sys/devices/system/cpu/online",
    "sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
    "sys/devices/virtual/memory_tiering/memory_tier99999999999/nodelist",
)


def one_input(data: bytes) -> None:
    """Write the tree and read it."""
    choices = Choices(data)
    root = empty_folder()
    overlay = overlay_of(small_machine(1 + choices.below(4)))
    write_overlay(overlay, root)
    if choices.below(8) == 7:
        shutil.rmtree(root / "sys/devices/system/node")
    for _ in range(choices.below(_CHANGES_MOST)):
        _change(choices, root, choices.pick((*overlay, *_ADDED)))
    for read in (read_pools, read_reserved_pages):
        _check_line(read, root)
    try:
        machine = read_machine(root / "sys", root / "proc")
    except MachineError as error:
        check_one_line(error, f"{error.path}: ")
    else:
        _use(machine)


def _check_line(read: object, root: Path) -> None:
    assert callable(read)
    try:
        read(root / "sys")
    except MachineError as error:
        check_one_line(error)


def _change(choices: Choices, root: Path, name: str) -> None:
    path = root / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    kind = choices.below(4)
    if not any(parent.is_file() for parent in path.parents):
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == 0:
            path.mkdir()
        elif kind == 1:
            path.write_bytes(choices.pick(_TEXTS))
        elif kind == 2:
            path.write_bytes(choices.block())


def _use(machine: Machine) -> None:
    root = empty_folder()
    write_overlay(overlay_of(machine), root)
    again = read_machine(root / "sys", root / "proc")
    # Missing distances have the kernel's defaults.
    assert [(n.node_id, n.memory_bytes, n.hugepages, n.cpus) for n in machine.nodes] == [
        (n.node_id, n.memory_bytes, n.hugepages, n.cpus) for n in again.nodes
    ]
    try:
        Context.of(machine, Policy())
    except ReservedMemoryError as error:
        check_one_line(error)
