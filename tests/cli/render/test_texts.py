import pytest

from nri_numamem.cli.render.texts import (
    duration,
    format_time,
    known_time,
    partition_text,
    strategy_text,
    time_text,
)
from nri_numamem.numa import Exclusive, NodeSet, Partition, PartitionNodes


def test_a_time_in_utc() -> None:
    assert format_time(1_790_000_000.9) == "2026-09-21T14:13:20Z"
    assert known_time(1_790_000_000.9) == "2026-09-21T14:13:20Z"
    assert known_time(None) is None
    assert time_text(1_790_000_000.9) == "2026-09-21 14:13:20 UTC"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "1970-01-01T00:00:00Z"),
        (10**18, "9999-12-31T23:59:59Z"),
        (10**400, "9999-12-31T23:59:59Z"),
        (float("inf"), "9999-12-31T23:59:59Z"),
    ],
)
def test_a_time_that_is_no_date(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (7199, "1 h"), (86_400 * 3.5, "3 d")],
)
def test_the_largest_whole_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("pack", "least free memory"),
        ("spread", "most free memory"),
        ("balanced-with-cpus", "best balance of memory and CPU requests"),
        ("later", "first"),
    ],
)
def test_why_the_choice_won(strategy: str, why: str) -> None:
    equal = (NodeSet([0]), NodeSet([2, 3]))
    assert (
        strategy_text(strategy, "setting", equal)
        == f"{strategy}, by placementStrategy: {why} of the equal nodes 0, 2-3"
    )


def test_the_strategy_of_an_annotation() -> None:
    text = strategy_text("pack", "annotation", ())
    assert text == "pack, by the annotation; no other NUMA nodes were equally good"


def test_many_nodes() -> None:
    nodes = [NodeSet([node_id]) for node_id in range(10)]
    assert strategy_text("pack", "setting", nodes).endswith(
        "equal nodes 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (PartitionNodes(Partition("web"), NodeSet([0])), "partition web: node 0"),
        (
            PartitionNodes(
                Partition("web", exclusive=Exclusive.GUARANTEED, confine=True), NodeSet([2, 3])
            ),
            "partition web: nodes 2-3, exclusive guaranteed, confine",
        ),
        (
            PartitionNodes(Partition("web", confine=True), NodeSet(), "why"),
            "partition web is unusable: why",
        ),
    ],
)
def test_a_partition_on_a_machine(found: PartitionNodes, text: str) -> None:
    assert partition_text(found) == text
