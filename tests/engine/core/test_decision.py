"""Decisions with and without a reply."""

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision, Transition, without_reply
from nri_numamem.engine.core.plan import Adjustment, Plan
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import State
from nri_numamem.numa import Machine, NumaNode
from tests.engine.records.examples import example

STATE = EngineState(State({}))
RECORD = example("not_managed")


def test_a_computed_decision_has_its_transition() -> None:
    decision = Decision.computed(Plan(Adjustment("0")), STATE, RECORD)
    assert decision.plan == Plan(Adjustment("0"))
    assert decision.compute_transition() == Transition(STATE, (RECORD,))
    assert decision.rejection is None


def test_added_records_follow_those_of_the_transition() -> None:
    added = example("admitted")
    decision = Decision.computed(Plan(Adjustment("0")), STATE, RECORD).with_records(added, added)
    assert decision.plan == Plan(Adjustment("0"))
    assert decision.compute_transition() == Transition(STATE, (RECORD, added, added))


def test_records_can_precede_those_of_the_transition() -> None:
    added = example("admitted")
    decision = Decision.computed(NO_PLAN, STATE, RECORD).with_records_before(added)
    assert decision.compute_transition() == Transition(STATE, (added, RECORD))


def test_a_handler_without_a_reply_works_when_the_transition_is_computed() -> None:
    calls: list[object] = []

    def handler(_context: Context, state: EngineState, event: object) -> Transition:
        calls.append(event)
        return Transition(state, (RECORD,))

    context = new_context(Machine((NumaNode(0, 1 << 30),)), Policy())
    decision = without_reply(handler)(context, STATE, "event")
    assert decision.plan is NO_PLAN
    assert calls == []
    assert decision.compute_transition() == Transition(STATE, (RECORD,))
    assert calls == ["event"]
