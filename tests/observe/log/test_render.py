"""Rendering: fixed forms, and no value that breaks them."""

import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.numa.idset import NodeSet
from nri_numamem.observe.log.render import (
    Record,
    render_colours,
    render_console,
    render_json,
    render_message,
    text_of,
)

HEAD: Mapping[str, object] = {"ts": "2026-01-31T12:00:00.123Z", "level": "info", "event": "started"}


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_json_keeps_the_order() -> None:
    line = render_json({**HEAD, "b": 1, "a": [True, None, "ä"]})
    assert line == (
        '{"ts":"2026-01-31T12:00:00.123Z","level":"info","event":"started",'
        '"b":1,"a":[true,null,"ä"]}'
    )


def test_json_of_types_that_json_does_not_know() -> None:
    fields = {
        "nodes": NodeSet([0, 1, 3]),
        "table": MappingProxyType({2: NodeSet([2])}),
        "set": frozenset({"b", "a"}),
        "odd": Unprintable(),
    }
    assert json.loads(render_json({**HEAD, **fields})) == {
        **HEAD,
        "nodes": "0-1,3",
        "table": {"2": "2"},
        "set": ["a", "b"],
        "odd": "<unprintable Unprintable>",
    }


def test_json_of_values_that_json_cannot_hold() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    deep: object = 0
    for _ in range(100_000):
        deep = [deep]
    fields = {"nan": float("nan"), "cycle": cycle, "keys": {(1, 2): 3}, "deep": deep, "fine": [1.5]}
    found = json.loads(render_json({**HEAD, **fields}))
    assert found["nan"] == "nan"
    assert found["cycle"] == "[[...]]"
    assert found["keys"] == "{(1, 2): 3}"
    assert found["deep"] == "<unprintable list>"
    assert found["fine"] == [1.5]


def test_console_is_aligned() -> None:
    short = render_console({**HEAD, "pod": "a"})
    long = render_console({**HEAD, "level": "warning", "event": "request_timed_out", "pod": "b"})
    assert short == "12:00:00.123 info    started                      pod=a"
    assert short.index("pod=") == long.index("pod=")
    assert "warning request timed out " in long
    assert render_console(HEAD) == "12:00:00.123 info    started"


def test_console_quotes_what_would_be_ambiguous() -> None:
    fields = {"a": "two words", "b": "", "c": "x=y", "d": 'say "hi"', "e": [1, 2], "f": {"k": "v"}}
    line = render_console({**HEAD, **fields})
    assert line.endswith(' a="two words" b="" c="x=y" d="say \\"hi\\"" e=[1,2] f={"k":"v"}')


def test_colours_only_where_asked() -> None:
    record = {**HEAD, "level": "error", "pod": "a"}
    coloured = render_colours(record)
    assert "\x1b[31merror" in coloured
    assert "\x1b[36mpod\x1b[0m=a" in coloured
    assert "\x1b" not in render_console(record)
    assert "\x1b[0m" in render_colours({**HEAD, "level": "other"})


def test_a_traceback_follows_indented() -> None:
    record = {**HEAD, "exception": "Traceback:\n  File\nError: \x1b[2J"}
    assert render_console(record).splitlines()[1:] == [
        "    Traceback:",
        "      File",
        "    Error: \\u001b[2J",
    ]


def shown(record: Record) -> str:
    """Return the fields of a record as on a console."""
    return render_console(record).partition("started")[2].strip()


def test_people_read_amounts_of_memory_with_suffixes() -> None:
    record = {
        **HEAD,
        "request_bytes": {"memory": 3 << 29},
        "free_bytes": {"0": {"hugepages-2Mi": 1 << 21}},
        "previous_memory_bytes": 1 << 30,
        "count": 1 << 30,
    }
    assert shown(record) == (
        'request_bytes={"memory":"1.5Gi"} free_bytes={"0":{"hugepages-2Mi":"2Mi"}}'
        " previous_memory_bytes=1Gi count=1073741824"
    )
    assert json.loads(render_json(record))["request_bytes"] == {"memory": 3 << 29}


