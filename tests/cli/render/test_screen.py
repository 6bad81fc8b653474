"""Lines of the screen: indentation, width, trailing blanks, colours, ASCII."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from nri_numamem.cli.render.screen import Screen, new_console
from nri_numamem.memorymanager.state_json import StateJson

GI = 1 << 30


def state(assignments: int = 0) -> StateJson:
    table = {"total": GI, "systemReserved": 0, "allocatable": GI, "reserved": 0, "free": GI}
    return {
        "machineState": {
            "0": {
                "numberOfAssignments": assignments,
                "memoryMap": {"memory": table},  # type: ignore[dict-item]
                "cells": [0],
            }
        },
        "entries": {},
    }


class Printed:
    """A screen and its output."""

    def __init__(self, width: int = 40, encoding: str = "utf-8") -> None:
        self._raw = io.BytesIO()
        self._file = io.TextIOWrapper(self._raw, encoding=encoding)
        console = Console(file=self._file, width=width, highlight=False, color_system=None)
        self.screen = Screen(console)

    @property
    def lines(self) -> list[str]:
        self._file.flush()
        return self._raw.getvalue().decode(self._file.encoding).splitlines()


def test_headings_fill_the_width_and_are_separated_by_a_line() -> None:
    printed = Printed(20)
    printed.screen.heading("One")
    printed.screen.heading("Two")
    assert printed.lines == [f"One {'─' * 16}", "", f"Two {'─' * 16}"]


def test_ascii_only() -> None:
    printed = Printed(20, "ascii")
    printed.screen.heading("One")
    printed.screen.accounting(state(), None, {})
    printed.screen.legend()
    assert printed.lines[0] == f"One {'-' * 16}"
    assert all(line.isascii() for line in printed.lines)


def test_labelled_text_wraps_beside_its_label() -> None:
    printed = Printed(24)
    printed.screen.labelled("checksum", "one two three four")
    assert printed.lines == ["  checksum  one two", "            three four"]


def test_no_line_has_trailing_blanks() -> None:
    printed = Printed()
    table = Table(box=None)
    table.add_column("a")
    table.add_column("b")
    table.add_row("x", "")
    printed.screen.shown(table)
    printed.screen.text("text")
    printed.screen.accounting(state(), None, {})
    assert [line for line in printed.lines if line != line.rstrip()] == []
    assert all(line.startswith("  ") for line in printed.lines if line)


def test_equal_nodes_are_one_line() -> None:
    printed = Printed()
    printed.screen.accounting(state(), state(), {})
    assert printed.lines == ["  nodes     unchanged"]


def test_changed_nodes_are_a_table() -> None:
    printed = Printed(60)
    printed.screen.accounting(state(1), state(), {})
    blank, head, row = printed.lines
    assert blank == ""
    assert head.split() == ["node", "group", "memory", "free"]
    assert row.startswith("  >   0 single ")


@pytest.mark.parametrize(("columns", "width"), [("70", 70), ("120", 120), ("300", 120)])
def test_the_console_is_at_most_120_columns_wide(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert new_console().width == width


def test_output_that_is_no_terminal_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(new_console()).labelled("label", "text", "red")
    assert capsys.readouterr().out == "  label     text\n"
