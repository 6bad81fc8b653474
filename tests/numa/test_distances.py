from nri_numamem.numa import Distances, Machine, NodeSet, NumaNode


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
