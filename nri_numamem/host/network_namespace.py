"""The network interfaces in the network namespace of a pod, with the NUMA nodes of their hardware.

Sysfs shows an interface only in the namespace to which it was moved, but always the hardware
behind it. So rtnetlink inside the namespace reports parent devices (``host.network``), and the
host's sysfs their NUMA nodes.

setns(2) moves a thread, needs CAP_SYS_ADMIN, and an open netlink socket or a thread inside keeps a
namespace alive after its pod; then a virtual function would never come back to the host. So only a
process of its own does this (``daemon.namespace_helper``), which returns to its own namespace each
time. Source: setns(2), network_namespaces(7).
"""

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nri_numamem.host.network import LinkSource, devices_of
from nri_numamem.numa.nodeset import NodeSet

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_OWN = "/proc/self/ns/net"
# Interfaces with hardware; a pod has fewer.
_INTERFACES_LIMIT = 32


@dataclass(frozen=True, slots=True)
class PodInterface:
    """A network interface with hardware, in a pod."""

    name: str
    nodes: NodeSet
    """Its NUMA node; empty if firmware does not report it."""
    is_primary: bool
    """Whether it has a default route in the main table, of IPv4 or IPv6."""


class Route(Protocol):
    """A route message of rtnetlink, as pyroute2 returns it."""

    def get_attr(self, name: str, /) -> object:
        """Return an attribute; None when the message has none of this name."""


class NamespaceSource(LinkSource, Protocol):
    """A connection to rtnetlink in one network namespace, such as ``pyroute2.IPRoute``."""

    def get_default_routes(self) -> Iterable[Route]:
        """Return the default routes of the main table, of IPv4 and IPv6."""


def read_pod_interfaces(path: Path, sysfs_root: Path) -> list[PodInterface]:
    """Return the interfaces with hardware in the network namespace at `path`, by name.

    Empty for the namespace of this process. Raises OSError when the path is no network namespace,
    or the process may not enter it.
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


def interfaces_of(source: NamespaceSource, sysfs_root: Path) -> list[PodInterface]:
    """Return the interfaces that have a parent device, by name."""
    primary = set(_indexes(source.get_default_routes()))
    return [
        PodInterface(each.name, each.numa_nodes or NodeSet(), each.index in primary)
        for each in devices_of(source, sysfs_root)[:_INTERFACES_LIMIT]
    ]


def _indexes(routes: Iterable[Route]) -> Iterable[object]:
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
