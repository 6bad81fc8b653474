from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Distances,
    NodeSet,
    Preferences,
    State,
    adopt,
    give_back,
)
from nri_numamem.memorymanager.books import assign
from nri_numamem.memorymanager.choices import (
    choices_for,
    crosses_groups,
    free_bytes,
    is_admissible,
)

LOWEST = Preferences(prefer_closest=False)
NOWHERE = NodeSet()


def nodes(text: str) -> NodeSet:
    return NodeSet.parse(text)


@pytest.fixture
def state(worlds: ModuleType) -> State:
    """Six nodes of 4: 0 serves a single-node assignment, 1-2 a group, 3-5 nothing."""
    state = worlds.empty_state({n: {"memory": 4} for n in range(6)})
    state = assign(state, "one", "x", nodes("0"), {"memory": 1})
    return assign(state, "two", "x", nodes("1-2"), {"memory": 5})


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


def test_what_a_pod_gave_back_is_free_for_it_on_the_same_set(state: State) -> None:
    state = give_back(state, "two", "x")
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
    choices = choices_for(state, "new", {"memory": size}, NOWHERE)
    assert choices.minimum == minimum
    assert choices.best(LOWEST) == (None if best is None else nodes(best))


def test_among_single_nodes_home_wins_then_the_nearest_to_itself_then_the_lowest(
    state: State,
) -> None:
    rows = [[10 if a == b else 20 for b in range(6)] for a in range(6)]
    rows[3][3] = 9
    odd = Distances.of_rows(rows)
    assert not odd.are_local_alike
    for preferences, best in (
        (Preferences(), "0"),
        (Preferences(odd), "3"),
        (Preferences(odd, prefer_closest=False), "0"),
        (Preferences(odd, home=nodes("5")), "5"),
        (Preferences(home=nodes("1")), "0"),  # in a group
        (Preferences(home=nodes("4-5")), "0"),
    ):
        choices = choices_for(state, "new", {"memory": 3}, preferences.home)
        assert choices.best(preferences) == nodes(best)
        assert choices.best(preferences) == min(choices.listed, key=preferences.rank)


def test_a_group_beats_more_unassigned_nodes(state: State) -> None:
    state = assign(state, "x", "x", nodes("3"), {"memory": 4})
    choices = choices_for(state, "new", {"memory": 3}, NOWHERE)
    assert nodes("1-2") in choices.listed
    assert choices.best(LOWEST, nodes("1")) == nodes("1-2")
    assert choices.best(LOWEST, nodes("5")) == nodes("5")
    assert choices.best(LOWEST, nodes("4-5")) == nodes("4-5")
    assert choices.best(LOWEST, nodes("0,4")) is None
    assert not choices.hint(nodes("1-2")).preferred
    assert choices.hint(nodes("5")).preferred


def test_sets_that_a_pod_has_used_are_tried(state: State) -> None:
    """Adopted across groups, a set is neither a group nor unassigned; its pod may stay there."""
    state = adopt(state, "old", "x", nodes("2-3"), {"memory": 4}).state
    state = give_back(state, "old", "x")
    choices = choices_for(state, "old", {"memory": 4}, nodes("4-5"))
    assert nodes("2-3") not in choices.listed
    assert nodes("4-5") in choices.listed


def test_a_request_for_nothing_fits_everywhere(state: State) -> None:
    choices = choices_for(state, "new", {"memory": 0}, NOWHERE)
    assert choices.minimum == 1
    assert choices.best(LOWEST) == nodes("0")
    assert choices_for(State({}), "new", {"memory": 0}, NOWHERE).minimum is None


def test_a_resource_that_nobody_has(state: State) -> None:
    choices = choices_for(state, "new", {"memory": 1, "hugepages-1Gi": 1}, NOWHERE)
    assert choices.minimum is None
    assert choices.best(LOWEST) is None


def test_the_same_question_is_answered_once(state: State) -> None:
    choices = choices_for(state, "new", {"memory": 5}, NOWHERE)
    assert choices_for(state, "new", {"memory": 5}, NOWHERE) is choices
    assert choices_for(state, "new", {"memory": 3}, NOWHERE).best(LOWEST) == nodes("0")
    after = assign(state, "other", "x", nodes("3"), {"memory": 1})
    assert choices_for(after, "new", {"memory": 5}, NOWHERE).best(LOWEST) == nodes("4-5")
    assert choices.best(LOWEST) == choices.best(LOWEST) == nodes("3-4")
    assert choices.best(LOWEST, nodes("5")) == nodes("3,5")
