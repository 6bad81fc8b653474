"""Print headings, labelled lines and tables for the commands.

Lines are at most as wide as the terminal and 120 columns. They have no trailing blanks, and no
colours unless the output is a terminal.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from nri_numamem.cli.render.node_table import (
    container_table,
    legend,
    node_table,
    shows_containers,
)
from nri_numamem.memorymanager.state_json import StateJson

# Longer lines are hard to read.
_MAX_WIDTH = 120
_INDENT = 2
_LABEL_WIDTH = 8

# What Python sets LC_CTYPE to at its start if LANG is C. Source: PEP 538.
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
# The environment at the start of the process.
_ENVIRONMENT = Path("/proc/self/environ")


class _Console(Console):
    @property
    def encoding(self) -> str:
        """The encoding of the output; Python uses UTF-8 in the C locale too."""
        return "ascii" if _is_c_locale() else super().encoding

    def on_broken_pipe(self) -> None:
        """Leave the error to the entry point; rich would exit with status 1."""
        raise BrokenPipeError


def _is_c_locale() -> bool:
    """Return whether the environment names the C locale; an empty one names none."""
    names = ["LC_ALL", "LC_CTYPE", "LANG"]
    if os.environ.get("LC_CTYPE") in _COERCED and not _is_given("LC_CTYPE"):
        names.remove("LC_CTYPE")
    return next(filter(None, map(os.environ.get, names)), "") in ("C", "POSIX")


def _is_given(name: str) -> bool:
    """Return whether the process was started with a variable of the environment."""
    try:
        given = _ENVIRONMENT.read_bytes().split(b"\0")
    except OSError:
        return True
    return any(each.startswith(f"{name}=".encode()) for each in given)


def new_console() -> Console:
    """Return a console on standard output with at most 120 columns."""
    console = _Console(highlight=False)
    console.width = min(console.width, _MAX_WIDTH)
    return console


class Screen:
    """Prints headings, and indented texts and tables; on standard output by default."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = new_console() if console is None else console
        self.ascii_only = self._console.options.ascii_only
        """Whether the output's encoding has only ASCII characters."""
        self._lines = 0

    @property
    def width(self) -> int:
        """Columns of what shown() prints."""
        return self._console.width - _INDENT

    def heading(self, title: str) -> None:
        """Print a title and a rule, after an empty line unless it is the first line."""
        if self._lines:
            self._console.print()
        rule = "-" if self.ascii_only else "─"
        title_text = Text(title, "bold")
        self._print(Rule(title_text, align="left", characters=rule, style="dim"))

    def text(self, text: str) -> None:
        """Print a paragraph."""
        self.shown(Text(text))

    def labelled(self, label: str, text: str, style: str = "") -> None:
        """Print a label and a text; further lines of the text are indented as the first."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", width=_LABEL_WIDTH)
        grid.add_column(overflow="fold")
        grid.add_row(label, Text(text, style))
        self.shown(grid)

    def shown(self, renderable: RenderableType) -> None:
        """Print a table or another object of rich."""
        self._print(Padding(renderable, (0, 0, 0, _INDENT), expand=False))

    def accounting(
        self,
        accounting: StateJson,
        before: StateJson | None,
        pod_names: Mapping[str, str],
        *,
        lists_containers: bool = True,
    ) -> None:
        """Print the node table, or one line if it is equal to the table `before`.

        With `lists_containers` a narrow terminal gets the containers as a table of their own.
        """
        if before is not None and before["machineState"] == accounting["machineState"]:
            self.labelled("nodes", "unchanged")
            return
        self._console.print()
        width, ascii_only = self.width, self.ascii_only
        table = node_table(
            accounting, width=width, pod_names=pod_names, before=before, ascii_only=ascii_only
        )
        self.shown(table)
        has_containers = lists_containers and any(accounting["entries"].values())
        if has_containers and not shows_containers(width):
            self._console.print()
            self.shown(container_table(accounting, pod_names))

    def legend(self) -> None:
        """Print the legend of the bars."""
        self._console.print()
        self.shown(legend(ascii_only=self.ascii_only))

    def _print(self, renderable: RenderableType) -> None:
        # rich pads lines with blanks; trailing blanks are removed for files and copied text.
        for line in self._console.render_lines(renderable, pad=False):
            # rich shortens long texts with "…" in any encoding.
            shown = [_in_ascii(segment) for segment in line] if self.ascii_only else line
            self._console.print(_without_trailing_blanks(shown))
            self._lines += 1


def _in_ascii(segment: Segment) -> Segment:
    return Segment(segment.text.encode("ascii", "replace").decode("ascii"), segment.style)


def _without_trailing_blanks(line: list[Segment]) -> Segments:
    """Return a line without trailing blanks, with a newline."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    last = [Segment(segment.text.rstrip(), segment.style) for segment in line[-1:]]
    return Segments([*line[:-1], *last, Segment.line()])
