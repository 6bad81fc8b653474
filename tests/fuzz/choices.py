"""Structured input from a fuzzer's bytes: every draw consumes the next bytes.

After the last byte all draws return zero values, so that every input is valid and finite. Small
draws consume one byte: a fuzzer that changes one byte changes one decision.
"""

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Choices:
    """Draws values from bytes; true until all bytes are consumed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        data = self._data[self._at : self._at + count]
        self._at += count
        return data

    def byte(self) -> int:
        """Return a number from 0 to 255."""
        return int.from_bytes(self.take(1))

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1, of one byte."""
        return self.byte() % limit

    def flag(self) -> bool:
        """Return a truth value; False at the end."""
        return bool(self.byte() & 1)

    def integer(self, size_bytes: int) -> int:
        """Return a signed number of `size_bytes` bytes."""
        return int.from_bytes(self.take(size_bytes), signed=True)

    def pick(self, values: Sequence[_T]) -> _T:
        """Return one of the values; the first at the end."""
        return values[self.below(len(values))]

    def block(self) -> bytes:
        """Draw a length of two bytes, then return that number of bytes."""
        return self.take(int.from_bytes(self.take(2)))

    def text(self) -> str:
        """Return a short text of arbitrary Unicode characters."""
        return self.take(self.byte()).decode("utf-8", "replace")
