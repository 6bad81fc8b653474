import io

import pytest
from rich.console import Console

from nri_numamem.cli.render.bars import ASSIGNED, FREE, HELD, bar, bar_cells, legend_of, plain_table


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


@pytest.mark.parametrize("gap", [1, 2])
def test_columns_have_a_gap_and_no_border(gap: int) -> None:
    table = plain_table(gap=gap)
    table.add_column("a")
    table.add_column("b")
    table.add_row("1", "2")
    console = Console(file=io.StringIO(), width=20, color_system=None)
    with console.capture() as capture:
        console.print(table)
    blanks = " " * gap
    assert [line.rstrip() for line in capture.get().splitlines()] == [f"a{blanks}b", f"1{blanks}2"]
