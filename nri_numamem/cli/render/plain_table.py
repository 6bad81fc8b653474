"""The style of all tables without borders."""

from rich.table import Table


def plain_table(*, gap: int = 2) -> Table:
    """Return a table without columns: no border, a dim header, `gap` blanks between columns."""
    return Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
