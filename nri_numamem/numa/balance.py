"""How far memory and CPU requests of a node set are from equal use.

Source: kube-scheduler, NodeResourcesBalancedAllocation: the fractions of the resources' capacities
that are in use, with the request in question included, should differ little. The scheduler limits
fractions to 1; here CPU requests can exceed the CPUs of a node, which then counts as imbalance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

_WHOLE = 1_000_000


@dataclass(frozen=True, slots=True)
class Balance:
    """Memory and CPU requests by node id, and those of the container that is placed."""

    cpu_millicores: Mapping[int, int] = field(default_factory=dict)
    """The CPUs of each node."""
    requested_millicores: Mapping[int, int] = field(default_factory=dict)
    """The CPU requests of the containers on each node."""
    added_millicores: int = 0
    """The CPU request of the container."""
    memory_bytes: Mapping[int, int] = field(default_factory=dict)
    """The allocatable memory of each node."""
    free_bytes: Mapping[int, int] = field(default_factory=dict)
    added_bytes: int = 0
    """The memory request of the container."""

    def with_memory(
        self, memory_bytes: Mapping[int, int], free_bytes: Mapping[int, int], added_bytes: int
    ) -> "Balance":
        """Return the same CPU requests with this memory."""
        return replace(
            self, memory_bytes=memory_bytes, free_bytes=free_bytes, added_bytes=added_bytes
        )

    def difference(self, nodes: Iterable[int]) -> int:
        """Return how far the two fractions of a set differ with the container, in millionths."""
        memory_bytes = used_bytes = millicores = requested = 0
        for node_id in nodes:
            size_bytes = self.memory_bytes.get(node_id, 0)
            memory_bytes += size_bytes
            used_bytes += size_bytes - self.free_bytes.get(node_id, 0)
            millicores += self.cpu_millicores.get(node_id, 0)
            requested += self.requested_millicores.get(node_id, 0)
        memory = _fraction(used_bytes + self.added_bytes, memory_bytes)
        return abs(memory - _fraction(requested + self.added_millicores, millicores))

    def exceeds_cpus(self, nodes: Iterable[int]) -> bool:
        """Return whether a set has more CPU requests than CPUs with the container."""
        ids = tuple(nodes)
        millicores = sum(self.cpu_millicores.get(node_id, 0) for node_id in ids)
        requested = sum(self.requested_millicores.get(node_id, 0) for node_id in ids)
        return requested + self.added_millicores > millicores


def _fraction(used: int, size: int) -> int:
    """Return used / size in millionths; 0 if there is none of the resource."""
    return used * _WHOLE // size if size > 0 else 0
