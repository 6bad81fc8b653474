"""The invariants of an engine's state: random lives keep them, and each defect is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.queries.invariants import check_placements, check_sums
from nri_numamem.engine.records.containers import Adopted
from nri_numamem.memorymanager import adopt
from nri_numamem.memorymanager.invariants import MAX_VIOLATIONS
from nri_numamem.numa import NodeSet
from tests.sequences.on_engine import life_on

if TYPE_CHECKING:
    from nri_numamem.engine.core.state import EngineState
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20


def mixed(state: EngineState, uid: str = "b") -> EngineState:
    """Return the state with the first container of a pod on nodes 0 and 1, against the rules."""
    (name,) = state.accounting.assignments[uid]
    nodes = NodeSet([0, 1])
    found = adopt(state.accounting, uid, name, nodes, {"memory": MI})
    return replace(state, accounting=found.state)


@pytest.fixture
def placed(host: Host) -> Host:
    """Return a host with a pod on node 0, and one that still needs half of its limit."""
    host.create(host.run("a"), container_id="c-a")
    host.create(host.run("b", memory=400 * MI), container_id="c-b")
    return host


@pytest.mark.parametrize("seed", range(20))
def test_random_lives_keep_them(new_host: NewHost, seed: int) -> None:
    host = new_host()
    life, before = life_on(host, seed), host.engine.state
    for _ in range(60):
        life.step()
        assert check_sums(host.engine.state) == ()
        assert check_placements(before, host.engine.state) == ()
        before = host.engine.state


def test_a_wrong_sum_is_found(placed: Host) -> None:
    state = placed.engine.state
    accounting = replace(state.accounting, assignments={})
    assert "node 0 memory: reserved" in check_sums(replace(state, accounting=accounting))[0]


def test_bytes_that_are_not_charged_are_found(placed: Host) -> None:
    state = placed.engine.state
    accounting = adopt(state.accounting, "a", "main", NodeSet([0]), {"memory": 1 << 40}).state
    (block,) = accounting.assignments["a"]["main"]
    larger = replace(block, size=block.charged + 1)
    free = adopt(accounting, "a", "main", NodeSet([0]), {"memory": MI}).state
    accounting = replace(free, assignments={**free.assignments, "x": {"y": (larger,)}})
    assert check_sums(replace(state, accounting=accounting))


def test_outstanding_amounts_must_follow_from_limits_and_blocks(placed: Host) -> None:
    state = placed.engine.state
    assert state.outstanding == {"b": {"memory": 200 * MI}}
    assert check_sums(state) == ()
    wrong = state.with_outstanding({"a": {"memory": 1}})
    assert check_sums(wrong) == (
        "a: outstanding {'memory': 1}, but limit and blocks give {}",
        "b: outstanding {}, but limit and blocks give {'memory': 209715200}",
    )
    many = state.with_outstanding({f"u{n}": {"memory": n} for n in range(100)})
    assert len(check_sums(many)) == MAX_VIOLATIONS


def test_a_pod_with_two_sandboxes_may_have_another_outstanding_amount(placed: Host) -> None:
    placed.run("b", sandbox="second", memory=300 * MI)
    assert check_sums(placed.engine.state.with_outstanding({"b": {"memory": 5}})) == ()
    assert check_sums(placed.engine.state.with_outstanding({"a": {"memory": 5}})) == (
        "a: outstanding {'memory': 5}, but limit and blocks give {}",
    )


def test_a_placement_that_mixes_groups_is_found(placed: Host) -> None:
    state = placed.engine.state
    found = check_placements(state, mixed(state))
    assert found == ("a/main memory: node 0 is not in group 0",)
    assert check_placements(mixed(state), mixed(state)) == ()  # they were mixed before


def test_groups_that_something_else_mixed_are_no_violation(placed: Host) -> None:
    before = placed.engine.state
    reasons = before.reasons
    other = replace(reasons.pinned["c-b"], event=Adopted.event)
    adopted = replace(reasons, pinned={**reasons.pinned, "c-b": other})
    assert check_placements(before, mixed(before).with_reasons(adopted)) == ()
    unknown = replace(reasons, pinned={"c-a": reasons.pinned["c-a"]})
    assert check_placements(before, mixed(before).with_reasons(unknown)) == ()


def test_a_machine_with_other_nodes_may_have_other_groups(placed: Host) -> None:
    state = placed.engine.state
    machine = {n: node for n, node in state.accounting.machine_state.items() if n < 3}
    smaller = replace(state, accounting=replace(state.accounting, machine_state=machine))
    assert check_placements(smaller, mixed(state)) == ()
