"""Ways to take nodes from a module, by number of nodes, and how two modules' ways combine.

A way is (cost, mask of the nodes, what they hold per dimension). Ways compare by cost, then by
mask, so "the closest, then the lowest ids" is plain tuple order. When there is no need left to
meet, one way per number of nodes is kept. Otherwise a costlier way stays beside a cheaper one if
it holds more in some dimension, and amounts are cut off where more makes no difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

Amounts: TypeAlias = tuple[int, ...]
Way: TypeAlias = tuple[int, int, Amounts]
Ways: TypeAlias = list[list[Way]]
"""Index: number of nodes taken."""

# More ways than this side by side need amounts that differ oddly from node to node.
MOST_WAYS = 32


@dataclass(frozen=True, slots=True)
class Horizon:
    """What is asked for in the end, and what nodes not yet looked at can add to it."""

    count: int
    """Nodes to take in all."""
    need: Amounts
    least: tuple[tuple[int, ...], ...]
    """Per dimension, by number of nodes: what any so many nodes hold at least ..."""
    most: tuple[tuple[int, ...], ...]
    """... and at most."""

    @classmethod
    def of(cls, amounts: Sequence[Amounts], need: Amounts, count: int) -> "Horizon":
        """Look at all nodes' amounts."""
        ordered = [sorted(node[d] for node in amounts) for d in range(len(need))]
        return cls(
            count,
            need,
            tuple(tuple(accumulate(values, initial=0)) for values in ordered),
            tuple(tuple(accumulate(reversed(values), initial=0)) for values in ordered),
        )

    def keep(self, ways: list[Way], taken: int) -> list[Way]:
        """Return the ways to take `taken` nodes that may still be the best in the end."""
        if not self.need:
            return [min(ways)] if ways else []
        cheapest: dict[Amounts, tuple[int, int]] = {}
        for cost, mask, held in self._cut(ways, self.count - taken):
            if held not in cheapest or (cost, mask) < cheapest[held]:
                cheapest[held] = (cost, mask)
        kept: list[Way] = []
        for cost, mask, held in sorted((*way, held) for held, way in cheapest.items()):
            if not any(all(map(int.__ge__, other[2], held)) for other in kept):
                kept.append((cost, mask, held))
        if len(kept) <= MOST_WAYS:
            return kept
        # The richest stay in any case, so that what can be covered is covered.
        richest = [max(kept, key=lambda way: way[2][d]) for d in range(len(self.need))]
        return sorted({*kept[:MOST_WAYS], *richest})

    def _cut(self, ways: list[Way], missing: int) -> list[Way]:
        """Drop ways that cannot cover any more, and level what is enough whatever follows."""
        enough = [n - least[missing] for n, least in zip(self.need, self.least, strict=True)]
        floor = [n - most[missing] for n, most in zip(self.need, self.most, strict=True)]
        return [
            (cost, mask, tuple(map(min, held, enough)))
            for cost, mask, held in ways
            if all(map(int.__ge__, held, floor))
        ]


def run(ids: Sequence[int], cost: int, held: Amounts, apart: int, count: int) -> Ways:
    """Return the ways to take nodes that are all alike: the lowest ids, up to `count` of them."""
    ways: Ways = [[(0, 0, tuple(0 for _ in held))]]
    mask = 0
    for taken, node_id in enumerate(ids[:count], start=1):
        mask |= 1 << node_id
        total = cost * taken + apart * (taken * (taken - 1) // 2)
        ways.append([(total, mask, tuple(amount * taken for amount in held))])
    return ways


def join(first: Ways, second: Ways, apart: int, horizon: Horizon) -> Ways:
    """Return the ways to take nodes from two modules whose nodes are `apart` from each other."""
    longest = min(len(first) + len(second) - 2, horizon.count)
    found: Ways = [[] for _ in range(longest + 1)]
    for taken, ways in enumerate(first):
        for more in range(min(len(second), longest - taken + 1)):
            between = apart * taken * more
            found[taken + more] += [
                (a[0] + b[0] + between, a[1] | b[1], tuple(map(int.__add__, a[2], b[2])))
                for a in ways
                for b in second[more]
            ]
    return [horizon.keep(ways, taken) for taken, ways in enumerate(found)]
