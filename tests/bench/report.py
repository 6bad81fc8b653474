"""What comes of the figures: ratios, which targets they reach, and the page that says so.

Pure: figures in, text out. A target that is missed is told, and is no error.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

# Below this line a page is made by the benchmark; above it, by people.
RESULTS_LINE = "<!-- made by the benchmark from here on -->"

REACHED, MISSED, NOT_MEASURED = "reached", "**missed**", "not measured"


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on one measured number."""

    key: str
    words: str
    limit: float
    unit: str = ""
    """Of number and limit; "" for a ratio."""


@dataclass(slots=True)
class Results:
    """All numbers of one run, by key, and what they were measured on."""

    machine: Mapping[str, object] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    figures: dict[str, object] = field(default_factory=dict)

    def number(self, key: str) -> float | None:
        """Return a measured number; None when it is missing."""
        found = self.ratios.get(key, self.figures.get(key))
        return float(found) if isinstance(found, int | float) else None

    def as_json(self) -> str:
        """Return the document for build/bench.json."""
        ratios = {key: round(ratio, 4) for key, ratio in self.ratios.items()}
        document = {"machine": self.machine, "ratios": ratios, "figures": self.figures}
        return json.dumps(document, indent=1) + "\n"


def verdict(target: Target, results: Results) -> str:
    """Return whether a target is reached."""
    number = results.number(target.key)
    if number is None:
        return NOT_MEASURED
    return REACHED if number <= target.limit else MISSED


def target_rows(targets: Iterable[Target], results: Results) -> list[Sequence[str]]:
    """Return a table: what, key, measured, target, verdict."""
    rows: list[Sequence[str]] = [("what", "key", "measured", "target", "")]
    for target in targets:
        number = results.number(target.key)
        measured = "" if number is None else f"{number:.2f} {target.unit}".strip()
        limit = f"≤ {target.limit:g} {target.unit}".strip()
        rows.append((target.words, f"`{target.key}`", measured, limit, verdict(target, results)))
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns are aligned also for those who read the text."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    head, *rest = rows
    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([line(head), rule, *(line(row) for row in rest)])


def tables_text(sections: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """Return the tables under their titles."""
    return "\n\n".join(f"## {title}\n\n{markdown(rows)}" for title, rows in sections.items()) + "\n"


def with_results(page: str, results: str) -> str:
    """Return a page with other results; ValueError when it has no place for them."""
    words, line, _ = page.partition(RESULTS_LINE)
    if not line:
        raise ValueError(f"the page has no line {RESULTS_LINE!r}")
    return f"{words}{line}\n\n{results}"
