"""Values: classes of fields that never change after they were made.

    @valueclass(frozen=True, slots=True)
    class Hint: ...

To mypy this is ``dataclasses.dataclass``, so it refuses every assignment to a field. At run time
it is the same class without the lock on its fields: a frozen dataclass sets each of them through
``object.__setattr__``, and a request makes dozens of values. An eighth of the time between a
request and its reply went there.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as valueclass
else:
    from dataclasses import dataclass

    def valueclass(*, frozen: bool, slots: bool) -> object:
        """Return the decorator; equal values are equal, and `frozen` ones can be hashed."""
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["valueclass"]
