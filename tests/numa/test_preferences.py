import pytest

from nri_numamem.numa import Distances, NodeSet, Preferences

DISTANCES = Distances.of_rows([[10, 20, 12], [20, 10, 20], [12, 20, 10]])


def best(preferences: Preferences, *texts: str) -> str:
    return str(min(map(NodeSet.parse, texts), key=preferences.rank))


def test_fewer_nodes_win() -> None:
    assert best(Preferences(DISTANCES, previous_nodes=NodeSet([0, 2])), "0,2", "1") == "1"


def test_previous_nodes_win_over_closer_nodes() -> None:
    assert best(Preferences(DISTANCES, previous_nodes=NodeSet([1, 2])), "0,2", "1-2") == "1-2"


def test_closer_nodes_win_over_lower_ids() -> None:
    assert best(Preferences(DISTANCES), "0-1", "0,2") == "0,2"
    assert best(Preferences(DISTANCES, prefer_closest=False), "0-1", "0,2") == "0-1"
    assert best(Preferences(DISTANCES).without_distances(), "0-1", "0,2") == "0-1"


def test_lower_ids_decide_between_equals() -> None:
    assert best(Preferences(DISTANCES), "1-2", "0-1") == "0-1"


@pytest.mark.parametrize(("local", "expected"), [(10, False), (11, True)])
def test_the_local_distance_can_decide_between_single_nodes(local: int, *, expected: bool) -> None:
    preferences = Preferences(Distances.of_rows([[local, 20], [20, 10]]))
    assert preferences.ranks_single_nodes is expected
    assert best(preferences, "0", "1") == ("1" if expected else "0")
    assert not preferences.without_distances().ranks_single_nodes
