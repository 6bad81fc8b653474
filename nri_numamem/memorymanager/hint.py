"""Topology hints, and the order in which equally good node sets are taken.

A hint says "this request fits there"; `preferred` says that no smaller set of nodes could ever
hold it. Both managers use the type. `Preferences` is the tie-break in one place: every choice
between node sets, in the memory manager as in the merge, is a minimum of ``Preferences.rank``.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TypeAlias

from nri_numamem.memorymanager.distances import Distances
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.values import valueclass


@valueclass(frozen=True, slots=True)
class Hint:
    """One topology hint, as in the kubelet's Topology Manager."""

    affinity: NodeSet | None
    """Where the request fits; None is "anywhere"."""
    preferred: bool


HintMap: TypeAlias = Mapping[str, tuple[Hint, ...]]
"""Resource name -> hints. An empty tuple is "impossible" (never "no preference")."""

Rank: TypeAlias = tuple[int, bool, int, int]


@valueclass(frozen=True, slots=True)
class Preferences:
    """What decides between node sets of equal size."""

    distances: Distances = field(default_factory=Distances)
    prefer_closest: bool = True
    """Off, the lower ids win at once, as in the kubelet without prefer-closest-numa-nodes."""
    home: NodeSet = field(default_factory=NodeSet)
    """The set that the container or its pod had before wins over its equals; empty for none."""

    @property
    def tells_apart_singles(self) -> bool:
        """Tell whether one node can win over another one by more than its lower id, or as home."""
        return self.prefer_closest and not self.distances.are_local_alike

    def rank(self, nodes: NodeSet) -> Rank:
        """Return a key: fewest nodes, then home, then closest, then lowest ids.

        Source: the kubelet's narrowest and closest comparisons (Topology Manager, bitmask). The
        average distance of sets of one size orders as the sum of their distances does.
        """
        spread = self.distances.spread(nodes) if self.prefer_closest else 0
        return (len(nodes), nodes != self.home, spread, nodes.mask)

    def narrowest(self) -> "Preferences":
        """Return the same preferences without regard to distance."""
        return replace(self, prefer_closest=False)
