"""The keys of holders, and a holder that is neither a container nor a pod."""

from enum import Enum
from itertools import permutations
from types import ModuleType
from typing import cast

import pytest

from nri_numamem.memorymanager import (
    State,
    adopt,
    charge_shortfalls,
    check_accounting,
    check_groups,
    mark_reusable,
    remove_container,
)
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.candidates import candidates_for
from nri_numamem.memorymanager.holder import (
    HolderKind,
    container_name,
)
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.numa import NodeSet


class OtherKind(Enum):
    """A kind that the product does not have: memory set aside under a name of its own."""

    EARMARK = "earmark"


EARMARK = cast("HolderKind", OtherKind.EARMARK)
N0, N1, N01 = NodeSet([0]), NodeSet([1]), NodeSet([0, 1])


@pytest.fixture
def empty(worlds: ModuleType) -> State:
    made = worlds.empty_state({0: {"memory": 4}, 1: {"memory": 4}})
    assert isinstance(made, State)
    return made


def test_only_containers_have_a_name_in_documents() -> None:
    assert container_name("app") == "app"
    assert container_name(HolderKind.POD) == container_name(EARMARK) == ""
    assert str(HolderKind.POD) == "(pod)"


def test_a_pod_as_a_whole_comes_before_its_containers() -> None:
    whole, container = ("a", HolderKind.POD), ("a", "x")
    for keys in permutations([whole, container, ("a", "y"), ("b", HolderKind.POD)]):
        assert sorted(keys) == [whole, container, ("a", "y"), ("b", HolderKind.POD)]


def test_a_holder_without_a_pod_is_charged_and_released_like_any_other(empty: State) -> None:
    state = assign(empty, "db", EARMARK, N1, {"memory": 3})
    assert [node.table("memory").free for node in state.machine_state.values()] == [4, 1]
    assert check_accounting(state) == check_groups(state) == ()
    assert remove_container(state, "db", EARMARK) == empty


def test_its_node_is_not_joined_to_a_group(empty: State) -> None:
    """A request that needs two nodes finds none where another holder has one node for itself."""
    state = assign(empty, "db", EARMARK, N1, {"memory": 1})
    assert candidates_for(empty, "a", {"memory": 6}, NodeSet()).admits(N01)
    assert not candidates_for(state, "a", {"memory": 6}, NodeSet()).admits(N01)


def test_no_pod_reuses_its_memory(empty: State) -> None:
    state = mark_reusable(assign(empty, "db", EARMARK, N1, {"memory": 3}), "db", EARMARK)
    assert state.reusable_bytes("db", N1, "memory") == 3
    assert state.reusable_bytes("a", N1, "memory") == 0
    with pytest.raises(ValueError, match="container"):
        assign(state, "db", EARMARK, N1, {"memory": 1})


def test_its_shortfall_is_charged_when_there_is_room(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {"memory": 3})
    state = adopt(state, "a", HolderKind.POD, N0, {"memory": 1}).state
    adopted = adopt(state, "db", EARMARK, N0, {"memory": 2})
    assert adopted.shortfall == {"memory": 2}
    after = charge_shortfalls(remove_container(adopted.state, "a", "x"))
    assert [block.charged for block in after.assignments["db"][EARMARK]] == [2]
    assert check_accounting(after) == ()


def test_documents_show_it_by_its_owner(empty: State) -> None:
    shown = state_json(assign(empty, "db", EARMARK, N1, {"memory": 3}))
    assert shown["entries"] == {"db": {"": [{"numaAffinity": [1], "type": "memory", "size": 3}]}}
    assert shown["machineState"]["1"]["memoryMap"]["memory"]["reserved"] == 3
