import pytest

from nri_numamem.cli.render.bars import ASSIGNED, FREE, HELD, bar, bar_cells, legend_of


@pytest.mark.parametrize(
    ("sizes", "cells"),
    [([], []), ([0, 0], [0, 0]), ([1, 1], [5, 5]), ([1, 999], [1, 9]), ([0, 3], [0, 10])],
)
def test_cells(sizes: list[int], cells: list[int]) -> None:
    assert bar_cells(sizes, 10) == cells


def test_each_part_has_its_glyph() -> None:
    sizes = [(ASSIGNED, 2), (HELD, 1), (FREE, 1)]
    assert bar(sizes, 8, ascii_only=False).plain == "████▓▓··"
    assert bar(sizes, 8, ascii_only=True).plain == "####++.."


def test_the_legend_is_one_line() -> None:
    assert legend_of((ASSIGNED, FREE), gap=1, ascii_only=True).plain == "## assigned .. free"
    assert legend_of((ASSIGNED, FREE), ascii_only=True).plain == "## assigned   .. free"
