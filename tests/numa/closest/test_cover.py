"""Examples of the covering problem; tests/property compares it with full enumeration."""

from random import Random

import pytest

from nri_numamem.numa import Distances, NodeSet, Preferences
from nri_numamem.numa.closest.cover import Cover
from tests.numa.closest.shapes import cube_rows, socket_rows

LOWEST = Preferences(prefer_closest=False)


def test_in_one_dimension_the_largest_nodes_are_the_smallest_set() -> None:
    cover = Cover({0: (2,), 1: (6,), 4: (5,)}, (11,))
    assert cover.lower_bound() == 2
    assert cover.smallest_size() == 2
    assert cover.smallest_size(at_least=3) == 3
    assert cover.smallest_size(fixed=NodeSet([0])) == 3
    assert cover.smallest_size(at_least=4) is None


def test_the_richest_nodes_of_one_dimension_often_cover() -> None:
    cover = Cover({0: (9, 1), 1: (8, 0), 2: (1, 0)}, (10, 1))
    assert cover.richest_cover(2)
    assert cover.smallest_size() == 2
    assert Cover({0: (3, 3), 1: (4, 0)}, (3, 3)).richest_cover(1)


def test_a_dimension_without_a_need_makes_no_difference() -> None:
    assert Cover({0: (3, 0), 1: (4, 1)}, (3, 0)).smallest_size() == 1


def test_numbers_of_nodes_per_class() -> None:
    """Neither the two largest nodes nor the two with most hugepages cover, one of each does."""
    amounts = {0: (9, 0), 1: (9, 0), 2: (2, 4), 3: (2, 4), 4: (5, 0)}
    cover = Cover(amounts, (11, 4))
    assert cover.smallest_size() == 2
    assert cover.best(2, LOWEST) == NodeSet([0, 2])
    assert Cover(amounts, (19, 8)).smallest_size() == 4


def test_a_size_that_each_dimension_alone_would_allow() -> None:
    """Two nodes hold 7 in either dimension alone, but no two nodes hold 7 in both."""
    cover = Cover({0: (4, 2), 1: (2, 4), 2: (3, 3), 3: (1, 1)}, (7, 7))
    assert cover.lower_bound() == 2
    assert cover.smallest_size() == 3


def test_fixed_nodes_belong_to_every_set() -> None:
    rows = socket_rows(4, (2,), (12, 21))
    cover = Cover(dict.fromkeys(range(4), (1,)), (2,))
    preferences = Preferences(Distances.of_rows(rows))
    assert cover.best(2, preferences) == NodeSet([0, 1])
    assert cover.best(2, preferences, NodeSet([3])) == NodeSet([2, 3])


def test_previous_nodes_win_over_sets_of_the_same_size() -> None:
    cover = Cover(dict.fromkeys(range(4), (1,)), (2,))
    previous_nodes = Preferences(previous_nodes=NodeSet([1, 3]))
    assert cover.best(2, previous_nodes) == NodeSet([1, 3])
    assert cover.best(3, previous_nodes) == NodeSet([0, 1, 2])
    assert cover.best(2, previous_nodes, NodeSet([0])) == NodeSet([0, 1])


def test_no_set_covers() -> None:
    assert Cover({}, (1,)).smallest_size() is None
    assert Cover({}, ()).smallest_size(0) == 0
    assert Cover({0: (1,)}, (2,)).smallest_size() is None
    with pytest.raises(ValueError, match="no 1 nodes cover"):
        Cover({0: (1,), 1: (1,)}, (2,)).best(1, LOWEST)
    with pytest.raises(ValueError, match="no 2 nodes cover"):
        Cover({0: (1,)}, (1,)).best(2, LOWEST)


def test_the_remaining_problem_when_nodes_are_chosen() -> None:
    cover = Cover({0: (5, 1), 1: (3, 0), 4: (2, 2)}, (6, 2))
    assert cover.without(NodeSet([0])) == Cover({1: (3, 0), 4: (2, 2)}, (1, 1))
    assert cover.without(NodeSet()) is cover
    assert cover.nodes == NodeSet([0, 1, 4])


def test_distances_may_be_unknown_for_some_nodes() -> None:
    near = Preferences(Distances({1: {2: 11}, 2: {1: 11}}))
    cover = Cover(dict.fromkeys((0, 1, 2, 9), (1,)), (2,))
    assert cover.best(2, near) == NodeSet([1, 2])
    assert cover.best(3, Preferences()) == NodeSet([0, 1, 2])


@pytest.mark.parametrize(
    ("rows", "size", "want"),
    [
        pytest.param(socket_rows(64, (8,), (12, 21)), 8, "0-7", id="one socket"),
        pytest.param(socket_rows(64, (8,), (12, 21)), 12, "0-11", id="a socket and a half"),
        pytest.param(socket_rows(64, (4, 16), (12, 21, 32)), 16, "0-15", id="a board"),
        pytest.param(cube_rows(8), 16, "0-15", id="two neighbours of a cube"),
        pytest.param([[10] * 64 for _ in range(64)], 33, "0-32", id="equal distances"),
    ],
)
def test_sixty_four_nodes(rows: list[list[int]], size: int, want: str) -> None:
    # MemTotal differs by some pages from node to node, as on real machines.
    amounts = {n: (2**36 - 4096 * (n * 37 % 101),) for n in range(64)}
    cover = Cover(amounts, (size * (2**36 - 2**20),))
    assert cover.smallest_size() == size
    assert str(cover.best(size, Preferences(Distances.of_rows(rows)))) == want


def test_most_nodes_of_each_socket_are_in_use() -> None:
    free = [n for n in range(64) if n % 8 >= 5]
    cover = Cover(dict.fromkeys(free, (1,)), (4,))
    preferences = Preferences(Distances.of_rows(socket_rows(64, (8, 16), (12, 21, 32))))
    assert str(cover.best(4, preferences)) == "5-7,13"


def test_irregular_amounts_and_distances_of_many_nodes() -> None:
    """Beyond the limits on the work the result still covers, with the given size."""
    random = Random(1)
    rows = [[10 if a == b else random.randint(11, 40) for b in range(64)] for a in range(64)]
    amounts = {n: tuple(random.randint(1, 10**6) for _ in range(4)) for n in range(64)}
    need = tuple(sum(held[d] for held in amounts.values()) // 3 for d in range(4))
    cover = Cover(amounts, need)
    size = cover.smallest_size()
    assert size is not None
    best = cover.best(size, Preferences(Distances.of_rows(rows)))
    assert len(best) == size
    assert cover.covers(best)
