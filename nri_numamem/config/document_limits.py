"""How many values a document may have, and how deeply they may be nested.

Parsed values take up to a hundred times the memory of their text, and a value takes some 20 µs. An
alias of YAML counts as all the values to which it refers: a program that follows aliases would see
a few lines as any number of values.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

MAX_DEPTH = 64
"""Objects of Kubernetes have half as many levels, except in schemas."""
MAX_VALUES = 32_768
"""Settings for 1,024 NUMA nodes with five page sizes each have 18,000; they take some 25 MiB."""
MANY_VALUES = 500_000
"""For commands that an administrator starts: the pods of some 2,000 manifests, in some 350 MiB."""


class LimitError(ValueError):
    """A document exceeds a limit; the text has the problem and the remedy."""


class Extent:
    """Counts the values of documents while they are read."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._values = 0
        self._depth = 0
        self._deepest = 0
        """The largest depth in the value that is read, and in those before it in the same one."""
        self._anchored: dict[str, tuple[int, int]] = {}
        """Anchor -> number and levels of the values in it."""

    @contextmanager
    def value(self, anchor: str | None) -> Iterator[None]:
        """Count a value; what is counted in this context is inside it. Raises LimitError."""
        values, deepest = self._values, self._deepest
        if anchor is not None:
            self._anchored.pop(anchor, None)  # that of an earlier document
        self._deepest = self._depth
        self._add(1, 1)
        self._depth += 1
        yield
        self._depth -= 1
        if anchor is not None:
            self._anchored[anchor] = self._values - values, self._deepest - self._depth
        self._deepest = max(deepest, self._deepest)

    def alias(self, anchor: str) -> None:
        """Count the values to which an alias refers; raise LimitError."""
        if anchor not in self._anchored:
            raise LimitError(f"the alias *{anchor:.60} is inside of its own value; remove it")
        self._add(*self._anchored[anchor])

    def _add(self, values: int, levels: int) -> None:
        self._values += values
        self._deepest = max(self._deepest, self._depth + levels)
        if self._deepest > MAX_DEPTH:
            raise LimitError(f"nested too deeply, more than {MAX_DEPTH} levels; simplify it")
        if self._values > self._max_values:
            remedy = "make it shorter, and use fewer aliases"
            raise LimitError(f"more than {self._max_values} values; {remedy}")


def is_too_deep(document: object) -> bool:
    """Return whether a document without aliases, such as JSON, has more than MAX_DEPTH levels."""
    level = [document]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if not inner:
            return False
        level = inner
    return True
