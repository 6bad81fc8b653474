import pytest

from nri_numamem.numa import Machine, NodeSet, NumaNode


def test_unknown_distances_are_the_kernels_defaults() -> None:
    node = NumaNode(1, 0, distances={0: 12})
    assert [node.distance_to(n) for n in (0, 1, 2)] == [12, 10, 20]


def test_the_node_set_of_a_machine() -> None:
    machine = Machine((NumaNode(0, 1), NumaNode(252, 0)))
    assert machine.node_set == NodeSet([0, 252])


@pytest.mark.parametrize("ids", [(1, 0), (0, 0)])
def test_ids_must_be_ascending_and_unique(ids: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ascending and unique"):
        Machine(tuple(NumaNode(n, 0) for n in ids))


def test_the_size_of_all_hugepage_pools() -> None:
    assert NumaNode(0, 1 << 34, {2 << 20: 100, 1 << 30: 3}).hugepages_bytes == (200 << 20) + (
        3 << 30
    )
    assert NumaNode(0, 1 << 34).hugepages_bytes == 0
