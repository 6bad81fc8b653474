from nri_numamem.memorymanager import Distances, Machine, NodeSet, NumaNode


def test_a_machine_gives_its_rows() -> None:
    machine = Machine((NumaNode(0, 0, distances={0: 10, 3: 17}), NumaNode(3, 0)))
    distances = Distances.of_machine(machine)
    assert distances.between(0, 3) == 17
    assert distances.between(3, 0) == 20
    assert distances.pair(0, 3) == 37


def test_gaps_are_filled_with_the_kernels_defaults() -> None:
    assert Distances().between(0, 0) == 10
    assert Distances().between(0, 1) == 20


def test_spread_counts_every_ordered_pair_and_every_node() -> None:
    distances = Distances.of_rows([[10, 11, 30], [12, 10, 30], [30, 30, 13]])
    assert distances.spread(NodeSet([0, 1])) == 10 + 11 + 12 + 10
    assert distances.spread(NodeSet([2])) == 13
    assert distances.spread([]) == 0


def test_a_structure_for_nodes_without_rows_is_made_when_asked() -> None:
    distances = Distances.of_rows([[10, 11], [11, 10]])
    assert distances.structure_with([0, 1]) is distances.structure
    assert distances.structure_with([0, 7]).module.node_ids == (0, 1, 7)
    assert distances.pair(0, 7) == 40
    assert Distances().structure is None
    assert Distances().structure_with([4, 2]).module.node_ids == (2, 4)
