"""Values: classes of fields that never change after they were made, and what follows from them.

    @valueclass(frozen=True, slots=True)
    class Hint: ...

To mypy this is ``dataclasses.dataclass``, so it refuses every assignment to a field. At run time
it is the same class without the lock on its fields: a frozen dataclass sets each of them through
``object.__setattr__``, and a request makes dozens of values. An eighth of the time between a
request and its reply went there.

What follows from fields and is not always asked for is a method under ``@once``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

_T = TypeVar("_T")
_V = TypeVar("_V")

if TYPE_CHECKING:
    from dataclasses import dataclass as valueclass
else:
    from dataclasses import dataclass

    def valueclass(*, frozen: bool, slots: bool) -> object:
        """Return the decorator; equal values are equal, and `frozen` ones can be hashed."""
        return dataclass(slots=slots, unsafe_hash=frozen)


class once(Generic[_T, _V]):  # noqa: N801 (a decorator)
    """An attribute that is worked out when it is asked for the first time.

    ``functools.cached_property`` without its lock, which takes longer than much of what is worked
    out (until Python 3.12). Two threads may work it out twice.
    """

    def __init__(self, work_out: Callable[[_T], _V]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type[_T], name: str) -> None:
        self._name = name

    def __get__(self, instance: _T, owner: type[_T]) -> _V:
        """Work it out and enter it beside the fields, where it is found first from then on."""
        value = instance.__dict__[self._name] = self._work_out(instance)
        return value


__all__ = ["once", "valueclass"]
