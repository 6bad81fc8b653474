"""The order of preference between admissible node sets of equal size.

The only tie-break: every choice between node sets, in the memory manager and in the merge of the
topology manager, is a minimum of ``Preferences.rank``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from nri_numamem.numa.distances import Distances
from nri_numamem.numa.idset import NodeSet

# Two different fractions whose denominators have up to 100 bits differ by more than 2**-200.
_FRACTION_BITS = 200

Closeness: TypeAlias = tuple[int, bool, int]
Rank: TypeAlias = tuple[int, bool, int, bool, int, int]


class Strategy(StrEnum):
    """Which of equally close node sets wins."""

    LOWEST_IDS = "lowest-ids"
    """The one with the lowest ids, as in the kubelet."""
    PACK = "pack"
    """The one with the least free memory, so that other nodes stay free for large requests."""
    SPREAD = "spread"
    """The one with the most free memory, so that the load is spread over the nodes."""
    BALANCED_WITH_CPUS = "balanced-with-cpus"
    """The one on which the used fractions of memory and CPU requests differ least afterwards."""


@dataclass(frozen=True, slots=True)
class PodStrategies:
    """The setting `podPlacementStrategies`."""

    allowed: tuple[Strategy, ...] = ()
    """The strategies that annotations may choose."""
    namespaces: tuple[str, ...] = ()
    """The namespaces whose pods may choose; empty: all."""

    def obstacle(self, namespace: str, text: str) -> str:
        """Return why an annotation of this text has no effect; "" if it has one."""
        if not self.allowed:
            return "podPlacementStrategies.allowed is empty, so annotations choose no strategy"
        if self.namespaces and namespace not in self.namespaces:
            return "podPlacementStrategies.namespaces does not list the pod's namespace"
        if text not in tuple(Strategy):
            return f"it is none of {', '.join(Strategy)}"
        if text not in self.allowed:
            return f"podPlacementStrategies.allowed has only {', '.join(self.allowed)}"
        return ""


@dataclass(frozen=True, slots=True)
class Balance:
    """Memory and CPU requests by node id, and those of the container that is placed.

    Source: kube-scheduler, NodeResourcesBalancedAllocation: the fractions of the resources'
    capacities that are in use, with the request in question included, should differ little. The
    scheduler limits fractions to 1; here CPU requests can exceed the CPUs of a node, which then
    counts as imbalance.
    """

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
    ) -> Balance:
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


@dataclass(frozen=True, slots=True)
class Preferences:
    """The criteria for node sets of equal size."""

    distances: Distances = field(default_factory=Distances)
    prefer_closest: bool = True
    """If false, lower ids win, as in the kubelet without prefer-closest-numa-nodes."""
    previous_nodes: NodeSet = field(default_factory=NodeSet)
    """The set that the container or its pod used before; it wins over sets of the same size."""
    last_resort: NodeSet = field(default_factory=NodeSet)
    """Nodes that are used only for what fits nowhere else; callers try the sets without them
    first, and `rank` does not consider them."""
    strategy: Strategy = Strategy.LOWEST_IDS
    free_bytes: Mapping[int, int] = field(default_factory=dict)
    """Node id -> free memory, for `PACK` and `SPREAD`."""
    balance: Balance | None = None
    """For `BALANCED_WITH_CPUS`; without it all sets count as equally balanced."""
    prefers_cpu_room: bool = False
    """Of equally close sets those win, by `balance`, whose CPUs suffice for all CPU requests."""
    ranks_single_nodes: bool = field(init=False, repr=False, compare=False)
    """Whether the distance of a node to itself can decide between single nodes."""

    def __post_init__(self) -> None:
        ranks_single_nodes = (
            self.strategy is not Strategy.LOWEST_IDS
            or self.prefers_cpu_room
            or (self.prefer_closest and not self.distances.have_equal_local)
        )
        object.__setattr__(self, "ranks_single_nodes", ranks_single_nodes)

    def rank(self, nodes: NodeSet) -> Rank:
        """Return a key: the closeness, room for CPU requests, the strategy, then lowest ids."""
        return (*self.closeness(nodes), self._lacks_cpus(nodes), self._weight(nodes), nodes.mask)

    def closeness(self, nodes: NodeSet) -> Closeness:
        """Return a key: fewest nodes, then the previous nodes, then closest.

        Source: kubelet topologymanager, NUMAInfo.Narrowest and NUMAInfo.Closest. The
        average distances of sets of one size have the same order as the sums.
        """
        spread = self.distances.spread(nodes) if self.prefer_closest else 0
        return (len(nodes), nodes != self.previous_nodes, spread)

    def _lacks_cpus(self, nodes: NodeSet) -> bool:
        if not self.prefers_cpu_room or self.balance is None:
            return False
        return self.balance.exceeds_cpus(nodes)

    def _weight(self, nodes: NodeSet) -> int:
        if self.strategy is Strategy.LOWEST_IDS:
            return 0
        if self.strategy is Strategy.BALANCED_WITH_CPUS:
            return 0 if self.balance is None else self.balance.difference(nodes)
        free_bytes = sum(self.free_bytes.get(node_id, 0) for node_id in nodes)
        return free_bytes if self.strategy is Strategy.PACK else -free_bytes

    def with_free_bytes(self, free_bytes: Mapping[int, int]) -> Preferences:
        """Return the same preferences for a state with this free memory by node id."""
        return replace(self, free_bytes=free_bytes)

    def without_distances(self) -> Preferences:
        """Return the same preferences without the distances."""
        return replace(self, prefer_closest=False)
