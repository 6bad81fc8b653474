"""A state that is changed pod by pod comes to the same as one that is changed as a whole."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from nri_numamem.engine.draft import Draft
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import (
    Machine,
    NodeSet,
    NumaNode,
    adopt,
    check_books,
    default_state,
    give_back,
    remove_container,
)

MI = 1 << 20
MACHINE = Machine(tuple(NumaNode(node, 1 << 30) for node in range(3)))
NODES = [NodeSet.parse(text) for text in ("0", "1", "2", "0-1", "1-2")]

Step = Callable[[EngineState], EngineState]


def empty() -> EngineState:
    return EngineState(default_state(MACHINE, {}))


def step_of(random: Random, uid: str) -> Step:
    """Return what happens to one container of a pod; ids are given out more than once."""
    key, container_id = (uid, random.choice("xy")), random.choice("abcdef")
    nodes, size_bytes = random.choice(NODES), random.randrange(600) * MI
    kind = random.choice(["run", "run", "end", "remove"])

    def run(state: EngineState) -> EngineState:
        adopted = adopt(state.books, *key, nodes, {"memory": size_bytes})
        return state.with_holder(Holder(container_id, f"sandbox-{uid}", key), adopted.state)

    def end(state: EngineState) -> EngineState:
        holder = state.holders.get(key)
        if holder is None:
            return state
        return state.with_holder(replace(holder, ended=True), give_back(state.books, *key))

    def remove(state: EngineState) -> EngineState:
        holder = state.holders.get(key)
        if holder is None:
            return state
        return state.without_holder(holder, remove_container(state.books, *key))

    return {"run": run, "end": end, "remove": remove}[kind]


@pytest.mark.parametrize("seed", range(100))
def test_pod_by_pod_comes_to_the_same(seed: int) -> None:
    random = Random(seed)
    whole, draft = empty(), Draft(empty())
    for _ in range(random.randrange(40)):
        uid = random.choice("pqr")
        step = step_of(random, uid)
        whole = step(whole)
        before = draft.part(uid)
        assert {key[0] for key in before.holders} <= {uid}
        assert before.books.assignments.keys() <= {uid}
        draft.put(uid, before, step(before))
    made = draft.finish()
    assert made == whole
    assert check_books(made.books) == ()


def test_the_state_that_it_began_with_stays() -> None:
    state = step_of(Random(1), "p")(empty())
    begun = replace(state, pods={}, pending=frozenset({"f"}))
    kept = replace(begun, holders=dict(begun.holders), keys=dict(begun.keys))
    draft = Draft(begun)
    for number in range(9):
        before = draft.part("q")
        assert before.pending == {"f"}
        draft.put("q", before, step_of(Random(number), "q")(before))
    assert begun == kept
    assert draft.finish() != begun
