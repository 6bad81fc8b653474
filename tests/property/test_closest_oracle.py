"""The covering problem against full enumeration, on random machines of every shape."""

from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from nri_numamem.numa import Distances, NodeSet, Preferences
from nri_numamem.numa.closest.cover import Cover
from tests.numa.closest.shapes import random_rows, socket_rows

NOTHING = NodeSet()


def covering_sets(cover: Cover, size: int, fixed: NodeSet = NOTHING) -> Iterator[NodeSet]:
    found = map(NodeSet, combinations(cover.amounts, size))
    return (nodes for nodes in found if fixed.issubset(nodes) and cover.covers(nodes))


def smallest_size(cover: Cover, at_least: int, fixed: NodeSet = NOTHING) -> int | None:
    for size in range(at_least, len(cover.amounts) + 1):
        if next(covering_sets(cover, size, fixed), None) is not None:
            return size
    return None


def random_cover(random: Random, nodes: int = 12) -> Cover:
    dimensions = random.choice((0, 1, 1, 2, 2, 3))
    ids = sorted(random.sample(range(nodes), random.randint(1, 8)))
    kinds = [
        tuple(random.choice((0, 1, 2, 5, 1000, 1003)) for _ in range(dimensions))
        for _ in range(random.randint(1, 4))
    ]
    amounts = {n: random.choice(kinds) for n in ids}
    total = [sum(held[d] for held in amounts.values()) for d in range(dimensions)]
    need = tuple(random.randint(-1, max(1, most)) for most in total)
    return Cover(amounts, need)


@pytest.mark.parametrize("seed", range(30))
def test_smallest_size_and_best_set(seed: int) -> None:
    random = Random(seed)
    for rows in (16, 8) * 30:
        # All sets of up to eight nodes are enumerated by the package too.
        cover = random_cover(random, min(rows, 12))
        ids = list(cover.amounts)
        fixed = NodeSet(random.sample(ids, min(len(ids), random.choice((0, 0, 1, 2)))))
        at_least = random.choice((0, 1, 2))
        previous_nodes = NodeSet(random.sample(ids, min(len(ids), random.choice((0, 0, 2)))))
        preferences = Preferences(
            Distances.of_rows(random_rows(random, rows)), random.random() < 0.8, previous_nodes
        )
        least = smallest_size(cover, max(at_least, len(fixed)), fixed)
        assert cover.smallest_size(at_least, fixed) == least
        for size in range(least or 0, len(ids) + 1) if least is not None else ():
            want = min(covering_sets(cover, size, fixed), key=preferences.rank)
            assert cover.best(size, preferences, fixed) == want


@pytest.mark.parametrize("seed", range(10))
def test_ten_nodes_with_random_amounts(seed: int) -> None:
    """The result is exact among up to ten nodes, whatever they hold."""
    random = Random(seed)
    for _ in range(4):
        dimensions = random.choice((1, 2, 3))
        cover = Cover(
            {n: tuple(random.randint(0, 1000) for _ in range(dimensions)) for n in range(10)},
            tuple(random.randint(1, 3000) for _ in range(dimensions)),
        )
        preferences = Preferences(Distances.of_rows(random_rows(random, 16)))
        least = smallest_size(cover, 1)
        assert cover.smallest_size() == least
        for size in (least, least + 1) if least is not None and least < 10 else ():
            want = min(covering_sets(cover, size), key=preferences.rank)
            assert cover.best(size, preferences) == want


@pytest.mark.parametrize("seed", range(6))
def test_smallest_size_among_sixteen_different_nodes(seed: int) -> None:
    """Every node has other pools: the size is that of the smallest of all 65,535 sets."""
    random = Random(seed)
    kinds = [(9, 0, 0), (0, 9, 0), (0, 0, 9)] if seed % 2 else [(5, 5, 5)]
    amounts = {n: tuple(random.randint(0, 9) + a for a in random.choice(kinds)) for n in range(16)}
    need = tuple(sum(held[d] for held in amounts.values()) * 2 // 3 for d in range(3))
    sums = {0: (0, 0, 0)}
    least = 16
    for mask in range(1, 2**16):
        node_id = mask.bit_length() - 1
        a, b, c = sums[mask ^ 1 << node_id]
        x, y, z = amounts[node_id]
        sums[mask] = (a + x, b + y, c + z)
        if a + x >= need[0] and b + y >= need[1] and c + z >= need[2]:
            least = min(least, mask.bit_count())
    assert Cover(amounts, need).smallest_size() == least


@pytest.mark.parametrize("seed", range(10))
def test_nodes_whose_amounts_differ_little(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        dimensions = random.choice((1, 2))
        amounts = {
            n: tuple(random.randint(990, 1000) for _ in range(dimensions))
            for n in sorted(random.sample(range(16), 9))
        }
        size = random.randint(2, 5)
        need = tuple(random.randint(size * 990, size * 997) for _ in range(dimensions))
        cover = Cover(amounts, need)
        for rows in (random_rows(random, 16), socket_rows(16, (4, 8), (12, 21, 32))):
            preferences = Preferences(Distances.of_rows(rows))
            found = list(covering_sets(cover, size))
            if found:
                assert cover.best(size, preferences) == min(found, key=preferences.rank)
