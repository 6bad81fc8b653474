"""The NUMA node behind a device node, such as a GPU's or a network function's.

The kernel knows a device by its numbers: /sys/dev/char/MAJOR:MINOR leads into the tree of
devices, and the first directory on the way up that has a ``numa_node`` tells the node; -1 means
that firmware did not say. Three kinds take another way: a VFIO group stands for all devices of
its IOMMU group, an NVMe namespace with several paths for its controllers, and NVIDIA's driver
shows its GPUs below /proc only.

The way there is remembered for as long as the link says the same, because to walk it takes 100 µs
and a container may get sixteen devices; the node itself is read each time.

What cannot be found out is None, never an error: a device without a node gives no hint. Symlinks
are followed only as long as they stay below the given root, so that a recorded tree tells
nothing about the host that it lies on.
Sources: kernel Documentation/ABI/testing/sysfs-dev and sysfs-bus-pci, drivers/vfio/vfio_main.c,
drivers/nvme/host/multipath.c; NVIDIA driver README, "The /proc filesystem interface".
"""

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from nri_numamem.machine.sysfs import MachineError, names_in, read_optional
from nri_numamem.memorymanager.nodeset import NODE_ID_LIMIT, NodeSet
from nri_numamem.values import valueclass

_FOLDERS = {"c": "char", "u": "char", "b": "block"}
# What the driver has always used for /dev/nvidiaN; its devices are not in sysfs.
_NVIDIA_MAJOR = 195
# Functions of one group or paths to one disk; more than this is a mistake.
_MEMBERS_LIMIT = 64

# GPUs have the minors up to this one; 254 and 255 are for all of them together.
_NVIDIA_LAST_GPU = 247
# More than a host has; past it the way to a device is looked for again.
_REMEMBERED = 512

_NODE = re.compile(r"\d{1,4}", re.ASCII)
# Where /sys/dev leads for a device without hardware, such as fuse or tun; the two left out stand
# for devices that have some.
_WITHOUT_HARDWARE = re.compile(r"(?:\.\./)*devices/virtual/(?!vfio/|nvme-subsystem/)")
_VFIO_GROUP = re.compile(r"(?:noiommu-)?(\d{1,9})", re.ASCII)
_VFIO_PATH = re.compile(r"/dev/vfio/((?:noiommu-)?\d{1,9})", re.ASCII)
_NVME_CONTROLLER = re.compile(r"nvme\d{1,9}", re.ASCII)
_DEVICE_MINOR = re.compile(r"^Device Minor:\s*(\d{1,9})\s*$", re.ASCII | re.MULTILINE)


@valueclass(frozen=True, slots=True)
class _Device:
    """Where a link leads to."""

    parts: tuple[str, ...]
    """The device's own directory, below "devices"."""
    node_file: str
    """What tells its node; "" when nothing does."""


def device_numa_nodes(
    sysfs_root: Path,
    device_type: str,
    major: int,
    minor: int,
    path: str,
    proc_root: Path = Path("/proc"),
) -> NodeSet | None:
    """Return the NUMA nodes of the hardware behind a device node; None when nobody knows.

    `device_type` is "c", "u" or "b", `path` the node's name in the container, which counts only
    for VFIO groups that the numbers do not lead to. Never raises.
    """
    try:
        return _nodes_of(sysfs_root, device_type, major, minor, path, proc_root)
    # A tree may hold anything: unreadable files, directories in their place, odd names.
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
        return None  # told apart early: nearly all devices that containers get are such
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
    """Return the nodes of all devices of an IOMMU group, which are assigned together."""
    group = _VFIO_GROUP.fullmatch(name)
    if group is None:
        return None
    folder = f"{root}/kernel/iommu_groups/{group[1]}/devices"
    return _union(root, (f"{folder}/{name}" for name in names_in(folder)))


def _nodes_of_paths(root: Path, subsystem: str) -> NodeSet | None:
    """Return the nodes of the controllers through which a disk is reached."""
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
    """Return all nodes of some devices; None when not one is known."""
    nodes = NodeSet()
    for link in sorted(links)[:_MEMBERS_LIMIT]:
        device = _resolve(root, link, _target_of(link))
        nodes |= (_node_of(device) if device else None) or NodeSet()
    return nodes or None


def _target_of(link: str) -> str:
    """Return what a symlink says; "" when there is none."""
    try:
        return os.readlink(link)  # noqa: PTH115 - to make a Path takes longer than to ask
    except OSError:
        return ""


def _resolve(root: Path, link: str, target: str) -> _Device | None:
    """Return the device behind a link that says `target`; None when there is none."""
    try:
        return _follow(root, link, target)
    except FileNotFoundError:  # not remembered
        return None


@lru_cache(_REMEMBERED)
def _follow(root: Path, link: str, _target: str) -> _Device:
    """Return the same, or raise FileNotFoundError.

    Never outside of the root. The first directory that tells a node counts, from the device's own
    upwards.
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
