"""Numbers of nodes per part, against trying all of them."""

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from nri_numamem.memorymanager.branches import best_of_parts
from nri_numamem.memorymanager.ways import Horizon, Way, Ways


def run(ids: Sequence[int], cost: int, held: tuple[int, ...], apart: int) -> Ways:
    """Return the ways to take nodes that are all alike."""
    return [
        [
            (
                n * cost + n * (n - 1) // 2 * apart,
                sum(1 << node_id for node_id in ids[:n]),
                tuple(amount * n for amount in held),
            )
        ]
        for n in range(len(ids) + 1)
    ]


def brute(
    parts: list[tuple[int, Ways]], costs: dict[tuple[int, int], int], horizon: Horizon
) -> Way | None:
    found: list[Way] = []
    for numbers in product(*(range(len(ways)) for _, ways in parts)):
        if sum(numbers) != horizon.count:
            continue
        for chosen in product(*(ways[n] for n, (_, ways) in zip(numbers, parts, strict=True))):
            cost = sum(way[0] for way in chosen)
            for a in range(len(parts)):
                for b in range(a):
                    cost += costs[parts[a][0], parts[b][0]] * numbers[a] * numbers[b]
            held = tuple(sum(way[2][d] for way in chosen) for d in range(len(horizon.need)))
            if all(h >= n for h, n in zip(held, horizon.need, strict=True)):
                found.append((cost, sum(way[1] for way in chosen), held))
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(10))
def test_trying_all_numbers_finds_the_same(seed: int) -> None:
    random = Random(seed)
    for _ in range(30):
        dimensions = random.choice((0, 1))
        parts: list[tuple[int, Ways]] = []
        amounts: list[tuple[int, ...]] = []
        for first in range(0, 4 * random.randint(2, 5), 4):
            ids = range(first, first + random.randint(1, 4))
            held = tuple(random.randint(0, 5) for _ in range(dimensions))
            parts.append((first, run(ids, 10, held, random.choice((22, 24)))))
            amounts += [held] * len(ids)
        firsts = [first for first, _ in parts]
        costs: dict[tuple[int, int], int] = {}
        for a, b in product(firsts, firsts):
            costs[a, b] = costs[b, a] = random.choice((40, 42, 60))
        total = sum(held[0] for held in amounts) if dimensions else 0
        need = (random.randint(0, total + 1),) if dimensions else ()
        horizon = Horizon.of(amounts, need, random.randint(1, len(amounts)))
        got = best_of_parts(parts, lambda a, b, costs=costs: costs[a, b], horizon)  # type: ignore[misc]
        want = brute(parts, costs, horizon)
        assert (got and got[:2]) == (want and want[:2])


def test_not_enough_nodes() -> None:
    parts = [(0, run((0, 1), 10, (), 20))]
    assert best_of_parts(parts, lambda a, b: a + b, Horizon.of([()] * 3, (), 3)) is None


def test_numbers_with_which_the_need_is_out_of_reach() -> None:
    """A part may have ways for two of its nodes and none for one."""
    first: Ways = [[(0, 0, (0,))], [], [(50, 0b11, (9,))]]
    second: Ways = [[(0, 0, (0,))], [(10, 0b100, (1,))], [(30, 0b1100, (2,))]]
    horizon = Horizon.of([(0,), (9,), (1,), (1,)], (9,), 2)
    found = best_of_parts([(0, first), (2, second)], lambda *_: 40, horizon)
    assert found == (50, 0b11, (9,))
