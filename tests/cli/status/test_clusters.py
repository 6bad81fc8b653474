import pytest

from nri_numamem.cli.status.clusters import clusters_of
from nri_numamem.numa import Machine, NodeSet, NumaNode


def machine(distances: list[list[int]]) -> Machine:
    return Machine(
        tuple(
            NumaNode(n, 1 << 30, distances=dict(enumerate(row))) for n, row in enumerate(distances)
        )
    )


def rows(count: int, near: int) -> list[list[int]]:
    return [
        [10 if a == b else 12 if a // near == b // near else 20 for b in range(count)]
        for a in range(count)
    ]


@pytest.mark.parametrize(
    ("distances", "expected"),
    [
        (rows(4, 2), ["0-1", "2-3"]),
        (rows(6, 3), ["0-2", "3-5"]),
        (rows(3, 1), ["0", "1", "2"]),
        (rows(3, 3), ["0", "1", "2"]),
        (rows(34, 2), [str(n) for n in range(34)]),
    ],
    ids=["pairs", "triples", "equal", "one", "too many"],
)
def test_nodes_at_the_shortest_distance(distances: list[list[int]], expected: list[str]) -> None:
    described = machine(distances)
    assert [str(nodes) for nodes in clusters_of(described, described.node_set)] == expected


def test_only_the_wanted_nodes() -> None:
    assert clusters_of(machine(rows(4, 2)), NodeSet([0, 1, 3])) == [NodeSet([0, 1]), NodeSet([3])]


def test_without_distances_each_node_is_alone() -> None:
    plain = Machine(tuple(NumaNode(n, 1 << 30) for n in range(3)))
    assert len(clusters_of(plain, plain.node_set)) == 3