def test_amounts_have_one_unit_at_every_depth() -> None:
    gib = 1 << 30
    record = {
        **HEAD,
        "holders": [{"pod": "a", "held_bytes": {"memory": gib}, "node_count": gib}],
        "nodes": {
            "0": {"memory": gib, "reserved": {"hugepages-1Gi": gib, "more": [{"memory": 1}]}}
        },
        "assigned_bytes": {"0": [gib, {"any": {"name": gib}}], "is_known": True},
        # The keys of the kubelet's state file.
        "machineState": {"0": {"memoryMap": {"memory": {"total": gib}}, "cells": [0]}},
        "entries": {"uid": {"c": [{"numaAffinity": [0], "type": "memory", "size": gib}]}},
        "size": gib,
        "block": {"type": "other", "size": 1},
        "untyped": {"type": 7, "size": 1},
    }
    assert shown(record) == (
        'holders=[{"pod":"a","held_bytes":{"memory":"1Gi"},"node_count":1073741824}]'
        ' nodes={"0":{"memory":"1Gi","reserved":{"hugepages-1Gi":"1Gi","more":[{"memory":"1"}]}}}'
        ' assigned_bytes={"0":["1Gi",{"any":{"name":"1Gi"}}],"is_known":true}'
        ' machineState={"0":{"memoryMap":{"memory":{"total":"1Gi"}},"cells":[0]}}'
        ' entries={"uid":{"c":[{"numaAffinity":[0],"type":"memory","size":"1Gi"}]}}'
        ' size=1073741824 block={"type":"other","size":1} untyped={"type":7,"size":1}'
    )
    assert json.loads(render_json(record))["nodes"]["0"]["memory"] == gib


def test_a_cycle_below_an_amount_is_no_error() -> None:
    cycle: dict[str, object] = {"memory": 1 << 30}
    cycle["again_bytes"] = cycle
    assert "again_bytes" in shown({**HEAD, "free_bytes": cycle})


NAMES = {"pod": "upf", "namespace": "telco", "container": "dpdk", "pod_uid": "u"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {**NAMES, "request_id": "1-17", "message": "requested 40Gi", "n": 1, "cause": "x"},
            "started telco/upf/dpdk [1-17]: requested 40Gi",
        ),
        (
            {**NAMES, "request_bytes": {"memory": 1}, "nodes": "0-1", "limit_bytes": 2 << 20},
            "started telco/upf/dpdk: nodes=0-1 limit_bytes=2Mi",
        ),
        (
            {
                "pod": None,
                "pod_uid": "u",
                "cause": "its pod is Burstable",
                "qos_class": "Burstable",
            },
            "started u: its pod is Burstable qos_class=Burstable",
        ),
        ({"path": "/a b", "error": "No space left", "x": ""}, 'started: No space left path="/a b"'),
        ({"request_id": "", "more": [1], "none": None}, "started"),
        ({**NAMES, "exception": "A\n  b"}, "started telco/upf/dpdk\n    A\n      b"),
        ({"pod": "a\nb", "message": "x\x1b"}, "started a\\nb: x\\u001b"),
    ],
)
def test_the_message_is_a_line_for_people(fields: dict[str, object], text: str) -> None:
    assert render_message({**HEAD, **fields}) == text


@pytest.mark.parametrize(("value", "text"), [("x", "x"), (1, "1"), (None, "null"), (True, "true")])
def test_text_of_scalars(value: object, text: str) -> None:
    assert text_of(value) == text


def test_text_of_what_json_cannot_hold() -> None:
    assert text_of(float("inf")) == "inf"
    assert text_of(1 << 20000) == "<unprintable int>"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
        | st.frozensets(st.integers())
    ),
    max_leaves=6,
)


@given(st.text(), VALUES)
def test_no_value_breaks_a_line(event: str, value: object) -> None:
    record = {**HEAD, "event": event, "value": value}
    line = render_json(record)
    assert "\n" not in line
    assert list(json.loads(line)) == ["ts", "level", "event", "value"]
    assert render_console(record).isprintable()
    assert render_message(record).isprintable()


@pytest.mark.parametrize(
    "name", ["\x00\x1b[2J", "\x7f\x80\x85\x9b", "\u2028\u2029", "\u202e\u2066\u200f", "\ufeff"]
)
def test_no_form_contains_unprintable_characters(name: str) -> None:
    record = {"ts": "t", "level": "info", "event": "x", "pod": name, "m": {name: [name]}}
    line = render_json(record)
    assert line.isprintable()
    assert json.loads(line) == record
    assert render_console(record).isprintable()
    assert render_message(record).isprintable()
