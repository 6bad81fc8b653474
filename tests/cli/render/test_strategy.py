"""The text about the strategy of a placement."""

import pytest

from nri_numamem.cli.render.strategy import strategy_text


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
    fields = {"strategy": strategy, "strategy_source": "setting", "equal_nodes": ["0", "2-3"]}
    assert (
        strategy_text(fields)
        == f"{strategy}, by placementStrategy: {why} of the equal nodes 0, 2-3"
    )


def test_the_strategy_of_an_annotation() -> None:
    fields = {"strategy": "pack", "strategy_source": "annotation"}
    assert strategy_text(fields) == "pack, by the annotation; no other NUMA nodes were equally good"


def test_many_nodes() -> None:
    fields = {"strategy": "pack", "equal_nodes": list("0123456789")}
    assert strategy_text(fields).endswith("equal nodes 0, 1, 2, 3, 4, 5, 6, 7 and 2 more")
