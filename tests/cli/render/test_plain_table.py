"""Columns without borders, and the gap between them."""

import io

import pytest
from rich.console import Console

from nri_numamem.cli.render.plain_table import plain_table


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
