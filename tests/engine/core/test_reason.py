"""Reasons as values: they are no part of a state's identity."""

from dataclasses import replace

from nri_numamem.engine.core.reason import NO_REASONS, Reason, Reasons
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import State

REASON = Reason("c", "s", ("u", "app"), "ns", "pod", "admitted")


def test_no_decision_depends_on_a_reason() -> None:
    state = EngineState(State({}))
    assert state.reasons is NO_REASONS
    assert state.with_reasons(Reasons({"c": REASON})) == state
    assert replace(REASON, since_s=5) != REASON
