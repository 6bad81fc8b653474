"""Branch and bound over the children of a prime module, against all numbers of nodes."""

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from nri_numamem.numa.closest.branch_and_bound import Child, best_set_of_children
from nri_numamem.numa.closest.partial_sets import Bounds, PartialSet, PartialSets


def equivalent_nodes(
    ids: Sequence[int], node_cost: int, amounts: tuple[int, ...], pair_distance: int
) -> PartialSets:
    """Return the partial sets of nodes that differ only by their ids."""
    return [
        [
            PartialSet(
                n * node_cost + n * (n - 1) // 2 * pair_distance,
                sum(1 << node_id for node_id in ids[:n]),
                tuple(amount * n for amount in amounts),
            )
        ]
        for n in range(len(ids) + 1)
    ]


def enumerate_all(
    children: list[Child], distances: dict[tuple[int, int], int], bounds: Bounds
) -> PartialSet | None:
    found: list[PartialSet] = []
    for numbers in product(*(range(len(sets)) for _, sets in children)):
        if sum(numbers) != bounds.count:
            continue
        for chosen in product(*(sets[n] for n, (_, sets) in zip(numbers, children, strict=True))):
            cost = sum(each.cost for each in chosen)
            for a in range(len(children)):
                for b in range(a):
                    distance = distances[children[a][0], children[b][0]]
                    cost += distance * numbers[a] * numbers[b]
            held = tuple(sum(each.amounts[d] for each in chosen) for d in range(len(bounds.need)))
            if all(h >= n for h, n in zip(held, bounds.need, strict=True)):
                found.append(PartialSet(cost, sum(each.mask for each in chosen), held))
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(10))
def test_best_set_against_all_numbers_of_nodes(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        dimensions = random.choice((0, 1))
        children: list[Child] = []
        amounts: list[tuple[int, ...]] = []
        for first in range(0, 4 * random.randint(2, 5), 4):
            ids = range(first, first + random.randint(1, 4))
            held = tuple(random.randint(0, 5) for _ in range(dimensions))
            children.append((first, equivalent_nodes(ids, 10, held, random.choice((22, 24)))))
            amounts += [held] * len(ids)
        firsts = [first for first, _ in children]
        distances: dict[tuple[int, int], int] = {}
        for a, b in product(firsts, firsts):
            distances[a, b] = distances[b, a] = random.choice((40, 42, 60))

        def pair_distance(a: int, b: int, distances: dict[tuple[int, int], int] = distances) -> int:
            return distances[a, b]

        total = sum(held[0] for held in amounts) if dimensions else 0
        need = (random.randint(0, total + 1),) if dimensions else ()
        bounds = Bounds.of(amounts, need, random.randint(1, len(amounts)))
        found = best_set_of_children(children, pair_distance, bounds)
        expected = enumerate_all(children, distances, bounds)
        assert (found and found[:2]) == (expected and expected[:2])


def test_fewer_nodes_than_needed() -> None:
    children = [(0, equivalent_nodes((0, 1), 10, (), 20))]
    assert best_set_of_children(children, lambda a, b: a + b, Bounds.of([()] * 3, (), 3)) is None


def test_numbers_of_nodes_without_partial_sets() -> None:
    """A child may have partial sets of two nodes and none of one node."""
    first = [[PartialSet(0, 0, (0,))], [], [PartialSet(50, 0b11, (9,))]]
    second = equivalent_nodes((2, 3), 10, (1,), 10)
    bounds = Bounds.of([(0,), (9,), (1,), (1,)], (9,), 2)
    found = best_set_of_children([(0, first), (2, second)], lambda *_: 40, bounds)
    assert found == (50, 0b11, (9,))
