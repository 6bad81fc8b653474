"""Event names and types."""

import re

import pytest

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level


@pytest.mark.parametrize("event", EventName)
def test_names_are_snake_case(event: EventName) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", event)
    assert event == event.name.lower()


def test_the_level_depends_on_the_condition() -> None:
    event_type = EventType("x", alternate=AlternateLevel(Level.WARNING, "it is late"))
    assert event_type.level_if(alternate=False) is Level.INFO
    assert event_type.level_if(alternate=True) is Level.WARNING


def test_without_an_alternate_there_is_one_level() -> None:
    event_type = EventType("x", level=Level.ERROR)
    assert {event_type.level_if(alternate=alternate) for alternate in (False, True)} == {"error"}
