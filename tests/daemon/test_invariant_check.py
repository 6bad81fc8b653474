"""Violations of the accounting's invariants, and what follows from them."""

from dataclasses import replace

import pytest

from nri_numamem.daemon.invariant_check import CHECK_S, InvariantCheck
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, RunPodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import adopt, remove_pod
from nri_numamem.numa import Machine, NodeSet, NumaNode


class Checked:
    """An engine, its check, and the rebuilds that the check requests."""

    def __init__(self) -> None:
        nodes = tuple(NumaNode(node, 1 << 30) for node in range(2))
        self.engine = Engine(Context.of(Machine(nodes), Policy()))
        self.rebuilds: list[bool] = []
        self.check = InvariantCheck(self.rebuilds.append)

    def run(self, now_s: float) -> list[Record]:
        return list(self.check.run(self.engine, now_s)) if self.due(now_s) else []

    def due(self, now_s: float) -> bool:
        return self.check.due(self.engine, now_s)

    def create(self, number: int) -> None:
        pod = PodSandbox(f"s{number}", f"u{number}", "ns", "p", f"/kubepods/pod{number}")
        self.engine.apply(RunPodSandbox(pod))
        container = Container(f"c{number}", pod.sandbox_id, "main", 1 << 20)
        self.engine.apply(CreateContainer(pod, container))

    def damage(self) -> None:
        """Drop the last pod's assignment, but not its bytes of the node's table."""
        accounting = self.engine.state.accounting
        kept = dict(list(accounting.assignments.items())[:-1])
        damaged = replace(accounting, assignments=kept)
        state = replace(self.engine.state, accounting=damaged)
        self.engine._committed = replace(self.engine.committed, state=state)


@pytest.fixture
def checked() -> Checked:
    return Checked()


def test_a_sound_state_is_checked_when_it_changed_and_time_has_passed(checked: Checked) -> None:
    assert checked.due(0.0)
    assert checked.run(0.0) == []
    assert not checked.due(1000.0)  # the same state
    checked.create(1)
    assert not checked.due(CHECK_S - 0.1)
    assert checked.due(CHECK_S)
    checked.check.synchronized()
    assert checked.due(0.1)
    assert checked.run(0.1) == []
    assert checked.rebuilds == []


def test_a_violation_is_recorded_with_both_states_and_the_state_rebuilt(checked: Checked) -> None:
    checked.create(1)
    checked.create(2)
    assert checked.run(0.0) == []
    checked.damage()
    (record,) = checked.run(CHECK_S)
    assert (record.event, record.level) == ("accounting_invariant_violated", "error")
    assert fields_of(record)["violation_count"] == 3
    assert "node 0 memory: reserved" in str(fields_of(record)["violations"])
    before, after = fields_of(record)["before"], fields_of(record)["after"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert list(before["entries"]) == ["u2"]
    assert after["entries"] == {}
    assert checked.rebuilds == [False]


def test_a_shortfall_for_which_there_is_room_is_a_violation(checked: Checked) -> None:
    checked.create(1)
    state = checked.engine.state
    accounting = adopt(state.accounting, "u2", "x", NodeSet([0]), {"memory": 1 << 30}).state
    accounting = remove_pod(accounting, "u1")
    damaged = replace(state, accounting=accounting)
    checked.engine._committed = replace(checked.engine.committed, state=damaged)
    (record,) = checked.run(0.0)
    assert fields_of(record)["violations"] == [
        f"u2/x memory: {1 << 20} bytes are not charged to nodes 0, although there is room"
    ]
    assert checked.rebuilds == [False]


def test_a_violation_that_comes_back_drops_the_state_and_then_is_only_recorded(
    checked: Checked,
) -> None:
    checked.create(1)
    checked.damage()
    for time_s in (0.0, CHECK_S, 2 * CHECK_S):
        assert len(checked.run(time_s)) == 1
    assert checked.rebuilds == [False, True]


def test_a_check_that_passes_forgets_the_violation(checked: Checked) -> None:
    checked.create(1)
    checked.damage()
    checked.run(0.0)
    sound = Checked()
    checked.engine = sound.engine
    assert checked.run(CHECK_S) == []
    checked.create(2)
    checked.damage()
    checked.run(2 * CHECK_S)
    assert checked.rebuilds == [False, False]


def test_the_record_is_bounded(checked: Checked) -> None:
    for number in range(60):
        checked.create(number)
    checked.damage()
    (record,) = checked.run(0.0)
    after = fields_of(record)["after"]
    assert isinstance(after, dict)
    assert len(after["entries"]) == 20


def test_outstanding_amounts_are_checked(checked: Checked) -> None:
    checked.create(1)
    state = checked.engine.state.with_outstanding({"u1": {"memory": 7}})
    checked.engine._committed = replace(checked.engine.committed, state=state)
    (record,) = checked.run(0.0)
    assert record.event == "accounting_invariant_violated"
    assert "u1: outstanding {'memory': 7}" in str(fields_of(record)["violations"])
    assert checked.rebuilds == [False]


def mix_groups(checked: Checked) -> None:
    """Move the first container to nodes 0 and 1, against the rules."""
    state = checked.engine.state
    accounting = adopt(state.accounting, "u1", "main", NodeSet([0, 1]), {"memory": 1 << 20}).state
    after = replace(state, accounting=accounting)
    checked.engine._committed = replace(checked.engine.committed, state=after)


def test_a_placement_that_mixes_groups_is_recorded_once(checked: Checked) -> None:
    checked.create(1)
    checked.create(2)
    assert checked.run(0.0) == []
    mix_groups(checked)
    (record,) = checked.run(CHECK_S)
    assert fields_of(record)["violations"] == ["u2/main memory: node 0 is not in group 0"]
    before, after = fields_of(record)["before"], fields_of(record)["after"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert list(before["entries"]) == list(after["entries"]) == ["u1"]
    assert checked.rebuilds == []
    checked.create(3)
    assert checked.run(2 * CHECK_S) == []


def test_groups_that_a_synchronize_found_mixed_are_no_violation(checked: Checked) -> None:
    checked.create(1)
    checked.create(2)
    assert checked.run(0.0) == []
    mix_groups(checked)
    checked.check.synchronized()
    assert checked.run(0.1) == []
