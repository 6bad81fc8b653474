"""Names of cgroups and devices, in a small tree of files.

Each function returns a result or raises MachineError for the content of a file. For any name, only
files below the given root are read.
"""

import os
from pathlib import Path

from nri_numamem.engine.core.context import qos_of_cgroup_parent
from nri_numamem.host.cgroups import (
    cgroup_directory,
    container_directory,
    pod_hugepage_limits,
    set_mems,
)
from nri_numamem.host.devices import device_numa_nodes
from nri_numamem.host.numa_stat import container_use
from nri_numamem.host.sysfs import MachineError
from nri_numamem.memorymanager import QosClass
from tests.fuzz.checks import check_one_line
from tests.fuzz.choices import Choices
from tests.fuzz.folder import empty_folder

_NAMES = (
    "/kubepods/pod1", "kubepods-pod1.slice", "/kubepods.slice/kubepods-pod1.slice",
    "kubepods-pod1.slice:cri:c1", "/kubepods/pod1/c1",
)  # fmt: skip
# Parts of valid and invalid names.
_WORDS = (
    "kubepods", "-", ".slice", "/", ":", "pod1", "cri", "c1", "..", ".", "\0", "é", "-a" * 300,
    "x" * 300, "burstable", "\n",
)  # fmt: skip
_FOLDERS = ("kubepods/pod1", "kubepods.slice/kubepods-pod1.slice", "kubepods/pod1/c1")
_FILES = (
    "hugetlb.2MB.max", "hugetlb.1GB.max", "hugetlb.3MB.max", "hugetlb.2MB.rsvd.max",
    "hugetlb.2MB.limit_in_bytes", "cpuset.mems", "cpuset.effective_mems", "container/cpuset.mems",
    "memory.numa_stat", "hugetlb.2MB.current", "cpuset.mems.effective",
)  # fmt: skip
_TEXTS = (b"max\n", b"0\n", b"2097152\n", b"9223372036854771712\n", b"0-1,3\n", b"1024\n", b"",
          b"anon N0=5 N1=x\nfile N0=7", b"total=2 N0=2\nhierarchical_total=3 N0=3\n")  # fmt: skip
_DEVICES = ("pci0/gpu", "virtual/vfio/7", "virtual/nvme-subsystem/n0/nvme0n1", "virtual/mem/null")
_NODES = (b"0\n", b"-1\n", b"1023\n", b"1024\n", b"x\n")
_PATHS = ("/dev/vfio/7", "/dev/nvidia0", "/dev/null", "/dev/vfio/noiommu-7")


def one_input(data: bytes) -> None:
    """Write the trees and read cgroups and devices."""
    choices = Choices(data)
    root = empty_folder()
    _read_cgroup(choices, root / "cgroup")
    _read_device(choices, root)


def _read_cgroup(choices: Choices, root: Path) -> None:
    root.mkdir()
    if choices.flag():
        (root / "cgroup.controllers").write_text("cpuset hugetlb\n")
    for _ in range(choices.below(6)):
        top = root / choices.pick(("", "cpuset", "hugetlb"))
        path = top / choices.pick(_FOLDERS) / choices.pick(_FILES)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(choices.block() if choices.below(8) == 7 else choices.pick(_TEXTS))
    name = choices.pick(_NAMES)
    if choices.flag():
        name = "".join(choices.pick(_WORDS) for _ in range(choices.below(12)))
    assert qos_of_cgroup_parent(name) in QosClass
    directory = cgroup_directory(root, name, "hugetlb")
    if directory is not None:
        assert Path(os.path.normpath(directory)).is_relative_to(root)
    try:
        pod_hugepage_limits(root, name)
        set_mems(container_directory(root, name))
    except MachineError as error:
        check_one_line(error)
    if directory is not None:
        try:
            container_use(root, directory)
        except MachineError as error:
            check_one_line(error)


def _read_device(choices: Choices, root: Path) -> None:
    sysfs, proc = root / "sys", root / "proc"
    for name in _DEVICES:
        directory = sysfs / "devices" / name
        directory.mkdir(parents=True)
        if choices.flag():
            node = choices.block() if choices.below(8) == 7 else choices.pick(_NODES)
            (directory / "numa_node").write_bytes(node)
    for folder in ("char", "block"):
        (sysfs / "dev" / folder).mkdir(parents=True)
        link = sysfs / "dev" / folder / "1:3"
        link.symlink_to(choices.pick((*(sysfs / "devices" / name for name in _DEVICES), root)))
    members = sysfs / "kernel/iommu_groups/7/devices"
    members.mkdir(parents=True)
    for number in range(choices.below(3)):
        (members / f"d{number}").symlink_to(sysfs / "devices" / choices.pick(_DEVICES))
    gpu = proc / "driver/nvidia/gpus/gpu"
    gpu.mkdir(parents=True)
    (gpu / "information").write_bytes(choices.pick((b"Device Minor: 0\n", b"", b"\xff")))
    (sysfs / "bus/pci/devices").mkdir(parents=True)
    (sysfs / "bus/pci/devices/gpu").symlink_to(sysfs / "devices" / choices.pick(_DEVICES))
    kind = choices.pick(("c", "b", "u", "p", ""))
    major, minor = choices.pick((1, 195, choices.integer(8))), choices.pick((3, 0, 7, -1))
    path = choices.text() if choices.flag() else choices.pick(_PATHS)
    nodes = device_numa_nodes(sysfs, kind, major, minor, path, proc)
    assert nodes is None or nodes
