"""Records of all events: names, levels, meanings."""

import ast
import re
from itertools import count
from pathlib import Path

import pytest

import nri_numamem
from nri_numamem.engine.records.containers import RunningUnpinnedNoCapacity
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.pods import PodReleased
from nri_numamem.engine.records.record import (
    EVENTS,
    Later,
    Level,
    Record,
    become,
    meanings_of,
    summary_of,
)
from nri_numamem.observe.history.records import record_from
from tests.engine.records.examples import example

KUBELET_KEYS = {
    "cpuManagerPolicy",
    "entries",
    "machineState",
    "memoryManagerPolicy",
    "topologyManagerPolicy",
    "topologyManagerScope",
}
SOURCES = sorted(Path(nri_numamem.__file__).parent.rglob("*.py"))


def test_a_value_is_computed_once_when_it_is_first_read() -> None:
    numbers = count(5)
    later = Later(lambda: next(numbers))
    assert next(numbers) == 5
    assert (later.value, later.value, next(numbers)) == (6, 6, 7)
    assert later == Later.of(6)
    assert later != Later.of(7)
    assert later != 6
    assert repr(later) == "6"


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_an_event_is_described(kind: type[Record]) -> None:
    assert kind.event == re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    assert re.fullmatch(r"[A-Z].*\.", summary_of(kind))
    assert not kind.advice.endswith(".")
    assert kind.usual_level is not Level.ERROR or kind.advice
    if kind.alternate_level is not None:
        assert kind.alternate_level.level is not kind.usual_level
        assert kind.alternate_level.condition
    for name, meaning in meanings_of(kind).items():
        assert name in KUBELET_KEYS or re.fullmatch(r"[a-z]+(_[a-z]+)*", name)
        assert meaning, name


def test_every_event_is_used() -> None:
    """Each class is mentioned outside of imports and of its definition."""
    trees = (ast.parse(path.read_text()) for path in SOURCES)
    used = {
        name
        for tree in trees
        for node in ast.walk(tree)
        for name in ((node.id,) if isinstance(node, ast.Name) else ())
    }
    used |= {
        node.attr
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    aliases = {"Machine"}  # engine.core.context has another class of this name
    assert {kind.__name__ for kind in EVENTS.values()} - used - aliases == set()


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_a_record_can_be_read_again(kind: type[Record]) -> None:
    record = example(kind.event, request_id="1-2")
    assert fields_of(record).keys() <= meanings_of(kind).keys()
    assert record_from(kind.event, "1-2", fields_of(record)) == record


def test_the_level_depends_on_the_condition() -> None:
    assert example("adopted").level is Level.INFO
    assert example("adopted", alternate=True).level is Level.WARNING
    assert example("internal_error", alternate=True).level is Level.ERROR


def test_a_record_becomes_one_of_another_event() -> None:
    refused = example("rejected", {"message": "why", "container_id": "c"}, request_id="3-1")
    found = become(refused, RunningUnpinnedNoCapacity)
    assert fields_of(found) == fields_of(refused)
    assert (found.event, found.request_id) == ("running_unpinned_no_capacity", "3-1")
    with pytest.raises(TypeError):
        become(refused, PodReleased)
