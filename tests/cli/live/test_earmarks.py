"""Earmarks as a table and as a document."""

from dataclasses import replace

import pytest

from nri_numamem.cli.live.earmarks import earmarks_document, show_earmarks
from nri_numamem.cli.render.screen import Screen, new_console
from nri_numamem.engine.core.state import EngineState
from tests.engine.features.earmarks.earmark_host import EarmarkHost, earmark


def _state() -> EngineState:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 300, to="big", expires=1000))
    host.make(earmark("e2", "2-3", 512, labels="train", expires=1000))
    host.place("big", 300)
    return host.engine.state


def test_the_document_has_what_is_left() -> None:
    first, second = earmarks_document(_state())
    assert first == {
        "uid": "e1",
        "namespace": "ns",
        "pod": "pod-big",
        "podUid": "big",
        "labels": {},
        "nodes": [0],
        "bytes": {"memory": 300 << 20},
        "leftBytes": {},
        "expires": "1970-01-01T00:16:40Z",
    }
    assert second["pod"] is second["podUid"] is None
    assert second["labels"] == {"app": "train"}
    assert second["leftBytes"] == {"memory": 512 << 20}
    assert earmarks_document(None) == []


def test_the_table_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    show_earmarks(Screen(new_console()), _state(), 400.0)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[2:4] == [
        "ns/pod-big 0 300Mi memory nothing 10 min e1",
        "ns (app=train) 2-3 512Mi memory 512Mi memory 10 min e2",
    ]


def test_without_earmarks_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    for state in (None, replace(_state(), earmarks={})):
        show_earmarks(Screen(new_console()), state, 0.0)
    assert capsys.readouterr().out == ""
