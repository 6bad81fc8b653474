import pytest

from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode, cpus_of


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


NO_CPUS = CpuSet()


def machine() -> Machine:
    """Nodes 0-1 and 2-3 are close; 4 has no CPUs and is near 2, 5 is as near to 0 as to 1."""
    distances = {
        0: {0: 10, 1: 12, 2: 20, 3: 20, 4: 28, 5: 17},
        1: {0: 12, 1: 10, 2: 20, 3: 20, 4: 28, 5: 17},
        2: {0: 20, 1: 20, 2: 10, 3: 12, 4: 17, 5: 28},
        3: {0: 20, 1: 20, 2: 12, 3: 10, 4: 20, 5: 28},
        4: {0: 28, 1: 28, 2: 17, 3: 20, 4: 10, 5: 30},
        5: {0: 17, 1: 17, 2: 28, 3: 28, 4: 30, 5: 10},
    }
    cpus = {0: [0, 1], 1: [2, 3], 2: [4, 5], 3: [6, 7]}
    return Machine(
        tuple(
            NumaNode(node, 1 << 30, cpus=CpuSet(cpus.get(node, [])), distances=distances[node])
            for node in distances
        )
    )


@pytest.mark.parametrize(
    ("nodes", "unusable", "cpus"),
    [
        ("2", "", "4-5"),
        ("0,3", "", "0-1,6-7"),
        ("2", "4", "5"),
        ("4", "", "4-5"),
        ("5", "", "0-3"),
        ("4-5", "", "0-5"),
        ("3-4", "", "6-7"),
        ("4", "4-5", "6-7"),
        ("2", "4-5", "6-7"),
        ("0-3", "0-7", ""),
        ("", "", "0-7"),
    ],
)
def test_cpus_of_nodes(nodes: str, unusable: str, cpus: str) -> None:
    found = cpus_of(machine(), NodeSet.parse(nodes), CpuSet.parse(unusable))
    assert str(found) == cpus


def test_a_machine_without_distances_has_equally_near_nodes() -> None:
    nodes = (NumaNode(n, 1 << 30, cpus=CpuSet([n] if n else [])) for n in range(3))
    assert str(cpus_of(Machine(tuple(nodes)), NodeSet({0}), NO_CPUS)) == "1-2"
