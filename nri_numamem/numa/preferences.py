"""The order of preference between admissible node sets of equal size.

The only tie-break: every choice between node sets, in the memory manager and in the merge of the
topology manager, is a minimum of ``Preferences.rank``.
"""

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nri_numamem.numa.distances import Distances
from nri_numamem.numa.nodeset import NodeSet

Rank: TypeAlias = tuple[int, bool, int, int]


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
    ranks_single_nodes: bool = field(init=False, repr=False, compare=False)
    """Whether the distance of a node to itself can decide between single nodes."""

    def __post_init__(self) -> None:
        ranks_single_nodes = self.prefer_closest and not self.distances.have_equal_local
        object.__setattr__(self, "ranks_single_nodes", ranks_single_nodes)

    def rank(self, nodes: NodeSet) -> Rank:
        """Return a key: fewest nodes, then the previous nodes, then closest, then lowest ids.

        Source: kubelet topologymanager, NUMAInfo.Narrowest and NUMAInfo.Closest. The
        average distances of sets of one size have the same order as the sums.
        """
        spread = self.distances.spread(nodes) if self.prefer_closest else 0
        return (len(nodes), nodes != self.previous_nodes, spread, nodes.mask)

    def without_distances(self) -> "Preferences":
        """Return the same preferences without the distances."""
        return replace(self, prefer_closest=False)
