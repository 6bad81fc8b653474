"""The NUMA node behind a device node, such as a GPU's or a network function's.

The kernel knows a device by its numbers: /sys/dev/char/MAJOR:MINOR leads into the tree of
devices, and the first directory on the way up that has a ``numa_node`` tells the node; -1 means
that firmware did not say. Three kinds take another way: a VFIO group stands for all devices of
its IOMMU group, an NVMe namespace with several paths for its controllers, and NVIDIA's driver
shows its GPUs below /proc only.

What cannot be found out is None, never an error: a device without a node gives no hint. Symlinks
are followed only as long as they stay below the given root, so that a recorded tree tells
nothing about the host that it lies on.
Sources: kernel Documentation/ABI/testing/sysfs-dev and sysfs-bus-pci, drivers/vfio/vfio_main.c,
drivers/nvme/host/multipath.c; NVIDIA driver README, "The /proc filesystem interface".
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from nri_numamem.machine.sysfs import MachineError, entries_of, read_optional
from nri_numamem.memorymanager.nodeset import NODE_ID_LIMIT, NodeSet

_FOLDERS = {"c": "char", "u": "char", "b": "block"}
# What the driver has always used for /dev/nvidiaN; its devices are not in sysfs.
_NVIDIA_MAJOR = 195
# Functions of one group or paths to one disk; more than this is a mistake.
_MEMBERS_LIMIT = 64

_NODE = re.compile(r"\d{1,4}", re.ASCII)
# Where /sys/dev leads for a device without hardware, such as fuse or tun; the two left out stand
# for devices that have some.
_WITHOUT_HARDWARE = re.compile(r"(?:\.\./)*devices/virtual/(?!vfio/|nvme-subsystem/)")
_VFIO_GROUP = re.compile(r"(?:noiommu-)?(\d{1,9})", re.ASCII)
_VFIO_PATH = re.compile(r"/dev/vfio/((?:noiommu-)?\d{1,9})", re.ASCII)
_NVME_CONTROLLER = re.compile(r"nvme\d{1,9}", re.ASCII)
_DEVICE_MINOR = re.compile(r"^Device Minor:\s*(\d{1,9})\s*$", re.ASCII | re.MULTILINE)


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
    group = _VFIO_PATH.fullmatch(path)
    is_nvidia = folder == "char" and major == _NVIDIA_MAJOR
    if not (target or group or is_nvidia):
        return None
    root = Path(os.path.realpath(sysfs_root))
    device = _resolve(root, link) if target else None
    if device is not None:
        return _nodes_of_device(root, device)
    if is_nvidia:
        return _nodes_of_nvidia(root, proc_root, minor)
    return _nodes_of_vfio(root, group[1]) if group else None


def _nodes_of_device(root: Path, device: Path) -> NodeSet | None:
    match device.relative_to(root / "devices").parts:
        case ("virtual", "vfio", group):
            return _nodes_of_vfio(root, group)
        case ("virtual", "nvme-subsystem", name, *_):
            return _nodes_of_paths(root, root / "devices/virtual/nvme-subsystem" / name)
    return _node_above(root, device)


def _node_above(root: Path, device: Path) -> NodeSet | None:
    """Return the node of the first directory that tells one, from the device upwards."""
    directory = device
    while directory != root / "devices":
        text = read_optional(directory / "numa_node")
        if text is not None:
            return _parse(text)
        directory = directory.parent
    return None


def _nodes_of_vfio(root: Path, name: str) -> NodeSet | None:
    """Return the nodes of all devices of an IOMMU group, which are assigned together."""
    group = _VFIO_GROUP.fullmatch(name)
    if group is None:
        return None
    return _union(root, entries_of(root / "kernel/iommu_groups" / group[1] / "devices"))


def _nodes_of_paths(root: Path, subsystem: Path) -> NodeSet | None:
    """Return the nodes of the controllers through which a disk is reached."""
    links = entries_of(subsystem)
    return _union(root, (link for link in links if _NVME_CONTROLLER.fullmatch(link.name)))


def _nodes_of_nvidia(root: Path, proc_root: Path, minor: int) -> NodeSet | None:
    for gpu in entries_of(proc_root / "driver/nvidia/gpus")[:_MEMBERS_LIMIT]:
        found = _DEVICE_MINOR.search(read_optional(gpu / "information") or "")
        if found and int(found[1]) == minor:
            return _union(root, (root / "bus/pci/devices" / gpu.name,))
    return None


def _union(root: Path, links: Iterable[Path]) -> NodeSet | None:
    """Return all nodes of some devices; None when not one is known."""
    nodes = NodeSet()
    for link in sorted(links)[:_MEMBERS_LIMIT]:
        device = _resolve(root, link)
        nodes |= (_node_above(root, device) if device else None) or NodeSet()
    return nodes or None


def _target_of(link: str) -> str:
    """Return what a symlink says; "" when there is none."""
    try:
        return os.readlink(link)  # noqa: PTH115 - to make a Path takes longer than to ask
    except OSError:
        return ""


def _resolve(root: Path, link: Path | str) -> Path | None:
    """Return the device's own directory below the root; None when there is none."""
    target = Path(os.path.realpath(link))
    is_inside = target.is_relative_to(root / "devices")
    return target if is_inside and target.is_dir() else None


def _parse(text: str) -> NodeSet | None:
    found = _NODE.fullmatch(text)  # not -1: unknown
    node_id = int(found[0]) if found else NODE_ID_LIMIT
    return NodeSet([node_id]) if node_id < NODE_ID_LIMIT else None
