"""All sets of a small machine's nodes, from the closest to the farthest, written down once.

The order of sets of one size by distance, and among equals by lower ids, is the machine's and no
request's. Eight nodes have 255 sets: to run down those of one size until one covers is quicker
than any search, and most requests end with one of the first. Every node more doubles their number
and the time at the start, half a millisecond with eight; then ``closest`` has to search.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, starmap
from typing import TypeAlias

from nri_numamem.memorymanager.modules import PairCost

MOST_NODES = 8

RankedSet: TypeAlias = tuple[int, tuple[int, ...]]
"""A set of nodes as a mask, and its ids, ascending."""

RankedSets: TypeAlias = Sequence[Sequence[RankedSet]]
"""Index: number of nodes."""


def ranked_sets(node_ids: Iterable[int], pair_cost: PairCost) -> RankedSets:
    """Return all sets of the nodes; none, not even the empty one, of more than `MOST_NODES`.

    Of a node and itself the pair cost counts half, as in ``Distances.spread``.
    """
    ids = sorted(node_ids)
    if len(ids) > MOST_NODES:
        return ()
    ranked: list[tuple[RankedSet, ...]] = []
    for size in range(len(ids) + 1):
        keyed = sorted(
            (
                2 * sum(starmap(pair_cost, combinations(members, 2)))
                + sum(pair_cost(node_id, node_id) for node_id in members),
                sum(1 << node_id for node_id in members),
                members,
            )
            for members in combinations(ids, size)
        )
        ranked.append(tuple((mask, members) for _, mask, members in keyed))
    return tuple(ranked)
