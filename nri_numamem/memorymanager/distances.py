"""Distances between NUMA nodes (ACPI SLIT), and what a set of nodes costs with them.

The kubelet compares sets of equal size by the average distance over all ordered pairs, a node
with itself included. Sums order the same way and are exact, so only sums appear here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import combinations, starmap

from nri_numamem.memorymanager.machine import LOCAL_DISTANCE, REMOTE_DISTANCE, Machine
from nri_numamem.memorymanager.modules import Structure, structure_of
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.ranked import RankedSet, RankedSets, ranked_sets
from nri_numamem.values import valueclass


@valueclass(frozen=True, slots=True)
class Distances:
    """A distance for every ordered pair of nodes; the kernel's defaults stand in for gaps."""

    rows: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Node id -> node id -> distance."""
    structure: Structure | None = field(init=False, repr=False, compare=False)
    """The structure of all nodes that have a row, worked out once; None without rows."""
    are_local_alike: bool = field(init=False, repr=False, compare=False)
    """Whether every node is as far from itself as any other, which is what ACPI demands."""
    _ranked: RankedSets = field(init=False, repr=False, compare=False)
    """All sets of the nodes that have a row; empty where these are many."""
    _pairs: Mapping[int, Mapping[int, int]] = field(init=False, repr=False, compare=False)
    """pair() of all nodes that have a row."""

    def __post_init__(self) -> None:
        pairs = {
            a: {b: self.between(a, b) + self.between(b, a) for b in self.rows} for a in self.rows
        }
        object.__setattr__(self, "_pairs", pairs)
        structure = structure_of(self.rows, self.pair) if self.rows else None
        object.__setattr__(self, "structure", structure)
        object.__setattr__(self, "_ranked", ranked_sets(self.rows, self.pair))
        alike = all(self.between(node_id, node_id) == LOCAL_DISTANCE for node_id in self.rows)
        object.__setattr__(self, "are_local_alike", alike)

    @classmethod
    def of_machine(cls, machine: Machine) -> "Distances":
        """Take the distances of a machine's nodes."""
        return cls({node.node_id: node.distances for node in machine.nodes})

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> "Distances":
        """Take a matrix whose rows and columns are node ids (kubelet: dist[i][j], j = id)."""
        return cls({i: dict(enumerate(row)) for i, row in enumerate(rows)})

    def between(self, first: int, second: int) -> int:
        """Return the distance from `first` to `second`; it need not be the same back."""
        default = LOCAL_DISTANCE if first == second else REMOTE_DISTANCE
        row = self.rows.get(first)
        return default if row is None else row.get(second, default)

    def pair(self, first: int, second: int) -> int:
        """Return the sum of the distances there and back."""
        row = self._pairs.get(first)
        if row is None or second not in row:
            return self.between(first, second) + self.between(second, first)
        return row[second]

    def spread(self, nodes: Iterable[int]) -> int:
        """Return the sum over all ordered pairs of nodes, each node with itself included."""
        ids = tuple(nodes)
        own = sum([self.between(node_id, node_id) for node_id in ids])
        return own + sum(starmap(self.pair, combinations(ids, 2)))

    def ranked(self, size: int, among: NodeSet) -> Sequence[RankedSet]:
        """Return all sets of so many nodes, the closest first, then those with lower ids.

        None where the machine has too many, or some of the nodes `among` have no row.
        """
        if size >= len(self._ranked) or among.mask & ~self._ranked[-1][0][0]:
            return ()
        return self._ranked[size]

    def structure_with(self, nodes: Iterable[int]) -> Structure:
        """Return a structure that has all of these nodes, at least one."""
        ids = tuple(nodes)
        if self.structure is not None and self.rows.keys() >= set(ids):
            return self.structure
        return structure_of(sorted({*self.rows, *ids}), self.pair)
