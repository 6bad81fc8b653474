"""The host's network devices and the NUMA node of each, by rtnetlink.

The kernel reports the parent device of each network device (IFLA_PARENT_DEV_NAME and
IFLA_PARENT_DEV_BUS_NAME, Linux 5.14). The NUMA node of the parent is in sysfs. Virtual devices
such as bridges, veth pairs and loopback have no parent and are left out.

Sources: kernel include/uapi/linux/if_link.h; Documentation/ABI/testing/sysfs-bus-pci.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nri_numamem.host.devices import numa_nodes_of_link
from nri_numamem.numa.nodeset import NodeSet


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


class Link(Protocol):
    """A link message of rtnetlink, as pyroute2 returns it."""

    def get_attr(self, name: str, /) -> object:
        """Return an attribute; None when the message has none of this name."""

    def __getitem__(self, name: str, /) -> object:
        """Return a field of the message's header."""


class LinkSource(Protocol):
    """A connection to rtnetlink, such as ``pyroute2.IPRoute``."""

    def get_links(self) -> Iterable[Link]:
        """Return a message for each network device."""


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


def devices_of(source: LinkSource, sysfs_root: Path) -> list[NetworkDevice]:
    """Return the devices that have a parent device, by name."""
    found = []
    for link in source.get_links():
        bus, parent = (link.get_attr(f"IFLA_PARENT_DEV{key}NAME") for key in ("_BUS_", "_"))
        if bus and parent:
            nodes = numa_nodes_of_link(sysfs_root, f"{sysfs_root}/bus/{bus}/devices/{parent}")
            name, index = str(link.get_attr("IFLA_IFNAME")), int(str(link["index"]))
            found.append(NetworkDevice(name, f"{bus} {parent}", nodes, index))
    return sorted(found, key=lambda device: device.name)
