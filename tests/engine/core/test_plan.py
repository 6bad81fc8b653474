"""Records and plans as values."""

import pytest

from nri_numamem.engine.core.plan import Adjustment, Plan, Record, Update
from nri_numamem.engine.records.events import EventName, Level


def test_the_level_of_a_record_is_that_of_its_event() -> None:
    assert Record(EventName.ADMITTED).level is Level.INFO
    assert Record(EventName.ADOPTED).level is Level.INFO
    assert Record(EventName.ADOPTED, alternate=True).level is Level.WARNING
    assert Record(EventName.INTERNAL_ERROR).level is Level.ERROR


def test_a_record_outside_of_requests_has_no_request_id() -> None:
    assert Record(EventName.STOPPED).request_id == ""


def test_an_empty_plan_changes_nothing() -> None:
    assert Plan().is_noop


@pytest.mark.parametrize(
    "plan", [Plan(Adjustment("0")), Plan(updates=(Update("c", "0"),)), Plan(refusal="no")]
)
def test_any_other_plan_changes_something(plan: Plan) -> None:
    assert not plan.is_noop
