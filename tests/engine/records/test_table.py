"""The table has every event, and the code uses nothing that the table lacks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri_numamem
from nri_numamem.engine.records.events import EventName, Level
from nri_numamem.engine.records.table import COMMON_FIELDS, EVENTS, SECTIONS

PACKAGE = Path(nri_numamem.__file__).parent
KUBELET_KEYS = {
    "cpuManagerPolicy",
    "entries",
    "machineState",
    "memoryManagerPolicy",
    "topologyManagerPolicy",
    "topologyManagerScope",
}


def test_every_event_is_in_one_section() -> None:
    assert set(EVENTS) == set(EventName)
    assert sum(len(events) for events in SECTIONS.values()) == len(EventName)


@pytest.mark.parametrize("event", EventName)
def test_an_event_is_described(event: EventName) -> None:
    event_type = EVENTS[event]
    assert re.fullmatch(r"[A-Z].*\.", event_type.summary)
    assert not event_type.remedy.endswith(".")
    assert event_type.level is not Level.ERROR or event_type.remedy
    if event_type.alternate is not None:
        assert event_type.alternate.level is not event_type.level
        assert event_type.alternate.condition
    for name, meaning in event_type.fields.items():
        assert name in KUBELET_KEYS or re.fullmatch(r"[a-z]+(_[a-z]+)*", name)
        assert meaning
        assert name == "exception" or name not in COMMON_FIELDS


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "_pb2" not in path.name:
            yield path, ast.parse(path.read_text())


def record_calls() -> Iterator[tuple[str, ast.Call]]:
    for path, tree in modules():
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "nri_numamem.engine.core.plan"
            for alias in node.names
        }
        if "Record" not in imported:
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Record"
            ):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


def event_of(node: ast.expr) -> EventName | None:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return EventName[node.attr] if node.value.id == "EventName" else None
    return None


def test_records_in_the_source_have_declared_fields() -> None:
    """Of records whose event and fields stand in the call; tests/conftest.py checks the others."""
    checked = 0
    for where, call in record_calls():
        event = event_of(call.args[0])
        fields = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "fields")]
        if event is None or not fields or not isinstance(fields[0], ast.Dict):
            continue
        names = {key.value for key in fields[0].keys if isinstance(key, ast.Constant)}
        assert names <= EVENTS[event].fields.keys(), where
        checked += 1
    assert checked > 10


def test_an_alternate_level_is_only_set_where_the_table_has_one() -> None:
    checked = 0
    for where, call in record_calls():
        event = event_of(call.args[0])
        if event is not None and any(keyword.arg == "alternate" for keyword in call.keywords):
            assert EVENTS[event].alternate is not None, where
            checked += 1
    assert checked > 3


def test_every_event_is_used() -> None:
    used = {
        node.attr
        for path, tree in modules()
        if path.parent.name != "table"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "EventName"
    }
    assert {event.name for event in EventName} - used == set()
