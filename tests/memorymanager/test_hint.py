from nri_numamem.memorymanager import Distances, NodeSet, Preferences

FAR, NEAR, LOW = NodeSet([0, 2]), NodeSet([1, 2]), NodeSet([0, 1])
ROWS = Distances.of_rows([[10, 20, 30], [20, 10, 11], [30, 11, 10]])


def best(*sets: NodeSet, preferences: Preferences) -> NodeSet:
    return min(sets, key=preferences.rank)


def test_fewest_nodes_first() -> None:
    assert best(LOW, NodeSet([2]), preferences=Preferences(ROWS)) == NodeSet([2])


def test_then_the_closest() -> None:
    assert best(LOW, FAR, NEAR, preferences=Preferences(ROWS)) == NEAR


def test_or_the_lowest_ids_as_in_the_kubelet() -> None:
    assert best(NEAR, FAR, LOW, preferences=Preferences(ROWS, prefer_closest=False)) == LOW
    assert best(NEAR, FAR, LOW, preferences=Preferences(ROWS).narrowest()) == LOW


def test_home_wins_over_its_equals_only() -> None:
    at_home = Preferences(ROWS, home=FAR)
    assert best(LOW, FAR, NEAR, preferences=at_home) == FAR
    assert best(NodeSet([2]), FAR, preferences=at_home) == NodeSet([2])
