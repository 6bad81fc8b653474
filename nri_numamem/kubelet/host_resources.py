"""What the kubelet's PodResources API lists of a host, as values.

``podresources`` reads them from messages, and writes memory into messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from nri_numamem.numa import CpuSet, NodeSet

_NO_CPUS = CpuSet()


class Devices(NamedTuple):
    """Devices of one resource that are near the same NUMA nodes."""

    resource: str
    """As pods request it: vendor.com/nic."""
    ids: frozenset[str]
    nodes: NodeSet
    """Empty if the device plugin names none."""


@dataclass(frozen=True, slots=True)
class KubeletResources:
    """What the kubelet manages itself."""

    devices: tuple[Devices, ...] = ()
    """Healthy devices, used ones included."""
    used_devices: frozenset[tuple[str, str]] = frozenset()
    """(resource, device id)"""
    allocatable_cpus: CpuSet = _NO_CPUS
    """All but reserved ones; empty without the static CPU manager."""
    exclusive_cpus: CpuSet = _NO_CPUS
    """The CPUs that pods and containers have for themselves."""

    @property
    def has_static_cpu_manager(self) -> bool:
        """Whether the CPU manager gives exclusive CPUs; without, it lists none at all."""
        return bool(self.allocatable_cpus)


class MemoryEntry(NamedTuple):
    """Bytes of one resource on one NUMA node."""

    resource: str
    """memory or hugepages-<size>"""
    node_id: int
    size_bytes: int


PodMemory: TypeAlias = Mapping[str, tuple[MemoryEntry, ...]]
"""Container name -> memory; the name "" has what belongs to the pod as a whole."""
HostMemory: TypeAlias = Mapping[tuple[str, str], PodMemory]
"""(namespace, name of a pod) -> its memory."""
