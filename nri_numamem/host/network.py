"""Network devices and the NUMA node of each, of the host and of a pod, by rtnetlink.

The kernel reports the parent device of each network device (IFLA_PARENT_DEV_NAME and
IFLA_PARENT_DEV_BUS_NAME, Linux 5.14). The NUMA node of the parent is in sysfs. Virtual devices
such as bridges, veth pairs and loopback have no parent and are left out.

Sysfs shows an interface only in the network namespace to which it was moved, but always the
hardware behind it. So for a pod rtnetlink inside its namespace reports parent devices, and the
host's sysfs their NUMA nodes.

setns(2) moves a thread, needs CAP_SYS_ADMIN, and an open netlink socket or a thread inside keeps a
namespace alive after its pod; then a virtual function would never come back to the host. So only a
separate process does this (``daemon.namespace_helper``), which returns to its own namespace each
time.

Sources: kernel include/uapi/linux/if_link.h; Documentation/ABI/testing/sysfs-bus-pci; setns(2),
network_namespaces(7).
"""

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from nri_numamem.host.devices import numa_nodes_of_link
from nri_numamem.numa.idset import NodeSet

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_OWN = "/proc/self/ns/net"
# Interfaces with hardware; a pod has fewer.
_INTERFACES_LIMIT = 32

Rtnetlink: TypeAlias = Any
"""A connection in one network namespace, pyroute2.IPRoute, which has no types. Its messages have
attributes (`get_attr`) and fields of the header (`[]`)."""


@dataclass(frozen=True, slots=True)
class NetworkDevice:
    """A network device with hardware behind it."""

    name: str
    parent: str
    """Bus and name of the parent device, such as "pci 0000:3b:00.0"."""
    numa_nodes: NodeSet | None
    """The parent's NUMA node; None when firmware does not report it."""
    index: int = 0
    """The kernel's number of the device in its network namespace."""


def interface_nodes(sysfs_root: Path, name: str) -> NodeSet | None:
    """Return the NUMA node of the hardware of a network interface of the host.

    Empty if it has none, or if the node is unknown. None if sysfs does not have the interface: it
    shows those of the network namespace in which sysfs was mounted. Never raises.
    """
    link = f"{sysfs_root}/class/net/{name}"
    if "/" in name or "\0" in name or not os.path.islink(link):  # noqa: PTH114 - a Path is slower
        return None
    return numa_nodes_of_link(sysfs_root, link) or NodeSet()


def read_network_devices(sysfs_root: Path) -> list[NetworkDevice]:
    """Return the network devices of this process's network namespace, by name.

    Raises OSError when the kernel offers no rtnetlink.
    """
    from pyroute2 import IPRoute  # noqa: PLC0415 - large, and only commands need it

    with IPRoute() as route:
        return devices_of(route, sysfs_root)


def devices_of(source: Rtnetlink, sysfs_root: Path) -> list[NetworkDevice]:
    """Return the devices that have a parent device, by name."""
    found = []
    for link in source.get_links():
        bus, parent = (link.get_attr(f"IFLA_PARENT_DEV{key}NAME") for key in ("_BUS_", "_"))
        if bus and parent:
            nodes = numa_nodes_of_link(sysfs_root, f"{sysfs_root}/bus/{bus}/devices/{parent}")
            name, index = str(link.get_attr("IFLA_IFNAME")), int(str(link["index"]))
            found.append(NetworkDevice(name, f"{bus} {parent}", nodes, index))
    return sorted(found, key=lambda device: device.name)


@dataclass(frozen=True, slots=True)
class PodInterface:
    """A network interface with hardware, in a pod."""

    name: str
    nodes: NodeSet
    """Its NUMA node; empty if firmware does not report it."""
    is_primary: bool
    """Whether it has a default route in the main table, of IPv4 or IPv6."""


def read_pod_interfaces(path: Path, sysfs_root: Path) -> list[PodInterface]:
    """Return the interfaces with hardware in the network namespace at `path`, by name.

    Empty for the namespace of this process. Raises OSError if the path is no network namespace, or
    the process may not enter it.
    """
    from pyroute2 import IPRoute  # noqa: PLC0415 - large, and only the helper process needs it

    flags = os.O_RDONLY | os.O_CLOEXEC
    own = os.open(_OWN, flags)
    try:
        there = os.open(path, flags)
        try:
            if os.path.samestat(os.fstat(own), os.fstat(there)):
                return []
            _enter(there)
        finally:
            os.close(there)
        try:
            with IPRoute() as route:
                return interfaces_of(route, sysfs_root)
        finally:
            _enter(own)
    finally:
        os.close(own)


def interfaces_of(source: Rtnetlink, sysfs_root: Path) -> list[PodInterface]:
    """Return the interfaces that have a parent device, by name."""
    primary = set(_indexes(source.get_default_routes()))
    return [
        PodInterface(each.name, each.numa_nodes or NodeSet(), each.index in primary)
        for each in devices_of(source, sysfs_root)[:_INTERFACES_LIMIT]
    ]


def _indexes(routes: Iterable[Any]) -> Iterable[object]:
    """Yield the indexes of the interfaces of routes, which may have several next hops."""
    for route in routes:
        yield route.get_attr("RTA_OIF")
        hops = route.get_attr("RTA_MULTIPATH")
        for hop in hops if isinstance(hops, list) else ():
            yield hop["oif"]


def _enter(descriptor: int) -> None:
    """Move this thread to a network namespace; os.setns exists since Python 3.12."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
