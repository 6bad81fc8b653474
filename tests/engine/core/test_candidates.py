"""The node sets in a decision's record, each with the rule that chose it or passed it over."""

import weakref
from typing import Any

from nri_numamem.engine.core.candidates import LIMIT, RULES, Choice, considered
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.memory_policies.even_group import EvenGroup
from nri_numamem.engine.records import plain
from nri_numamem.memorymanager import Hint, State, default_state
from nri_numamem.memorymanager.accounting import assign, mark_reusable
from nri_numamem.memorymanager.node_reasons import Rule, reason_for
from nri_numamem.numa import Machine, NodeSet, NumaNode

GI = 1 << 30
REQUEST = {"memory": GI}


def empty_state(*sizes_bytes: int) -> State:
    return default_state(
        Machine(tuple(NumaNode(n, size) for n, size in enumerate(sizes_bytes))), {}
    )


def fields_of(choice: Choice) -> dict[str, Any]:
    return plain.fields_of(considered(choice, EngineState(choice.accounting)).value)


def rules(choice: Choice) -> dict[str, str]:
    listed = fields_of(choice)["candidates"]
    assert isinstance(listed, list)
    return {str(entry["nodes"]): str(entry["rule"]) for entry in listed if isinstance(entry, dict)}


def memory_hints(choice: Choice) -> object:
    hints = fields_of(choice)["hints"]
    assert isinstance(hints, dict)
    return hints["memory"]


def test_every_rule_is_described() -> None:
    assert list(RULES) == list(Rule)


def test_the_choice_comes_first_and_equal_sets_rank_lower() -> None:
    choice = Choice(empty_state(GI, GI), "uid", REQUEST, NodeSet([1]))
    assert list(rules(choice).items()) == [("1", "chosen"), ("0", "ranks_lower")]
    assert memory_hints(choice) == [
        {"affinity": "1", "preferred": True},
        {"affinity": "0", "preferred": True},
    ]


def test_nodes_that_cannot_hold_the_request() -> None:
    state = assign(empty_state(GI, GI, GI // 2), "other", "c", NodeSet([0]), {"memory": 1})
    choice = Choice(state, "uid", REQUEST, NodeSet([1]))
    assert rules(choice) == {"1": "chosen", "0": "not_enough_free", "2": "too_small"}
    assert memory_hints(choice) == [{"affinity": "1", "preferred": True}]


def test_groups_and_their_nodes() -> None:
    state = assign(empty_state(GI, GI, GI, GI), "a", "c", NodeSet([0, 1]), {"memory": GI})
    choice = Choice(state, "uid", {"memory": 1}, NodeSet([2]))
    assert rules(choice) == {
        "2": "chosen",
        "0-1": "not_preferred",
        "0": "other_group",
        "1": "other_group",
        "3": "ranks_lower",
    }
    assert {"affinity": "0-1", "preferred": False} in [*_list(memory_hints(choice))]


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def test_a_group_with_a_node_that_was_removed() -> None:
    state = assign(empty_state(GI, GI, GI), "a", "c", NodeSet([1, 2]), {"memory": 1})
    nodes = {n: node for n, node in state.machine_state.items() if n != 2}
    choice = Choice(State(nodes, state.assignments), "uid", {"memory": 1}, NodeSet([0]))
    assert rules(choice) == {"0": "chosen", "1-2": "other_group", "1": "other_group"}


def test_nodes_without_the_cpus_or_a_device() -> None:
    others = OtherProviders((NodeSet([0]),), NodeSet([0, 1]))
    choice = Choice(empty_state(GI, GI), "uid", REQUEST, NodeSet([0]), others)
    assert rules(choice) == {"0": "chosen", "1": "not_aligned"}
    assert fields_of(choice)["hints"] == {
        "memory": [{"affinity": str(n), "preferred": True} for n in (0, 1)],
        "cpu": "0-1",
        "devices": ["0"],
    }


def test_nodes_outside_the_pods_nodes() -> None:
    pod_nodes = NodeSet([1])
    choice = Choice(empty_state(GI, GI), "uid", REQUEST, NodeSet([1]), pod_nodes=pod_nodes)
    assert rules(choice) == {"1": "chosen", "0": "outside_pod_nodes"}


class Assignments(dict[str, Any]):
    """A mapping that can be referred to weakly."""


def test_what_was_considered_does_not_keep_other_pods() -> None:
    state = assign(empty_state(GI, GI), "other", "c", NodeSet([0]), REQUEST)
    state = mark_reusable(assign(state, "uid", "c", NodeSet([1]), REQUEST), "uid", "c")
    assignments = Assignments(state.assignments)
    state = State(state.machine_state, assignments, state.reusable)
    choice = Choice(state, "uid", REQUEST, NodeSet([1]))
    later, reference = considered(choice, EngineState(state)), weakref.ref(assignments)
    del assignments, state, choice
    assert reference() is None
    assert [one.rule for one in later.value.candidates] == ["chosen", "not_enough_free"]
    assert later.value.hints.memory == (Hint(NodeSet([1]), preferred=True),)


def test_a_rejected_request_has_no_choice() -> None:
    choice = Choice(empty_state(GI, GI // 2), "uid", REQUEST)
    assert rules(choice) == {"0": "rejected_by_policy", "1": "too_small"}


def test_the_number_of_sets_is_limited() -> None:
    choice = Choice(empty_state(*[GI] * (LIMIT + 3)), "uid", REQUEST, NodeSet([LIMIT + 1]))
    assert list(rules(choice)) == [str(LIMIT + 1), *map(str, range(LIMIT - 1))]
    assert fields_of(choice)["omitted_candidates"] == 3
    assert "omitted_candidates" not in fields_of(Choice(empty_state(GI), "uid", REQUEST))


def test_free_bytes_of_the_listed_sets_only() -> None:
    before = empty_state(*[GI] * (LIMIT + 3))
    choice = Choice(before, "uid", REQUEST, NodeSet([LIMIT + 1]))
    after = assign(before, "uid", "c", NodeSet([LIMIT + 1]), REQUEST)
    assert plain.fields_of(considered(choice, EngineState(after)).value)["free_bytes"] == {
        **{str(n): {"memory": GI} for n in range(LIMIT - 1)},
        str(LIMIT + 1): {"memory": 0},
    }


def test_free_bytes_of_a_group_are_those_of_its_nodes() -> None:
    state = assign(empty_state(GI, GI, GI), "a", "c", NodeSet([0, 1]), {"memory": GI})
    choice = Choice(state, "uid", {"memory": 1}, NodeSet([2]))
    assert list(_mapping(fields_of(choice)["free_bytes"])) == ["0", "1", "2"]


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def test_the_common_reason_of_sets_that_could_hold_the_request() -> None:
    common = reason_for(Rule.OUTSIDE_POD_NODES)
    choice = Choice(empty_state(GI, GI // 2), "uid", REQUEST, common=common)
    assert rules(choice) == {"0": "outside_pod_nodes", "1": "too_small"}
    together = Choice(empty_state(GI), "uid", REQUEST, common=reason_for(Rule.NOT_ENOUGH_TOGETHER))
    assert rules(together) == {"0": "not_enough_together"}


def test_a_group_of_another_size_than_requested() -> None:
    state = assign(empty_state(GI, GI, GI), "a", "c", NodeSet([0, 1, 2]), {"memory": 1})
    choice = Choice(state, "uid", REQUEST, chooser=EvenGroup(2))
    assert rules(choice)["0-2"] == "other_count"
