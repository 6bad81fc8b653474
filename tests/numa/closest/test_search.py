"""One example per method: which set is found, on which kind of machine."""

from itertools import combinations
from random import Random

import pytest

from nri_numamem.numa import Distances, NodeSet
from nri_numamem.numa.closest.hierarchy import Module, root_module
from nri_numamem.numa.closest.partial_sets import Amounts
from nri_numamem.numa.closest.search import Problem, closest_sets, find_closest
from tests.numa.closest.shapes import Rows, cube_rows, socket_rows

SOCKETS = socket_rows(12, (4,), (12, 21))
RANDOM = [
    [10, 11, 12, 13, 17],
    [11, 10, 14, 15, 18],
    [12, 14, 10, 16, 19],
    [13, 15, 16, 10, 20],
    [17, 18, 19, 20, 10],
]


def closest(
    rows: Rows | None, amounts: dict[int, Amounts], need: Amounts, count: int, fixed: str = ""
) -> str | None:
    distances = None if rows is None else Distances.of_rows(rows)
    found = find_closest(Problem(amounts, need, count, distances, NodeSet.parse(fixed)))
    return None if found is None else str(found)


def test_the_closest_set_without_the_need_covers() -> None:
    assert closest(SOCKETS, dict.fromkeys(range(12), (1,)), (4,), 4) == "0-3"


def test_the_dynamic_programme_finds_the_next_socket() -> None:
    amounts: dict[int, Amounts] = {n: (1 if n < 4 else 3,) for n in range(12)}
    assert closest(SOCKETS, amounts, (9,), 3) == "4-6"


def test_branch_and_bound_on_a_prime_machine() -> None:
    amounts: dict[int, Amounts] = {0: (1,), 1: (1,), 2: (5,), 3: (5,), 4: (9,)}
    assert closest(RANDOM, amounts, (), 2) == "0-1"
    assert closest(RANDOM, amounts, (6,), 2) == "0,2"
    assert closest(RANDOM, amounts, (14,), 2) == "2,4"
    assert closest(cube_rows(2), dict.fromkeys(range(2, 16), (1,)), (3,), 3) == "2-3,6"


def test_a_child_of_a_prime_machine_without_nodes_to_choose() -> None:
    amounts: dict[int, Amounts] = {0: (1,), 1: (1,), 4: (2,), 15: (1,)}
    assert closest(cube_rows(2), amounts, (3,), 2) == "0,4"


def test_without_distances_the_lowest_ids_win() -> None:
    amounts: dict[int, Amounts] = {0: (1,), 3: (2,), 5: (3,), 7: (3,)}
    assert closest(None, amounts, (), 2) == "0,3"
    assert closest(None, amounts, (5,), 2) == "3,5"


def test_distances_to_fixed_nodes_count() -> None:
    assert closest(SOCKETS, dict.fromkeys(range(8), (1,)), (1,), 1, fixed="9") == "0"
    assert closest(SOCKETS, dict.fromkeys((0, 1, 10, 11), (1,)), (1,), 1, fixed="9") == "10"


def test_nothing_to_choose() -> None:
    assert closest(SOCKETS, {0: (1,)}, (0,), 0) == ""
    assert closest(SOCKETS, {0: (1,)}, (1,), 0) is None
    assert closest(SOCKETS, {0: (1,)}, (1,), 2) is None


@pytest.mark.parametrize("rows", [SOCKETS, cube_rows(2)])
def test_no_set_of_the_size_covers(rows: Rows) -> None:
    assert closest(rows, dict.fromkeys(range(12), (1,)), (5,), 4) is None


def test_amounts_that_differ_little_are_compared_exactly_in_the_end() -> None:
    # 0-1 are closest and hold as much as is needed when rounded up, but one byte less in fact.
    rows = [[10, 11, 20, 20], [11, 10, 20, 20], [20, 20, 10, 12], [20, 20, 12, 10]]
    amounts: dict[int, Amounts] = {0: (999,), 1: (1000,), 2: (1000,), 3: (1000,)}
    assert closest(rows, amounts, (2000,), 2) == "2-3"


@pytest.mark.parametrize("seed", range(10))
def test_closest_sets_of_each_size_against_enumeration(seed: int) -> None:
    """Nodes in sockets on boards; some have a higher cost of their own, two are no choice."""
    random = Random(seed)
    levels = sorted(random.choices(range(20, 60), k=3))

    def pair_distance(a: int, b: int) -> int:
        return levels[0] if a // 2 == b // 2 else levels[1] if a // 4 == b // 4 else levels[2]

    root = root_module(range(10), pair_distance)
    ids = sorted(random.sample(range(10), 8))
    node_costs = {n: random.choice((10, 10, 14)) for n in ids}
    found = closest_sets(root, node_costs, 6)
    assert len(found) == 7
    for count, best in enumerate(found):
        assert best == min(
            (
                sum(node_costs[n] for n in nodes)
                + sum(pair_distance(*pair) for pair in combinations(nodes, 2)),
                sum(1 << n for n in nodes),
            )
            for nodes in combinations(ids, count)
        )


def test_single_nodes_and_nodes_without_a_cost() -> None:
    assert closest_sets(Module((3,)), {3: 10}, 2) == [(0, 0), (10, 0b1000)]
    assert closest_sets(Module((3,)), {4: 10}, 2) == [(0, 0)]
    pair = Module((0, 1), (Module((0,)), Module((1,))), 20)
    assert closest_sets(pair, {}, 2) == [(0, 0)]
    assert closest_sets(pair, {0: 10, 1: 10}, 1) == [(0, 0), (10, 0b01)]
