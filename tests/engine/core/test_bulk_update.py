"""A state that is changed pod by pod comes to the same as one that is changed as a whole."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from nri_numamem.engine.core.bulk_update import BulkUpdate
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager import (
    AccountingError,
    adopt,
    check_accounting,
    check_shortfalls,
    default_state,
    mark_reusable,
    remove_container,
)
from nri_numamem.numa import Machine, NodeSet, NumaNode

MI = 1 << 20
MACHINE = Machine(tuple(NumaNode(node, 1 << 30) for node in range(3)))
NODES = [NodeSet.parse(text) for text in ("0", "1", "2", "0-1", "1-2")]

Step = Callable[[EngineState], EngineState]


def empty() -> EngineState:
    return EngineState(default_state(MACHINE, {}))


def step_of(random: Random, uid: str) -> Step:
    """Return what happens to one container of a pod; container ids repeat within the pod."""
    key, container_id = (uid, random.choice("xy")), f"{uid}-{random.choice('abcdef')}"
    nodes, size_bytes = random.choice(NODES), random.randrange(600) * MI
    kind = random.choice(["run", "run", "end", "remove"])

    def run(state: EngineState) -> EngineState:
        adopted = adopt(state.accounting, *key, nodes, {"memory": size_bytes})
        return state.with_holder(Holder(container_id, f"sandbox-{uid}", key), adopted.state)

    def end(state: EngineState) -> EngineState:
        holder = state.holders.get(key)
        if holder is None:
            return state
        return state.with_holder(replace(holder, ended=True), mark_reusable(state.accounting, *key))

    def remove(state: EngineState) -> EngineState:
        holder = state.holders.get(key)
        if holder is None:
            return state
        return state.without_holder(holder, remove_container(state.accounting, *key))

    return {"run": run, "end": end, "remove": remove}[kind]


@pytest.mark.parametrize("seed", range(100))
def test_update_per_pod_has_the_same_result(seed: int) -> None:
    random = Random(seed)
    whole, draft = empty(), BulkUpdate(empty())
    for _ in range(random.randrange(40)):
        uid = random.choice("pqr")
        step = step_of(random, uid)
        whole = step(whole)
        before = draft.pod_view(uid)
        assert {key[0] for key in before.holders} <= {uid}
        assert before.accounting.assignments.keys() <= {uid}
        draft.replace_pod(uid, before, step(before))
    made = draft.finish()
    assert made == whole
    assert check_accounting(made.accounting) == ()


@pytest.mark.parametrize("seed", range(100))
def test_adoption_in_place_has_the_same_result(seed: int) -> None:
    random = Random(seed)
    begun = empty()
    for _ in range(random.randrange(5)):
        begun = step_of(random, random.choice("pqr"))(begun)
    before = replace(begun, holders=dict(begun.holders), keys=dict(begun.keys))
    whole, bulk = begun, BulkUpdate(begun)
    for number in range(random.randrange(40)):
        uid = random.choice("pqr")
        if random.random() < 0.3:
            step = step_of(random, uid)
            whole, view = step(whole), bulk.pod_view(uid)
            bulk.replace_pod(uid, view, step(view))
        else:
            holder = Holder(f"{uid}-{number}", f"sandbox-{uid}", (uid, random.choice("xyz")))
            nodes, request = random.choice(NODES), {"memory": random.randrange(600) * MI}
            adopted = adopt(whole.accounting, *holder.key, nodes, request)
            whole = whole.with_holder(holder, adopted.state)
            assert bulk.adopt(holder, nodes, request) == adopted.shortfall
        if random.random() < 0.5:
            assert bulk.present() == whole
    assert bulk.finish() == whole
    assert begun == before
    assert check_accounting(whole.accounting) == ()


def test_shortfalls_are_charged_in_all_pods() -> None:
    bulk, whole = BulkUpdate(empty()), empty()
    for uid in "pqr":
        holder, size = Holder(uid, uid, (uid, "x")), 600 * MI
        bulk.adopt(holder, NODES[0], {"memory": size})
        adopted = adopt(whole.accounting, uid, "x", NODES[0], {"memory": size})
        whole = whole.with_holder(holder, adopted.state)
    bulk.charge_shortfalls()
    assert bulk.present() == whole
    before = bulk.pod_view("p")
    gone = before.without_holder(
        before.holders["p", "x"], remove_container(before.accounting, "p", "x")
    )
    bulk.replace_pod("p", before, gone)
    bulk.charge_shortfalls()
    bulk.adopt(Holder("s", "q", ("q", "y")), NODES[1], {"memory": MI})
    made = bulk.finish().accounting
    assert [dict(made.assignments[uid]["x"][0].charges) for uid in "qr"] == [
        {0: 600 * MI},
        {0: 424 * MI},
    ]
    assert check_accounting(made) == check_shortfalls(made) == ()


def test_a_view_does_not_change_with_later_adoptions() -> None:
    bulk = BulkUpdate(empty())
    bulk.adopt(Holder("c", "s", ("p", "x")), NODES[0], {"memory": MI})
    view = bulk.pod_view("p")
    kept = repr(view)
    bulk.adopt(Holder("d", "s", ("p", "y")), NODES[0], {"memory": MI})
    assert repr(view) == kept
    assert bulk.present().blocks(("p", "y")) is not None


def test_the_original_state_is_unchanged() -> None:
    state = step_of(Random(1), "p")(empty())
    begun = replace(state, pods={}, pending=frozenset({"f"}))
    kept = replace(begun, holders=dict(begun.holders), keys=dict(begun.keys))
    draft = BulkUpdate(begun)
    for number in range(9):
        before = draft.pod_view("q")
        assert before.pending == {"f"}
        draft.replace_pod("q", before, step_of(Random(number), "q")(before))
    assert begun == kept
    assert draft.finish() != begun


def test_a_pod_is_stored_once_for_containers_that_follow_each_other() -> None:
    bulk = BulkUpdate(empty())
    for name in "xyz":
        before = bulk.pod_view("p")
        adopted = adopt(before.accounting, "p", name, NODES[0], {"memory": MI})
        after = before.with_holder(Holder(name, "sandbox", ("p", name)), adopted.state)
        bulk.replace_pod("p", before, after)
        assert bulk.pod_view("p") is after
    assert bulk.pod_view("q").accounting.machine_state == after.accounting.machine_state
    assert bulk.finish().holders == after.holders


def test_a_pod_cannot_lose_a_change_nor_change_another_pod() -> None:
    draft = BulkUpdate(empty())
    before = draft.pod_view("p")

    def with_container(state: EngineState, name: str, uid: str = "p") -> EngineState:
        after = adopt(state.accounting, uid, name, NODES[0], {"memory": MI}).state
        return state.with_holder(Holder(name, "s", (uid, name)), after)

    draft.replace_pod("p", before, with_container(before, "x"))
    with pytest.raises(AccountingError, match="pod p changed after the state that is replaced"):
        draft.replace_pod("p", before, with_container(before, "y"))
    view = draft.pod_view("p")
    with pytest.raises(AccountingError, match="the state of pod p has assignments of other pods"):
        draft.replace_pod("p", view, with_container(view, "z", uid="q"))
    assert set(draft.finish().holders) == {("p", "x")}
