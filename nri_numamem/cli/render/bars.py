"""Bars of amounts, and the style of all tables without borders.

Each part of a bar has its own glyph, so a bar is readable without colours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Column, Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar."""

    name: str
    glyph: str
    ascii_glyph: str
    style: str

    def drawn(self, cells: int, *, ascii_only: bool) -> Text:
        """Return the part with this width."""
        return Text((self.ascii_glyph if ascii_only else self.glyph) * cells, style=self.style)


RESERVED = Part("system reserved", "▒", "%", "bright_black")
NOT_FOR_PODS = Part("not for pods", "▒", "%", "bright_black")
POOLS = Part("hugepage pools", "≡", "=", "magenta")
ASSIGNED = Part("assigned", "█", "#", "cyan")
HELD = Part("kept for a pod", "▓", "+", "blue")
FREE = Part("free", "·", ".", "green")


def bar(sizes: Sequence[tuple[Part, int]], width: int, *, ascii_only: bool) -> Text:
    """Return a bar of `width` cells with parts in proportion to their sizes."""
    drawn = Text()
    for (part, _), cells in zip(sizes, bar_cells([size for _, size in sizes], width), strict=True):
        drawn += part.drawn(cells, ascii_only=ascii_only)
    return drawn


def bar_cells(sizes: Sequence[int], width: int) -> list[int]:
    """Divide `width` cells in proportion to `sizes`; a size above 0 gets at least one cell.

    The largest size gets the rounding difference, so `width` must be a few times len(sizes).
    """
    total = sum(sizes)
    if not total:
        return [0] * len(sizes)
    cells = [max(1, round(size * width / total)) if size else 0 for size in sizes]
    cells[sizes.index(max(sizes))] += width - sum(cells)
    return cells


def legend_of(parts: Iterable[Part], *, gap: int = 3, ascii_only: bool) -> Text:
    """Return the legend of parts as one line."""
    line = Text()
    for part in parts:
        line += part.drawn(2, ascii_only=ascii_only)
        line.append(f" {part.name}{' ' * gap}")
    line.rstrip()
    return line


def plain_table(*columns: str | Column, gap: int = 2) -> Table:
    """Return a table without rows: no border, a dim header, `gap` blanks between columns.

    A column that is only a title folds long cells.
    """
    headers = [Column(each, overflow="fold") if isinstance(each, str) else each for each in columns]
    return Table(*headers, box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")


def fixed(title: str, width: int | None = None) -> Column:
    """Return a column that is never folded."""
    return Column(title, width=width, no_wrap=True)


def numeric(title: str, width: int | None = None) -> Column:
    """Return a column of numbers, or of texts that are aligned like numbers."""
    return Column(title, justify="right", width=width, no_wrap=True)
