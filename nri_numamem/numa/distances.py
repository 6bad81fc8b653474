"""Distances between NUMA nodes (ACPI SLIT), and the cost of a set of nodes.

The kubelet compares sets of equal size by the average distance over all ordered pairs, including
each node with itself. Sums have the same order and are exact, so only sums appear here.

All sets of a small machine's nodes are sorted once from the closest to the farthest. Eight nodes
have 255 sets: to go through those of one size until one covers the need is faster than any search,
and most requests end with one of the first. Each further node doubles the number of sets and the
time to sort them at the start (half a millisecond for eight); larger machines search.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, starmap
from typing import TypeAlias

from nri_numamem.numa.closest.hierarchy import Decomposition, PairDistance, decompose
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.machine import LOCAL_DISTANCE, REMOTE_DISTANCE, Machine

MAX_NODES = 8

RankedSet: TypeAlias = tuple[int, tuple[int, ...]]
"""A set of nodes as a mask, and its ids, ascending."""

RankedSets: TypeAlias = Sequence[Sequence[RankedSet]]
"""Index: number of nodes."""


@dataclass(frozen=True, slots=True)
class Distances:
    """A distance for every ordered pair of nodes; the kernel's default where it is unknown."""

    rows: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Node id -> node id -> distance."""
    decomposition: Decomposition | None = field(init=False, repr=False, compare=False)
    """The modules of all nodes that have a row, computed once; None without rows."""
    have_equal_local: bool = field(init=False, repr=False, compare=False)
    """Whether the distance of each node to itself is LOCAL_DISTANCE, as ACPI demands."""
    _ranked: RankedSets = field(init=False, repr=False, compare=False)
    """All sets of the nodes that have a row; empty on a larger machine."""
    _pairs: Mapping[int, Mapping[int, int]] = field(init=False, repr=False, compare=False)
    """pair_distance() of all nodes that have a row."""

    def __post_init__(self) -> None:
        pairs = {
            a: {b: self.between(a, b) + self.between(b, a) for b in self.rows} for a in self.rows
        }
        object.__setattr__(self, "_pairs", pairs)
        decomposition = decompose(self.rows, self.pair_distance) if self.rows else None
        object.__setattr__(self, "decomposition", decomposition)
        object.__setattr__(self, "_ranked", rank_all_sets(self.rows, self.pair_distance))
        equal = all(self.between(node_id, node_id) == LOCAL_DISTANCE for node_id in self.rows)
        object.__setattr__(self, "have_equal_local", equal)

    @classmethod
    def of_machine(cls, machine: Machine) -> "Distances":
        """Return the distances of a machine's nodes."""
        return cls({node.node_id: node.distances for node in machine.nodes})

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> "Distances":
        """Return the distances of a matrix: row and column numbers are node ids."""
        return cls({i: dict(enumerate(row)) for i, row in enumerate(rows)})

    def between(self, first: int, second: int) -> int:
        """Return the distance from `first` to `second`; the distance back may differ."""
        default = LOCAL_DISTANCE if first == second else REMOTE_DISTANCE
        row = self.rows.get(first)
        return default if row is None else row.get(second, default)

    def pair_distance(self, first: int, second: int) -> int:
        """Return the distance from `first` to `second` plus the distance back."""
        row = self._pairs.get(first)
        if row is None or second not in row:
            return self.between(first, second) + self.between(second, first)
        return row[second]

    def spread(self, nodes: Iterable[int]) -> int:
        """Return the cost of a set: the sum of the distances of all its ordered pairs.

        Each node with itself is a pair too.
        """
        ids = tuple(nodes)
        local = sum([self.between(node_id, node_id) for node_id in ids])
        return local + sum(starmap(self.pair_distance, combinations(ids, 2)))

    def ranked_sets(self, size: int, among: NodeSet) -> Sequence[RankedSet]:
        """Return all sets of `size` nodes, by distance, then by lower ids.

        Return nothing if the machine has too many nodes, or if a node of `among` has no row.
        """
        if size >= len(self._ranked) or among.mask & ~self._ranked[-1][0][0]:
            return ()
        return self._ranked[size]

    def decomposition_with(self, nodes: Iterable[int]) -> Decomposition:
        """Return a decomposition that has all of these nodes, at least one."""
        ids = tuple(nodes)
        if self.decomposition is not None and self.rows.keys() >= set(ids):
            return self.decomposition
        return decompose(sorted({*self.rows, *ids}), self.pair_distance)


def rank_all_sets(node_ids: Iterable[int], pair_distance: PairDistance) -> RankedSets:
    """Return all sets of the nodes; nothing, not even the empty set, for over `MAX_NODES` nodes.

    Sets of one size are in the order of distance, then of lower ids. The cost of a set is that of
    ``Distances.spread``, counted twice: so the pair distance of a node and itself counts once, and
    that of two nodes twice.
    """
    ids = sorted(node_ids)
    if len(ids) > MAX_NODES:
        return ()
    ranked: list[tuple[RankedSet, ...]] = []
    for size in range(len(ids) + 1):
        keyed = sorted(
            (
                2 * sum(starmap(pair_distance, combinations(members, 2)))
                + sum(pair_distance(node_id, node_id) for node_id in members),
                sum(1 << node_id for node_id in members),
                members,
            )
            for members in combinations(ids, size)
        )
        ranked.append(tuple((mask, members) for _, mask, members in keyed))
    return tuple(ranked)
