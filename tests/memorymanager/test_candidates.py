import pytest

from nri_numamem.memorymanager import Hint, State, adopt, mark_reusable
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.candidates import (
    candidates_for,
    crosses_groups,
    free_bytes,
    is_admissible,
)
from nri_numamem.numa import Distances, NodeSet, Preferences

LOWEST = Preferences(prefer_closest=False)
NOWHERE = NodeSet()


def nodes(text: str) -> NodeSet:
    return NodeSet.parse(text)


@pytest.mark.parametrize(
    ("text", "crosses"),
    [
        ("0", False),
        ("1", True),
        ("3", False),
        ("1-2", False),
        ("0,3", True),
        ("1-3", True),
        ("3-5", False),
        ("9", True),
        ("3,9", True),
        ("", False),
    ],
)
def test_groups_are_not_mixed(state: State, text: str, crosses: bool) -> None:
    assert crosses_groups(state, nodes(text)) is crosses


def test_free_bytes_of_known_nodes(state: State) -> None:
    assert free_bytes(state, nodes("0,2-3,9"), "memory") == 3 + 3 + 4
    assert free_bytes(state, nodes("0"), "hugepages-2Mi") == 0


@pytest.mark.parametrize(
    ("text", "size", "fits"),
    [
        ("0", 3, True),
        ("0", 4, False),
        ("1-2", 3, True),
        ("1-2", 4, False),
        ("3-4", 8, True),
        ("3-4", 9, False),
        ("0,3", 1, False),
    ],
)
def test_admissible_sets(state: State, text: str, size: int, fits: bool) -> None:
    assert is_admissible(state, "new", {"memory": size}, nodes(text)) is fits


def test_reusable_bytes_count_as_free_for_the_pod_on_the_same_set(state: State) -> None:
    state = mark_reusable(state, "two", "x")
    assert is_admissible(state, "two", {"memory": 8}, nodes("1-2"))
    assert not is_admissible(state, "new", {"memory": 8}, nodes("1-2"))


@pytest.mark.parametrize(
    ("size", "minimum", "best"),
    [
        (3, 1, "0"),
        (4, 1, "3"),
        (5, 2, "3-4"),
        (8, 2, "3-4"),
        (9, 3, "3-5"),
        (13, 4, None),
        (24, 6, None),
        (25, None, None),
    ],
)
def test_the_best_set(state: State, size: int, minimum: int | None, best: str | None) -> None:
    candidates = candidates_for(state, "new", {"memory": size}, NOWHERE)
    assert candidates.minimum == minimum
    assert candidates.best(LOWEST) == (None if best is None else nodes(best))


def test_the_best_single_node_is_the_previous_then_the_nearest_to_itself_then_the_lowest(
    state: State,
) -> None:
    rows = [[10 if a == b else 20 for b in range(6)] for a in range(6)]
    rows[3][3] = 9
    odd = Distances.of_rows(rows)
    assert not odd.have_equal_local
    for preferences, best in (
        (Preferences(), "0"),
        (Preferences(odd), "3"),
        (Preferences(odd, prefer_closest=False), "0"),
        (Preferences(odd, previous_nodes=nodes("5")), "5"),
        (Preferences(previous_nodes=nodes("1")), "0"),  # in a group
        (Preferences(previous_nodes=nodes("4-5")), "0"),
    ):
        candidates = candidates_for(state, "new", {"memory": 3}, preferences.previous_nodes)
        assert candidates.best(preferences) == nodes(best)
        assert candidates.best(preferences) == min(candidates.listed, key=preferences.rank)


def test_a_group_wins_over_more_unassigned_nodes(state: State) -> None:
    state = assign(state, "x", "x", nodes("3"), {"memory": 4})
    candidates = candidates_for(state, "new", {"memory": 3}, NOWHERE)
    assert nodes("1-2") in candidates.listed
    assert candidates.best(LOWEST, nodes("1")) == nodes("1-2")
    assert candidates.best(LOWEST, nodes("5")) == nodes("5")
    assert candidates.best(LOWEST, nodes("4-5")) == nodes("4-5")
    assert candidates.best(LOWEST, nodes("0,4")) is None
    assert not candidates.hint(nodes("1-2")).preferred
    assert candidates.hint(nodes("5")).preferred


def test_sets_with_blocks_of_the_pod_are_candidates(state: State) -> None:
    """A set that was adopted across groups is neither a group nor unassigned."""
    state = adopt(state, "old", "x", nodes("2-3"), {"memory": 4}).state
    state = mark_reusable(state, "old", "x")
    candidates = candidates_for(state, "old", {"memory": 4}, nodes("4-5"))
    assert nodes("2-3") not in candidates.listed
    assert nodes("4-5") in candidates.listed


def test_a_request_of_zero_bytes_fits_on_any_node(state: State) -> None:
    candidates = candidates_for(state, "new", {"memory": 0}, NOWHERE)
    assert candidates.minimum == 1
    assert candidates.best(LOWEST) == nodes("0")
    assert candidates_for(State({}), "new", {"memory": 0}, NOWHERE).minimum is None


def test_a_resource_that_no_node_has(state: State) -> None:
    candidates = candidates_for(state, "new", {"memory": 1, "hugepages-1Gi": 1}, NOWHERE)
    assert candidates.minimum is None
    assert candidates.best(LOWEST) is None


def test_the_candidates_of_a_request_are_kept_with_the_state(state: State) -> None:
    candidates = candidates_for(state, "new", {"memory": 5}, NOWHERE)
    assert candidates_for(state, "new", {"memory": 5}, NOWHERE) is candidates
    assert candidates_for(state, "new", {"memory": 3}, NOWHERE).best(LOWEST) == nodes("0")
    after = assign(state, "other", "x", nodes("3"), {"memory": 1})
    assert candidates_for(after, "new", {"memory": 5}, NOWHERE).best(LOWEST) == nodes("4-5")
    assert candidates.best(LOWEST) == candidates.best(LOWEST) == nodes("3-4")
    assert candidates.best(LOWEST, nodes("5")) == nodes("3,5")


def test_a_hint_is_a_value() -> None:
    hint = Hint(NodeSet([0, 1]), preferred=True)
    assert hint == Hint(NodeSet.parse("0-1"), preferred=True)
    assert hint != Hint(NodeSet([0, 1]), preferred=False)
    assert len({hint, Hint(NodeSet([0, 1]), preferred=True)}) == 1


def test_any_nodes_differ_from_no_nodes() -> None:
    assert Hint(None, preferred=True) != Hint(NodeSet(), preferred=True)
