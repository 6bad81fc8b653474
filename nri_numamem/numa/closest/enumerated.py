"""Enumeration: all sets of a small machine's nodes, sorted once from the closest to the farthest.

The order of the sets of one size (by distance, then lower ids) depends on the machine only. Eight
nodes have 255 sets: to go through those of one size until one covers the need is faster than any
search, and most requests end with one of the first. Each further node doubles the number of sets
and the time to sort them at the start (half a millisecond for eight); larger machines search.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, starmap
from typing import TypeAlias

from nri_numamem.numa.closest.hierarchy import PairDistance

MAX_NODES = 8

RankedSet: TypeAlias = tuple[int, tuple[int, ...]]
"""A set of nodes as a mask, and its ids, ascending."""

RankedSets: TypeAlias = Sequence[Sequence[RankedSet]]
"""Index: number of nodes."""


def rank_all_sets(node_ids: Iterable[int], pair_distance: PairDistance) -> RankedSets:
    """Return all sets of the nodes; nothing, not even the empty set, for over `MAX_NODES` nodes.

    The cost of a set is that of ``Distances.spread``, counted twice: so the pair distance of a
    node and itself counts once, and that of two nodes twice.
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
