"""How far memory and CPU requests of a node set are from equal use.

Source: kube-scheduler, NodeResourcesBalancedAllocation: the fractions of the resources' capacities
that are in use, with the request in question included, should differ little. The scheduler limits
fractions to 1; here CPU requests can exceed the CPUs of a node, which then counts as imbalance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

# Two different fractions whose denominators have up to 100 bits differ by more than 2**-200.
_FRACTION_BITS = 200


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
        """Return how far the two fractions of a set differ with the container, times 2**200.

        The values of two sets compare exactly as the differences do: equal ones are equal, and
        different ones differ (up to 2**64 bytes and 2**36 millicores).
        """
        memory_bytes = used_bytes = millicores = requested = 0
        for node_id in nodes:
            size_bytes = self.memory_bytes.get(node_id, 0)
            memory_bytes += size_bytes
            used_bytes += size_bytes - self.free_bytes.get(node_id, 0)
            millicores += self.cpu_millicores.get(node_id, 0)
            requested += self.requested_millicores.get(node_id, 0)
        used, size = _fraction(used_bytes + self.added_bytes, memory_bytes)
        busy, cpus = _fraction(requested + self.added_millicores, millicores)
        return (abs(used * cpus - busy * size) << _FRACTION_BITS) // (size * cpus)

    def exceeds_cpus(self, nodes: Iterable[int]) -> bool:
        """Return whether a set has more CPU requests than CPUs with the container."""
        ids = tuple(nodes)
        millicores = sum(self.cpu_millicores.get(node_id, 0) for node_id in ids)
        requested = sum(self.requested_millicores.get(node_id, 0) for node_id in ids)
        return requested + self.added_millicores > millicores


def _fraction(used: int, size: int) -> tuple[int, int]:
    """Return numerator and denominator of the used part; 0 if there is none of the resource."""
    return (used, size) if size > 0 else (0, 1)
