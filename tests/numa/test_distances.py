from itertools import combinations
from random import Random

import pytest

from nri_numamem.numa import Distances, Machine, NodeSet, NumaNode, Preferences
from nri_numamem.numa.distances import MAX_NODES, rank_all_sets


def test_distances_of_a_machine() -> None:
    machine = Machine((NumaNode(0, 0, distances={0: 10, 3: 17}), NumaNode(3, 0)))
    distances = Distances.of_machine(machine)
    assert distances.between(0, 3) == 17
    assert distances.between(3, 0) == 20
    assert distances.pair_distance(0, 3) == 37


def test_unknown_distances_are_the_kernels_defaults() -> None:
    assert Distances().between(0, 0) == 10
    assert Distances().between(0, 1) == 20


def test_spread_is_the_sum_over_all_ordered_pairs() -> None:
    distances = Distances.of_rows([[10, 11, 30], [12, 10, 30], [30, 30, 13]])
    assert distances.spread(NodeSet([0, 1])) == 10 + 11 + 12 + 10
    assert distances.spread(NodeSet([2])) == 13
    assert distances.spread([]) == 0


def test_nodes_without_rows_get_a_decomposition_of_their_own() -> None:
    distances = Distances.of_rows([[10, 11], [11, 10]])
    assert distances.decomposition_with([0, 1]) is distances.decomposition
    assert distances.decomposition_with([0, 7]).root.node_ids == (0, 1, 7)
    assert distances.pair_distance(0, 7) == 40
    assert Distances().decomposition is None
    assert Distances().decomposition_with([4, 2]).root.node_ids == (2, 4)


def test_whether_all_nodes_have_the_local_distance_of_acpi() -> None:
    assert Distances.of_rows([[10, 20], [20, 10]]).have_equal_local
    assert not Distances.of_rows([[10, 20], [20, 11]]).have_equal_local


def test_ranked_sets_come_by_distance_then_lower_ids() -> None:
    distances = Distances.of_rows([[10, 21, 12], [21, 10, 21], [12, 21, 10]])
    assert [ids for _, ids in distances.ranked_sets(2, NodeSet([0, 2]))] == [(0, 2), (0, 1), (1, 2)]


def test_sets_are_sorted_by_distance_then_lower_ids() -> None:
    rows = [[10, 12, 21], [12, 10, 21], [21, 21, 10]]
    ranked = rank_all_sets(range(3), lambda a, b: rows[a][b] + rows[b][a])
    assert ranked[0] == ((0, ()),)
    assert [members for _, members in ranked[1]] == [(0,), (1,), (2,)]
    assert ranked[2] == ((0b011, (0, 1)), (0b101, (0, 2)), (0b110, (1, 2)))


@pytest.mark.parametrize("nodes", [1, 2, 5, MAX_NODES])
def test_all_sets_are_sorted_by_their_rank(nodes: int) -> None:
    random = Random(nodes)
    ids = sorted(random.sample(range(20), nodes))
    rows = {a: {b: random.randint(9, 12) for b in ids} for a in ids}
    distances = Distances(rows)
    preferences = Preferences(distances)
    for size in range(nodes + 1):
        ranked = distances.ranked_sets(size, NodeSet(ids))
        want = sorted(map(NodeSet, combinations(ids, size)), key=preferences.rank)
        assert [NodeSet.from_mask(mask) for mask, _ in ranked] == want
        assert [NodeSet(members) for _, members in ranked] == want


def test_a_large_machine_is_not_enumerated() -> None:
    assert rank_all_sets(range(MAX_NODES + 1), lambda *_: 40) == ()
    large = Distances.of_rows([[10] * 9 for _ in range(9)])
    assert large.ranked_sets(1, NodeSet([0])) == ()


def test_nodes_without_a_row_are_not_enumerated() -> None:
    distances = Distances.of_rows([[10, 20], [20, 10]])
    assert len(distances.ranked_sets(1, NodeSet([0]))) == 2
    assert distances.ranked_sets(1, NodeSet([0, 7])) == ()
    assert distances.ranked_sets(3, NodeSet([0, 1])) == ()
    assert Distances().ranked_sets(0, NodeSet()) == ((0, ()),)
