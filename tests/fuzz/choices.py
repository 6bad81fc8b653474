"""From a fuzzer's bytes to structured input: every draw takes the next bytes.

Bytes that are used up count as zeros, so that every input is a valid one and ends by itself.
Small draws take one byte: a fuzzer that changes one byte changes one decision.
"""

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Choices:
    """Draws values from bytes; true while some are left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

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
        """Return a signed number of so many bytes."""
        return int.from_bytes(self.take(size_bytes), signed=True)

    def pick(self, values: Sequence[_T]) -> _T:
        """Return one of the values; the first at the end."""
        return values[self.below(len(values))]

    def block(self) -> bytes:
        """Return bytes whose number is drawn before them."""
        return self.take(int.from_bytes(self.take(2)))

    def text(self) -> str:
        """Return a short text of any characters that UTF-8 can hold."""
        return self.take(self.byte()).decode("utf-8", "replace")
