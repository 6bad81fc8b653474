"""The text about the strategy of a placement."""

import pytest

from nri_numamem.cli.render.strategy import strategy_text
from nri_numamem.numa import NodeSet


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
