"""Entries that cannot be read are skipped and counted; what is read can be shown."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.cli.explain import document_of
from nri_numamem.cli.explain.rebalancing import Plans
from nri_numamem.cli.explain.screen import show
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.explain.story import story_of
from nri_numamem.cli.main import main
from nri_numamem.cli.render.screen import Screen, new_console
from nri_numamem.engine.records.files import LogLevelChanged
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.observe.history import lines
from nri_numamem.observe.history.lines import Entry, read_history
from nri_numamem.observe.history.records import MODULES, Recorded, read_records, record_from
from tests.cli.explain.stories import Past, telco
from tests.engine.records.examples import EVENTS, example

_VALUES: tuple[object, ...] = (10**18, 10**400, -1, float("inf"), "x", [1], {"a": 1})


@pytest.fixture(name="past")
def _past(tmp_path: Path) -> Past:
    past = Past(tmp_path / "nri_numamem_state")
    telco(past)
    return past


def explained(entries: tuple[Entry, ...]) -> tuple[tuple[Recorded, ...], int]:
    """Explain a pod from these entries, as screen and as document; return what could be read."""
    found, damaged = read_records(entries)
    story = story_of(Query.parsed("p"), found, 9)
    show(story, Plans(), Screen(new_console()), 2e9, Path("state"))
    json.dumps(document_of(story))
    return found, damaged


def test_entries_of_this_release_are_readable(past: Past) -> None:
    history = read_history(past.state_file)
    assert len(history.entries) > 10
    found, damaged = read_records(history.entries)
    assert tuple(each.entry for each in found) == history.entries
    assert damaged == 0
    for each in found:
        assert fields_of(each.record) == each.entry.fields
        assert each.record.request_id == each.entry.request_id


def test_all_events_of_the_history_are_known() -> None:
    names = {module.__name__ for module in MODULES}
    assert {kind.__module__ for kind in EVENTS.values() if kind.is_kept} == names


def test_events_of_later_releases_are_left_out() -> None:
    assert read_records([Entry(1.0, "of_a_later_release", "", {"x": 1})]) == ((), 0)


def test_a_field_of_a_later_release_is_ignored() -> None:
    record = record_from("log_level_changed", "", {"log_level": "debug", "added": 1})
    assert record == LogLevelChanged(log_level="debug")


def test_a_confined_container_is_read_back() -> None:
    confined = example("confined", {"partition": "web", "nodes": "2-3", "container": "c"})
    assert record_from("confined", "", fields_of(confined)) == confined
    damaged = {**fields_of(confined), "nodes": "all"}
    with pytest.raises(ValueError, match="nodes"):
        record_from("confined", "", damaged)


@pytest.mark.parametrize("contents", [{}, {"log_level": 5}, {"log_level": None}])
def test_a_field_that_is_missing_or_of_another_type(contents: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="log_level"):
        record_from("log_level_changed", "", contents)


@pytest.mark.parametrize(
    "fields",
    [
        {"request_bytes": {"memory": "1Gi"}},
        {"request_bytes": {"memory": 2**63}},
        {"request_bytes": {"disk": 1}},
        {"request_bytes": {"memory": True}},
        {"free_bytes": {"0": 5}},
        {"free_bytes": {"x": {"memory": 5}}},
        {"used_outside_of_pods_bytes": {"0": {"hugepages-1Gi": -1}}},
        {"candidates": [{"nodes": "zero", "rule": "chosen"}]},
        {"candidates": {"nodes": "0"}},
        {"holders": [{"nodes": "0"}]},
        {"hints": {"devices": ["0", 1]}},
        {"hints": {"cpu": ["0"]}},
        {"hints": [1]},
        {"repeat_count": 10**400},
    ],
)
def test_fields_that_cannot_be_shown(fields: dict[str, object]) -> None:
    names = {"namespace": "ns", "pod": "p", "pod_uid": "u", "container": "c"}
    usual = fields_of(example("rejected", names))
    good = Entry(1.0, "rejected", "1-2", usual)
    found, damaged = explained((good, Entry(2.0, "rejected", "1-2", {**usual, **fields})))
    assert ([each.entry for each in found], damaged) == ([good], 1)


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items: Any = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value[:2]) if isinstance(value, list) else items:
        yield from places(each, (*path, key))


@pytest.mark.slow
def test_any_value_in_any_place_is_shown_or_skipped(
    past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = {entry.event: entry for entry in read_history(past.state_file).entries}
    assert {"admitted", "rejected", "not_managed"} <= kinds.keys()
    for entry in kinds.values():
        for path in places(dict(entry.fields)):
            for value in _VALUES if path else ():
                fields = copy.deepcopy(dict(entry.fields))
                at: Any = fields
                for key in path[:-1]:
                    at = at[key]
                at[path[-1]] = value
                fields |= {"pod": "p", "pod_uid": "u"}
                explained((Entry(entry.time_s, entry.event, entry.request_id, fields),))
        capsys.readouterr()


@pytest.mark.parametrize("time_s", [10**18, -1, 10**400, float("inf"), float("nan")])
def test_a_sealed_time_that_is_no_date(
    past: Past, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, time_s: float
) -> None:
    (segment,) = past.state_file.parent.glob("*.log")
    document = {"time": time_s, "event": "rejected", "fields": {"pod": "upf-8d"}}
    with segment.open("ab") as file:
        file.write(lines._sealed(document))
    monkeypatch.setenv("COLUMNS", "80")
    for output in ("table", "json"):
        words = ["explain", "upf-8d", "--state-file", str(past.state_file), "--output", output]
        assert main(words) == 0
        shown = capsys.readouterr().out
        assert "1 damaged line" in shown or '"skippedLines": 1' in shown
