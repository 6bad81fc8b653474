"""The lives of pods replay, and their rules show."""

from collections import Counter

from nri_numamem.engine.admission import equal_nodes
from tests.bench.pods_in_part import ended_containers, life, pods_in_part, without


def test_a_seed_replays() -> None:
    first, second = (life(3, "container", with_inits=True) for _ in range(2))
    assert first.decisions == second.decisions
    assert first.counts["refused"] > 0


def test_fewer_pods_start_in_part_with_the_rules() -> None:
    _, *rows = pods_in_part(4)
    in_part = [[int(cell.split()[0]) for cell in row[3:]] for row in rows]
    assert len(rows) == 8
    for row in (0, 1, 4, 5):  # container scope
        none, limit, both = in_part[row]
        assert both <= limit < none
    assert in_part[2:4] == [[0] * 3] * 2  # best-effort, pod scope


def test_a_life_in_which_room_for_the_rest_saves_a_pod() -> None:
    def counts() -> Counter[str]:
        return life(16, "container", with_inits=True, topology_policy="best-effort").counts

    with without(equal_nodes, "remaining_request", None):
        before = counts()
    assert (before["in part"], counts()["in part"]) == (1, 0)
    assert counts()["complete"] > before["complete"]


def test_fewer_lives_differ_with_the_pods_limit() -> None:
    (_, (_, kept), (_, limited)) = ended_containers(30)
    assert int(limited) < int(kept)
