"""Find the NUMA node of a device node, such as a GPU or a network function.

/sys/dev/char/MAJOR:MINOR is a symlink into the tree of devices. The nearest directory upwards with
a file ``numa_node`` has the device's NUMA node; -1 means that firmware does not report it. Three
kinds of device differ: a VFIO group has all devices of its IOMMU group, an NVMe namespace with
several paths has all its controllers, and NVIDIA's GPUs appear only below /proc.

Resolving a symlink takes 100 µs, and a container may have sixteen devices; the result is cached
until the symlink's target changes. The NUMA node itself is read each time.

An unknown NUMA node is None, never an error; such a device yields no hint. Symlinks that leave the
root are ignored, so a recorded tree never shows facts of the host on which it is stored.
Sources: kernel Documentation/ABI/testing/sysfs-dev and sysfs-bus-pci, drivers/vfio/vfio_main.c,
drivers/nvme/host/multipath.c; NVIDIA driver README, "The /proc filesystem interface".
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nri_numamem.host.sysfs import MachineError, names_in, read_optional
from nri_numamem.numa.idset import NODE_ID_LIMIT, NodeSet

_FOLDERS = {"c": "char", "u": "char", "b": "block"}
# The driver's fixed major number of /dev/nvidiaN; these devices are not in sysfs.
_NVIDIA_MAJOR = 195
# Maximum number of functions of an IOMMU group, or of paths to a disk, that are read.
_MEMBERS_LIMIT = 64

# GPUs have minor numbers up to this one; 254 and 255 are control devices.
_NVIDIA_LAST_GPU = 247
# More devices than a host has.
_CACHE_SIZE = 512

_NODE = re.compile(r"\d{1,4}", re.ASCII)
# Target of a symlink for a device without hardware, such as fuse or tun; VFIO groups and NVMe
# subsystems are virtual, but have hardware.
_WITHOUT_HARDWARE = re.compile(r"(?:\.\./)*devices/virtual/(?!vfio/|nvme-subsystem/)")
_VFIO_GROUP = re.compile(r"(?:noiommu-)?(\d{1,9})", re.ASCII)
_VFIO_PATH = re.compile(r"/dev/vfio/((?:noiommu-)?\d{1,9})", re.ASCII)
_NVME_CONTROLLER = re.compile(r"nvme\d{1,9}", re.ASCII)
_DEVICE_MINOR = re.compile(r"^Device Minor:\s*(\d{1,9})\s*$", re.ASCII | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Device:
    """The target of a symlink below /sys/dev."""

    parts: tuple[str, ...]
    """The parts of the device's directory below "devices"."""
    node_file: str
    """The path of its file numa_node; "" when there is none."""


def device_numa_nodes(
    sysfs_root: Path,
    device_type: str,
    major: int,
    minor: int,
    path: str,
    proc_root: Path = Path("/proc"),
) -> NodeSet | None:
    """Return the NUMA nodes of the hardware behind a device node; None when they are unknown.

    `device_type` is "c", "u" or "b". `path` is the device node's path in the container; it is used
    only for VFIO groups that are not below /sys/dev. Never raises.
    """
    try:
        return _nodes_of(sysfs_root, device_type, major, minor, path, proc_root)
    # The tree may have unreadable files, directories in place of files, or invalid names.
    except (OSError, ValueError, MachineError):
        return None


def numa_nodes_of_link(sysfs_root: Path, link: str) -> NodeSet | None:
    """Return the NUMA node of the device behind a symlink of sysfs; None when it is unknown.

    `link` is a path below `sysfs_root`, such as "/sys/bus/pci/devices/0000:3b:00.0". Never raises.
    """
    try:
        return _union(sysfs_root, (link,))
    except (OSError, ValueError, MachineError):
        return None


