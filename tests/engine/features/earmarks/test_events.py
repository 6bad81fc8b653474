"""Earmarks that are made, renewed, refused and ended."""

from dataclasses import replace

import pytest

from nri_numamem.engine.records.plain import fields_of
from tests.engine.features.earmarks.earmark_host import (
    WITH_EARMARKS,
    EarmarkHost,
    earmark,
)


def test_a_record_describes_the_earmark() -> None:
    host = EarmarkHost()
    done = host.make(earmark("e1", "0-1", 800, to="big"))
    assert done.refusal is None
    assert [each.event for each in done.records] == ["earmark_made"]
    assert fields_of(done.records[0]) == {
        "earmark": "e1",
        "beneficiary": "ns/pod-big",
        "nodes": "0-1",
        "set_aside_bytes": {"memory": 800 << 20},
        "expires_s": 1000,
    }


def test_the_same_earmark_changes_nothing() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 300, to="big"))
    assert host.make(earmark("e1", "0", 300, to="big")).records == ()


def test_an_earmark_is_renewed_and_keeps_what_was_used() -> None:
    host = EarmarkHost()
    host.place("big", 100)
    host.make(earmark("e1", "0", 300, to="big"))
    host.place("big", 200, name="second")
    renewed = host.make(earmark("e1", "0", 300, to="big", expires=2000))
    assert [each.event for each in renewed.records] == ["earmark_renewed"]
    assert host.left("e1") == 100
    assert host.pass_time(1999).records == ()
    ended = host.pass_time(2000)
    assert [each.event for each in ended.records] == ["earmark_ended"]
    assert fields_of(ended.records[0])["left_bytes"] == {"memory": 100 << 20}
    assert host.engine.state.earmarks == {}


def test_other_amounts_replace_an_earmark() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 300, to="big"))
    done = host.make(earmark("e1", "1", 200, to="big"))
    assert [each.event for each in done.records] == ["earmark_made"]
    assert str(host.engine.state.earmarks["e1"].room.nodes) == "1"


def test_a_dropped_earmark_ends_and_an_unknown_one_does_not_matter() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 900, to="big"))
    assert [each.event for each in host.drop("e1").records] == ["earmark_ended"]
    assert host.drop("e1").records == ()
    assert host.place("other", 500) == "0"


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (earmark("e2", "7", 100, to="x"), "there is no NUMA node 7 for pods"),
        (earmark("e2", "0", 929, to="x"), "memory 929Mi is more than 928Mi on node 0"),
        (
            earmark("e2", "0-1", 100, to="x"),
            "room on node 1 is set aside for ns/pod-big; drop that earmark (e1)",
        ),
        (
            earmark("e2", "1", 200, to="x"),
            "memory 200Mi besides 800Mi is more than 928Mi on node 1",
        ),
        (
            earmark("e2", "2-3", 1500, to="x"),
            "memory 1.47Gi besides 800Mi is more than 2.17Gi in all (earmarks.maxPercent: 60)",
        ),
    ],
)
def test_an_earmark_is_refused_with_the_cause(made: object, cause: str) -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "1", 800, to="big"))
    refused = host.make(made)  # type: ignore[arg-type]
    assert refused.refusal == cause
    assert [each.event for each in refused.records] == ["earmark_rejected"]
    assert list(host.engine.state.earmarks) == ["e1"]


def test_what_is_used_does_not_count_for_the_limit() -> None:
    host = EarmarkHost(replace(WITH_EARMARKS, earmarks_percent=25))
    host.make(earmark("e1", "0", 900, to="big"))
    assert host.make(earmark("e2", "1", 100, to="x")).refusal is not None
    assert host.place("big", 900) == "0"
    assert host.make(earmark("e2", "1", 100, to="x")).refusal is None
