"""Records and plans as values."""

import pytest

from nri_numamem.engine.core.plan import Adjustment, Plan, Update
from nri_numamem.engine.records.record import Level
from tests.engine.records.examples import example


def test_the_level_of_a_record_is_that_of_its_event() -> None:
    assert example("admitted").level is Level.INFO
    assert example("adopted").level is Level.INFO
    assert example("adopted", alternate=True).level is Level.WARNING
    assert example("internal_error").level is Level.ERROR


def test_a_record_outside_of_requests_has_no_request_id() -> None:
    assert example("stopped").request_id == ""


def test_an_empty_plan_changes_nothing() -> None:
    assert Plan().is_noop


@pytest.mark.parametrize(
    "plan", [Plan(Adjustment("0")), Plan(updates=(Update("c", "0"),)), Plan(refusal="no")]
)
def test_any_other_plan_changes_something(plan: Plan) -> None:
    assert not plan.is_noop