def _nodes_of(
    sysfs_root: Path, device_type: str, major: int, minor: int, path: str, proc_root: Path
) -> NodeSet | None:
    folder = _FOLDERS.get(device_type)
    if folder is None:
        return None
    link = f"{sysfs_root}/dev/{folder}/{major}:{minor}"
    target = _target_of(link)
    if _WITHOUT_HARDWARE.match(target):
        return None  # decided early, since nearly all devices of containers are of this kind
    if target and (device := _resolve(sysfs_root, link, target)):
        return _nodes_of_device(sysfs_root, device)
    if folder == "char" and major == _NVIDIA_MAJOR:
        return _nodes_of_nvidia(sysfs_root, proc_root, minor)
    group = _VFIO_PATH.fullmatch(path)
    return _nodes_of_vfio(sysfs_root, group[1]) if group else None


def _nodes_of_device(root: Path, device: _Device) -> NodeSet | None:
    match device.parts:
        case ("virtual", "vfio", group):
            return _nodes_of_vfio(root, group)
        case ("virtual", "nvme-subsystem", name, *_):
            return _nodes_of_paths(root, f"{root}/devices/virtual/nvme-subsystem/{name}")
    return _node_of(device)


def _node_of(device: _Device) -> NodeSet | None:
    text = read_optional(device.node_file) if device.node_file else None
    return None if text is None else _parse(text)


def _nodes_of_vfio(root: Path, name: str) -> NodeSet | None:
    """Return the NUMA nodes of all devices of an IOMMU group, which is assigned as a whole."""
    group = _VFIO_GROUP.fullmatch(name)
    if group is None:
        return None
    folder = f"{root}/kernel/iommu_groups/{group[1]}/devices"
    return _union(root, (f"{folder}/{name}" for name in names_in(folder)))


def _nodes_of_paths(root: Path, subsystem: str) -> NodeSet | None:
    """Return the NUMA nodes of the controllers of an NVMe subsystem."""
    names = filter(_NVME_CONTROLLER.fullmatch, names_in(subsystem))
    return _union(root, (f"{subsystem}/{name}" for name in names))


def _nodes_of_nvidia(root: Path, proc_root: Path, minor: int) -> NodeSet | None:
    if minor > _NVIDIA_LAST_GPU:
        return None
    folder = f"{proc_root}/driver/nvidia/gpus"
    for name in names_in(folder)[:_MEMBERS_LIMIT]:
        found = _DEVICE_MINOR.search(read_optional(f"{folder}/{name}/information") or "")
        if found and int(found[1]) == minor:
            return _union(root, (f"{root}/bus/pci/devices/{name}",))
    return None


def _union(root: Path, links: Iterable[str]) -> NodeSet | None:
    """Return the NUMA nodes of all devices behind symlinks; None when no node is known."""
    nodes = NodeSet()
    for link in sorted(links)[:_MEMBERS_LIMIT]:
        device = _resolve(root, link, _target_of(link))
        nodes |= (_node_of(device) if device else None) or NodeSet()
    return nodes or None


def _target_of(link: str) -> str:
    """Return the target of a symlink; "" when there is none."""
    try:
        return os.readlink(link)  # noqa: PTH115 - making a Path takes longer
    except OSError:
        return ""


def _resolve(root: Path, link: str, target: str) -> _Device | None:
    """Return the device behind a symlink with this target; None when there is none."""
    try:
        return _follow(root, link, target)
    except FileNotFoundError:  # not cached
        return None


@lru_cache(_CACHE_SIZE)
def _follow(root: Path, link: str, _target: str) -> _Device:
    """Return the device behind a symlink; raise FileNotFoundError if it is not below the root.

    `_target` is part of the cache's key. The nearest numa_node upwards from the device's own
    directory is the device's.
    """
    devices = Path(os.path.realpath(root)) / "devices"
    directory = Path(os.path.realpath(link))
    if not (directory.is_relative_to(devices) and directory.is_dir()):
        raise FileNotFoundError(link)
    parts = directory.relative_to(devices).parts
    while directory != devices:
        node_file = directory / "numa_node"
        if node_file.exists():
            return _Device(parts, str(node_file))
        directory = directory.parent
    return _Device(parts, "")


def _parse(text: str) -> NodeSet | None:
    found = _NODE.fullmatch(text)  # not -1: unknown
    node_id = int(found[0]) if found else NODE_ID_LIMIT
    return NodeSet([node_id]) if node_id < NODE_ID_LIMIT else None
