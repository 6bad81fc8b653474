"""What commands that tell a story print with: headings, labelled lines, the node table.

Lines are no wider than the terminal nor than 120 columns, have no blanks at their ends, and no
colours where output is no terminal.
"""

from collections.abc import Mapping

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from nri_numamem.cli.tables import Books, legend, node_table

# Beyond this, lines are hard to follow with the eye.
_MAX_WIDTH = 120
_INDENT = 2
_LABEL_WIDTH = 7


def new_console() -> Console:
    """Return a console on standard output that is no wider than lines are easy to follow."""
    console = Console(highlight=False)
    console.width = min(console.width, _MAX_WIDTH)
    return console


class Screen:
    """Prints a few kinds of lines, indented, without blanks at line ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._ascii_only = console.options.ascii_only
        self._lines = 0

    def heading(self, title: str) -> None:
        """Print a title with a rule, after an empty line."""
        if self._lines:
            self._console.print()
        rule = "-" if self._ascii_only else "─"
        title_text = Text(title, "bold")
        self._print(Rule(title_text, align="left", characters=rule, style="dim"))

    def text(self, text: str) -> None:
        """Print a paragraph."""
        self._print_indented(Text(text))

    def labelled(self, label: str, text: str, style: str = "") -> None:
        """Print a label, and beside it a text that wraps under itself."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", width=_LABEL_WIDTH)
        grid.add_column()
        grid.add_row(label, Text(text, style))
        self._print_indented(grid)

    def shown(self, what: RenderableType) -> None:
        """Print a table or the like."""
        self._print_indented(what)

    def books(self, books: Books, before: Books | None, pod_names: Mapping[str, str]) -> None:
        """Print the node table, unless it is the same as before."""
        if before is not None and before["machineState"] == books["machineState"]:
            self.labelled("nodes", "as before")
            return
        self._console.print()
        self._print_indented(
            node_table(
                books,
                width=self._console.width - _INDENT,
                pod_names=pod_names,
                before=before,
                ascii_only=self._ascii_only,
            )
        )

    def legend(self) -> None:
        """Print what the bars mean."""
        self._console.print()
        self._print_indented(legend(ascii_only=self._ascii_only))

    def _print_indented(self, what: RenderableType) -> None:
        self._print(Padding(what, (0, 0, 0, _INDENT), expand=False))

    def _print(self, what: RenderableType) -> None:
        # rich fills every line up with blanks, which is ugly in a file or a pasted terminal.
        for line in self._console.render_lines(what, pad=False):
            self._console.print(_without_trailing_blanks(line))
            self._lines += 1


def _without_trailing_blanks(line: list[Segment]) -> Segments:
    """Return the line without blanks at its end, and with the end of line."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    last = [Segment(segment.text.rstrip(), segment.style) for segment in line[-1:]]
    return Segments([*line[:-1], *last, Segment.line()])
